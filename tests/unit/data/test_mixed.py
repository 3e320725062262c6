"""Data as parts of a mixed storage: from files, by name, in an agent, on the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect as rc
from recollect import keys
from recollect.config import build, resolve
from recollect.data.npz import write_npz
from recollect.data.offline import load_data
from recollect.data.sources import load_into, open_source
from recollect.data.storing import episodes_in, spaces_of
from recollect.errors import ConfigError
from tests.unit.cli.conftest import Run, recollect
from tests.unit.data.test_offline import SMALL, config_of, make_episode, spaces, words

__all__ = ["recollect"]  # the fixture


def write(path: Path, seed: int, lengths: list[int]) -> Path:
    rng = np.random.default_rng(seed)
    return write_npz(path, [make_episode(rng, length) for length in lengths], spaces())


@pytest.fixture
def expert(tmp_path: Path) -> Path:
    return write(tmp_path / "expert.npz", 1, [30, 20, 25])


@pytest.fixture
def medium(tmp_path: Path) -> Path:
    return write(tmp_path / "medium.npz", 2, [40])


@pytest.mark.parametrize("num_envs", [1, 2])
def test_every_step_of_a_part_is_that_of_its_file(num_envs: int, expert: Path, medium: Path, tmp_path: Path) -> None:
    shares = {"expert": 0.25, "medium": 0.5}
    memory = rc.MixedBuffer.standalone(500, num_envs=num_envs, data_share=shares, seed=1)
    load_into(memory, open_source(expert))
    load_into(memory, open_source(medium), part="medium")
    assert memory.sources == ["expert", "medium"]
    assert len(memory) == 115
    rewards = {name: np.concatenate([e.rewards for e in open_source(path)]) for name, path in
               (("expert", expert), ("medium", medium))}  # fmt: skip
    drawn = memory.sample(300)[keys.REWARD][:, 0].numpy()
    assert np.isin(drawn, rewards["expert"]).sum() == 100  # a quarter to a half
    assert np.isin(drawn, rewards["medium"]).sum() == 200
    again = open_source(write_npz(tmp_path / "again.npz", episodes_in(memory), spaces_of(memory)))
    assert sorted(len(episode) for episode in again) == [20, 25, 30, 40]


@pytest.mark.parametrize("storage", [rc.MixedBuffer, rc.PERBuffer])
def test_a_part_that_is_not_named_is_refused(storage: Any, expert: Path) -> None:
    memory = storage.standalone(100)
    with pytest.raises(ConfigError, match="the storage has no part 'mine' for data; use a MixedBuffer that names it"):
        load_into(memory, open_source(expert), part="mine")
    assert len(memory) == 0


def test_rlpd_learns_from_half_data_and_resumes(expert: Path, recollect: Run, tmp_path: Path) -> None:
    pace = {**SMALL, "start_steps": 4, "num_critics": 3}
    given = ("--data", str(expert), "--final-episodes", "1", *words(pace))
    outcome = recollect("train", "rlpd", "Pendulum-v1", "--steps", "40", *given)
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "runs" / "pendulum-rlpd-1"
    outcome = recollect("resume", str(folder), "--steps", "60")
    assert outcome.code == 0, outcome.err
    with rc.Agent.load(folder) as agent:
        storage: Any = agent.scheme.col_worker.storage
        assert (type(storage), len(storage)) == (rc.MixedBuffer, 75 + 60)
        known = np.concatenate([episode.rewards for episode in open_source(expert)])
        assert np.isin(storage.sample(64)[keys.REWARD][:, 0].numpy(), known).sum() == 32


def test_parts_by_name_in_a_config(expert: Path, medium: Path) -> None:
    places = {"expert": str(expert), "medium": str(medium)}
    shares = {"expert": 0.25, "medium": 0.25}
    given = {**SMALL, "data": places, "storage": "mixed", "storage.data_share": shares}
    config = resolve("sac", "Pendulum-v1", preset="none", overrides=given)
    scheme = build(config)
    load_data(config, scheme)
    storage: Any = scheme.col_worker.storage
    assert (storage.sources, len(storage)) == (["expert", "medium"], 115)
    scheme.stop()


def test_data_without_room_beside_the_collectors_are_refused(expert: Path) -> None:
    config = config_of("sac", expert, **{"storage": "mixed", "storage.size": 140})
    scheme = build(config)
    with pytest.raises(ConfigError, match="use a size of at least 150"):
        load_data(config, scheme)
    scheme.stop()
