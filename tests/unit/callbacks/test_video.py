"""Videos are recorded in the middle of a training, which continues as if there were none."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

from recollect.api import Agent
from recollect.callbacks import RecordVideo
from recollect.errors import ConfigError
from tests.unit.test_api import SMALL


def weights_after(folder: Path, **options: object) -> dict[str, torch.Tensor]:
    agent = Agent("ddqn", "CartPole-v1", **{**SMALL, **options}).learn(40, log_dir=folder)  # type: ignore[arg-type]
    return dict(agent.scheme.actor.state_dict())


@pytest.mark.slow
def test_episodes_are_recorded_every_so_many_steps(tmp_path: Path) -> None:
    agent = Agent("ddqn", "CartPole-v1", **SMALL)
    agent.learn(40, log_dir=tmp_path / "run", callbacks=[RecordVideo(15, num_episodes=2)])
    folders = sorted((tmp_path / "run" / "videos").iterdir())
    assert [folder.name for folder in folders] == ["step-15", "step-30"]
    assert all(len(list(folder.glob("*.mp4"))) == 2 for folder in folders)
    undisturbed = weights_after(tmp_path / "other")
    assert all(torch.equal(value, undisturbed[name]) for name, value in agent.scheme.actor.state_dict().items())


def test_what_draws_no_pictures_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    agent = Agent("ddqn", "recollect/BitFlip-v0", "her", **{**SMALL, "num_test_envs": 1})
    with pytest.raises(ConfigError, match="recollect/BitFlip-v0 cannot be recorded: it has no render mode"):
        agent.learn(40, log_dir=tmp_path / "run", callbacks=[RecordVideo(10)])
    assert not (tmp_path / "run").exists()


def make_task(max_steps: int = 9) -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", max_episode_steps=max_steps)


def test_what_cannot_be_told_to_draw_pictures_says_how(tmp_path: Path) -> None:
    agent = Agent("ddqn", make_task, **{**SMALL, "num_test_envs": 1})
    with pytest.raises(ConfigError, match="make_task cannot be recorded: it takes no render_mode; let it take one"):
        agent.learn(40, callbacks=[RecordVideo(10)])
