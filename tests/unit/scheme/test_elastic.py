"""The same environments give the same run, bit for bit, however many workers hold them, and without workers too."""

from typing import Any

import numpy as np
import pytest
import torch

from recollect.agent.actors import OffPolicyActor, OnPolicyActor
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.envs import VecEnv
from recollect.agent.storages import STORAGES
from recollect.scheme.scheme import Scheme
from tests.unit.scheme.fake_engine import FakeEngine

pytestmark = pytest.mark.slow

NUM_ALL = 4
# Total steps at which random actions end lie in the middle of a stage.
CELLS: dict[str, dict[str, Any]] = {
    "ddqn-per": {
        "algo": "ddqn",
        "env": "CartPole-v1",
        "storage": "per",
        "numbers": {"start_steps": 84, "epsilon_steps": 300},
    },
    "sac-nstep": {"algo": "sac", "env": "Pendulum-v1", "storage": "nstep", "numbers": {"start_steps": 84}},
    "ddpg-ou-ere": {"algo": "ddpg", "env": "Pendulum-v1", "storage": "ere", "numbers": {"noise": "ou"}},
    "sac-memory": {
        "algo": "sac",
        "env": "Pendulum-v1",
        "storage": "replay",
        "numbers": {"start_steps": 84},
        "actor": {"memory": "gru", "memory_size": 4},
    },
    "ppo": {"algo": "ppo", "env": "CartPole-v1", "storage": "gae", "numbers": {"num_epochs": 2}},
}


def make_scheme(name: str, num_workers: int, **options: Any) -> Scheme:
    """A small agent whose environments are held by so many workers; 0 has them in the learner's own process."""
    cell = CELLS[name]
    algorithm = ALGORITHMS.find(cell["algo"])
    num_envs = NUM_ALL // max(1, num_workers)
    given = {"update_every": 10, "num_mini_batch": 2, **cell["numbers"]}
    if not algorithm.is_on_policy:
        given = {"mini_batch_size": 16, "start_steps": 40, **given}
    envs, action_space, obs_space = VecEnv.create_factory(cell["env"], None, num_envs, seed=5)
    actor_class = OnPolicyActor if algorithm.is_on_policy else OffPolicyActor
    algo = algorithm.create_factory(**given)
    actor = actor_class.create_factory(
        obs_space, action_space, algo, seed=6, hidden_sizes=(16,), **cell.get("actor", {})
    )
    # As many steps in all, as the command line has it.
    size = 10 if algorithm.is_on_policy else 400 // num_envs
    storage = STORAGES[cell["storage"]].create_factory(size, seed=7)
    return Scheme(algo, actor, storage, envs, device="cpu", num_col_workers=num_workers, **options)


def run(name: str, num_workers: int, num_stages: int = 30, **options: Any) -> dict[str, Any]:
    """Train, and say what became of it."""
    scheme = make_scheme(name, num_workers, **options)
    for _ in range(num_stages):
        scheme.update_worker.step()
    found = standing(scheme)
    scheme.stop()
    return found


def standing(scheme: Scheme) -> dict[str, Any]:
    """Weights, optimiser, steps, priorities and episodes of a run."""
    storage: Any = scheme.storage
    episodes = scheme.col_worker.episodes
    found: dict[str, Any] = {f"actor.{name}": value for name, value in scheme.actor.state_dict().items()}
    found |= {
        f"algo.{name}": value for name, value in scheme.algo.state().items() if name not in ("num_acted", "drift")
    }
    found |= {"num_steps": scheme.num_steps, "num_updates": scheme.num_updates}
    found |= {"recent": [tuple(episode) for episode in episodes.recent], "num_episodes": episodes.num_episodes}
    data = [storage.get_all_buffer_data(source=source) for source in storage.sources]
    for key in data[0]:
        found[f"stored.{key}"] = np.concatenate([np.asarray(each[key]) for each in data], 1)
    return found


def check_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, (np.ndarray, torch.Tensor)):
            assert np.array_equal(np.asarray(found[name]), np.asarray(value)), name
        else:
            assert found[name] == value, name


@pytest.mark.parametrize("name", CELLS)
def test_the_run_does_not_depend_on_the_number_of_workers(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    alone = run(name, 0)
    assert alone["num_updates"] > 0
    assert alone["num_episodes"] > 0
    FakeEngine(monkeypatch)
    for num_workers in (1, 2, 4):
        check_same(run(name, num_workers), alone)
