"""What a config says of an agent that was put together from its parts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from recollect import DDQN, PPO, Agent, GAEBuffer, Learner, OffPolicyActor, OnPolicyActor, PERBuffer, Scheme, VecEnv
from recollect.agent.wrapping import Wrapping
from recollect.config import RunConfig, build
from recollect.config.describe import describe
from recollect.errors import ConfigError, RecollectWarning

HERE = __name__


class Net(torch.nn.Module):
    def __init__(self, space: Any) -> None:
        super().__init__()
        self.out_features = 4

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs


class MyDQN(DDQN):
    """An algorithm of one's own."""


class MyActor(OffPolicyActor):
    """An actor of one's own."""


def make_task(max_steps: int = 9) -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", max_episode_steps=max_steps)


def make_scheme(**parts: Any) -> Scheme:
    envs, action_space, obs_space = VecEnv.create_factory(
        make_task, {"max_steps": 7}, 2, seed=3, wrappers=[{"name": "TimeLimit", "max_episode_steps": 5}]
    )
    algo = MyDQN.create_factory(start_steps=20, update_every=4, num_mini_batch=1, mini_batch_size=8, gamma=0.9)
    actor = OffPolicyActor.create_factory(obs_space, action_space, algo, features=Net, hidden_sizes=(8,), seed=3)
    storage = PERBuffer.create_factory(100, n_step=2, alpha=0.5, seed=3)
    given = {"algo": algo, "actor": actor, "storage": storage, "envs": envs, "test_envs": envs} | parts
    return Scheme(*given.values(), device="cpu")


def test_the_parts_are_told_as_a_file_has_them() -> None:
    document = describe(make_scheme(), 70)
    assert document["algo"]["name"] == f"{HERE}:MyDQN"
    assert document["algo"]["gamma"] == 0.9
    assert document["env"] == {"name": f"{HERE}:make_task", "max_steps": 7}
    assert document["actor"] == {"features": f"{HERE}:Net", "hidden_sizes": (8,)}
    assert document["storage"] == {"name": "per", "size": 100, "n_step": 2, "alpha": 0.5, "seed": 3}
    assert document["wrappers"] == [{"name": "TimeLimit", "max_episode_steps": 5}]
    assert (document["seed"], document["steps"], document["num_envs"], document["num_test_envs"]) == (3, 70, 2, 2)


def test_what_is_built_from_it_is_the_same() -> None:
    scheme = make_scheme()
    again = build(RunConfig.from_document(describe(scheme, 70), trust=True))
    assert again.factories.algo == scheme.factories.algo
    assert again.factories.actor == scheme.factories.actor
    assert again.factories.storage == scheme.factories.storage
    assert again.factories.envs_train == scheme.factories.envs_train
    assert again.factories.envs_test == scheme.factories.envs_test


def test_on_policy_agents_are_told_too() -> None:
    envs, action_space, obs_space = VecEnv.create_factory("CartPole-v1", seed=1)
    algo = PPO.create_factory(update_every=16)
    actor = OnPolicyActor.create_factory(obs_space, action_space, algo, seed=1)
    scheme = Scheme(algo, actor, GAEBuffer.create_factory(16, seed=1), envs, device="cpu")
    document = describe(scheme, 10)
    assert (document["algo"]["name"], document["storage"]["name"], document["env"]) == (
        "ppo",
        "gae",
        {"name": "CartPole-v1"},
    )
    assert build(RunConfig.from_document(document)).factories.algo == algo


def test_a_learner_keeps_it_with_its_run(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 40, tmp_path / "run")
    while not learner.done():
        learner.step()
    learner.save_checkpoint()
    learner.stop()
    agent = Agent.load(tmp_path / "run", trust=True)
    assert isinstance(agent.scheme.algo, MyDQN)
    probes = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    expected = learner.scheme.actor.critics(torch.from_numpy(probes))
    assert torch.equal(agent.scheme.actor.critics(torch.from_numpy(probes)), expected)
    assert agent.num_steps == 40
    agent.close()


def other_parts() -> Mapping[str, tuple[dict[str, Any], str]]:
    envs, action_space, obs_space = VecEnv.create_factory("CartPole-v1", seed=3)
    algo = DDQN.create_factory()
    return {
        "function": (
            {"storage": lambda *place: PERBuffer.create_factory(100)(*place)},
            "the storage_factory",
        ),
        "actor": ({"actor": MyActor.create_factory(obs_space, action_space, algo)}, "the actor class MyActor"),
        "test envs": ({"test_envs": envs}, "test environments of another kind"),
        "networks": (
            {"actor": OffPolicyActor.create_factory(obs_space, action_space, "sac-discrete")},
            "other networks than the algorithm plans",
        ),
    }


@pytest.mark.parametrize("case", ["function", "actor", "test envs", "networks"])
def test_a_learner_says_at_once_what_no_config_can_say(case: str, tmp_path: Path) -> None:
    parts, message = other_parts()[case]
    if case == "networks":
        with pytest.raises(ConfigError, match=message):
            describe(_Unbuilt(**parts), 10)  # type: ignore[arg-type]
        return
    scheme = make_scheme(**parts)
    with pytest.warns(RecollectWarning, match=rf"could read it: a config cannot describe {message}.*resume=True"):
        learner = Learner(scheme, 40, tmp_path / "run")
    learner.stop()


class _Unbuilt:
    """The factories of a scheme that would not work."""

    def __init__(self, **parts: Any) -> None:
        self.factories = (*make_scheme().factories[:1], parts["actor"], *make_scheme().factories[2:])


def test_wrappings_compare_by_what_they_do() -> None:
    assert Wrapping(make_task, {"a": 1}) == Wrapping(make_task, {"a": 1}) != Wrapping(make_task, {"a": 2})
