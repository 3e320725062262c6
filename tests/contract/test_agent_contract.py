"""One suite for every agent: each algorithm with each storage of its family, action space and kind of memory."""

import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from recollect import keys
from recollect.agent.actors import OffPolicyActor, OnPolicyActor
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.envs import VecEnv
from recollect.agent.storages import OFF_POLICY_STORAGES, ON_POLICY_STORAGES, STORAGES, HERBuffer, PERBuffer
from recollect.errors import ConfigError
from recollect.scheme.scheme import Scheme

ACTION_SPACES = {
    "box": Box(np.float32([-1, 0]), np.float32([1, 3])),
    "discrete": Discrete(3),
    "multi-discrete": MultiDiscrete([2, 3]),
    "multi-binary": MultiBinary(2),
}
MEMORIES = (None, "gru", "lstm")
NUM_ENVS, NUM_STAGES, STAGE = 2, 4, 8
_PRIORITISED = {"alpha": 0.6, "beta": 0.4, "epsilon": 0.01, "default_error": 1.0}
_SWITCHED_ON: dict[str, Any] = {"n_step": 2, **_PRIORITISED, "eta": 0.99, "cmin": 10}
STORAGE_OPTIONS: dict[str, dict[str, Any]] = {
    storage: {name: value for name, value in _SWITCHED_ON.items() if name in cls.config_class.docs()}
    for storage, cls in STORAGES.items()
}


class SmallTask(gym.Env[Any, Any]):
    """Moves a point by the sum of the action's numbers; episodes of five to nine steps, ended in both ways."""

    def __init__(self, space: str, with_goal: bool) -> None:
        self.action_space = ACTION_SPACES[space]
        self._with_goal = with_goal
        point = Box(-np.inf, np.inf, (2,), np.float32)
        names = ("observation", keys.ACHIEVED_GOAL, keys.DESIRED_GOAL)
        self.observation_space = Dict(dict.fromkeys(names, point)) if with_goal else point

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._point = self.np_random.standard_normal(2).astype(np.float32)
        self._steps_left = int(self.np_random.integers(5, 10))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._point = self._point + np.float32(0.1) * np.float32(np.sum(action))
        self._steps_left -= 1
        is_over = self._steps_left == 0
        terminated = is_over and bool(self._point[0] > self._point[1])
        reward = float(self.compute_reward(self._point, np.zeros(2, np.float32), {}))
        return self._observe(), reward, terminated, is_over and not terminated, {}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return -np.abs(achieved_goal - desired_goal).sum(-1)

    def _observe(self) -> Any:
        if not self._with_goal:
            return self._point.copy()
        goals = {keys.ACHIEVED_GOAL: self._point.copy(), keys.DESIRED_GOAL: np.zeros(2, np.float32)}
        return {"observation": self._point.copy(), **goals}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Networks of this size are faster so."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def spaces_of(algo: str) -> list[str]:
    return [name for name, space in ACTION_SPACES.items() if isinstance(space, ALGORITHMS[algo].action_spaces)]


def agents() -> Iterator[tuple[str, str, str, str | None]]:
    for algo, algorithm in ALGORITHMS.items():
        storages = ON_POLICY_STORAGES if algorithm.is_on_policy else OFF_POLICY_STORAGES
        for storage in storages:
            for space in spaces_of(algo):
                for memory in MEMORIES:
                    yield algo, storage, space, memory


def build(algo: str, storage: str, space: str, memory: str | None, **actor_options: Any) -> Scheme:
    algorithm = ALGORITHMS[algo]
    pace = {"update_every": STAGE, "num_mini_batch": 2, "mini_batch_size": 16}
    if "policy_delay" in algorithm.config_class.docs():
        pace["policy_delay"] = 2  # so that few updates train the policy too
    start = {"num_epochs": 2} if algorithm.is_on_policy else {"start_steps": 2 * STAGE}
    envs, action_space, obs_space = VecEnv.create_factory(
        SmallTask, {"space": space, "with_goal": issubclass(STORAGES[storage], HERBuffer)}, NUM_ENVS, seed=1
    )
    actor_class = OnPolicyActor if algorithm.is_on_policy else OffPolicyActor
    networks = {"hidden_sizes": (8,), "memory": memory, "memory_size": 4, **actor_options}
    return Scheme(
        algorithm.create_factory(**pace, **start),
        actor_class.create_factory(obs_space, action_space, algorithm, seed=1, **networks),
        STORAGES[storage].create_factory(100, seed=1, **STORAGE_OPTIONS[storage]),
        envs,
        device="cpu",
    )


def train(scheme: Scheme) -> list[dict[str, Any]]:
    """Run a few update stages, and return what was told of each update."""
    for _ in range(NUM_STAGES):
        scheme.update_worker.step()
    scheme.stop()
    return list(scheme.update_worker.recent_updates)


@pytest.mark.parametrize(("algo", "storage", "space", "memory"), list(agents()))
def test_agent_learns_from_what_it_does(algo: str, storage: str, space: str, memory: str | None) -> None:
    scheme = build(algo, storage, space, memory)
    before = {name: weight.clone() for name, weight in scheme.actor.named_parameters()}
    told = listen_for_errors(scheme)
    updates = train(scheme)

    assert scheme.num_steps == NUM_STAGES * STAGE * NUM_ENVS
    assert len(updates) == scheme.num_updates >= 2 * (NUM_STAGES - 1)
    for info in updates:
        scalars = {name: value for name, value in info[keys.ALGORITHM].items() if name != keys.ERRORS}
        assert scalars
        assert all(math.isfinite(value) for value in scalars.values()), scalars

    after = dict(scheme.actor.named_parameters())
    same = [name for name, weight in before.items() if torch.equal(weight, after[name])]
    assert same == []
    assert all(weight.isfinite().all() for weight in after.values())
    if STORAGE_OPTIONS[storage].get("alpha"):
        assert_priorities_are(told, scheme.storage)


def listen_for_errors(scheme: Scheme) -> dict[int, np.float32]:
    """Errors that the algorithm tells from now on, by the id of the step or sequence, always the latest.

    Where a batch has a row twice, the larger error counts; those of a sequence's steps are mixed into one.
    """
    told: dict[int, np.float32] = {}
    compute = scheme.algo.compute_gradients

    def listening(batch: dict[str, Any], grads_to_cpu: bool = True) -> Any:
        gradients, info = compute(batch, grads_to_cpu)
        if keys.ERRORS in info[keys.ALGORITHM]:
            errors = info[keys.ALGORITHM][keys.ERRORS]
            if keys.MASK in batch:
                errors = 0.9 * errors.amax(1) + (1 - 0.9) * errors.mean(1)
            of_batch: dict[int, np.float32] = {}
            for step, error in zip(batch[keys.IDXS].tolist(), errors.numpy().reshape(-1), strict=True):
                of_batch[step] = max(error, of_batch.get(step, error))
            told.update(of_batch)
        return gradients, info

    scheme.algo.compute_gradients = listening
    return told


def assert_priorities_are(told: dict[int, np.float32], storage: PERBuffer) -> None:
    """The tree holds of every step what was told of it last, and of all others the error of new data."""
    tree, ring = storage.tree, storage.store.ring
    assert tree is not None
    assert len(told) >= 2
    assert len(set(told.values())) == len(told), "every step has an error of its own"
    starts = storage.store.starts.slots(ring)
    expected = dict.fromkeys(starts.tolist(), np.float32(storage.default_error))
    expected |= dict(zip(ring.slots(np.array(list(told))).tolist(), told.values(), strict=True))
    assert len(expected) == len(starts)
    errors = np.array([expected[slot] for slot in starts.tolist()])
    np.testing.assert_array_equal(tree.errors[starts], errors)
    priorities = (errors.astype(np.float64) + storage.epsilon) ** storage.alpha
    np.testing.assert_allclose(tree.priorities[starts], priorities, rtol=1e-12)


def test_prioritised_agents_are_in_the_table() -> None:
    """Every algorithm that learns from replay, in every space that it can act in, with and without memory."""
    prioritised = [agent for agent in agents() if STORAGE_OPTIONS[agent[1]].get("alpha")]
    num_spaces = sum(len(spaces_of(name)) for name, algorithm in ALGORITHMS.items() if not algorithm.is_on_policy)
    num_storages = sum(issubclass(cls, PERBuffer) for cls in STORAGES.values())
    assert len(prioritised) == num_spaces * num_storages * len(MEMORIES) > 0


@pytest.mark.parametrize(
    ("algo", "space"),
    [(algo, space) for algo in ALGORITHMS for space in ACTION_SPACES if space not in spaces_of(algo)],
)
def test_an_action_space_that_an_algorithm_cannot_act_in_is_refused(algo: str, space: str) -> None:
    storage = "gae" if ALGORITHMS[algo].is_on_policy else "replay"
    with pytest.raises(ConfigError, match=r"cannot act in .*\. Use the algorithm \w+"):
        build(algo, storage, space, None)


def test_warming_up_a_memory_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="sequence_overlap"):
        build("sac", "replay", "box", None, sequence_overlap=2)


@pytest.mark.parametrize("algo", [name for name in ALGORITHMS if not ALGORITHMS[name].is_on_policy])
@pytest.mark.parametrize("storage", ["replay", "per"])
def test_burn_in_trains_only_the_steps_behind_it(algo: str, storage: str) -> None:
    scheme = build(algo, storage, spaces_of(algo)[0], "gru", sequence_overlap=3)
    errors = [info[keys.ALGORITHM][keys.ERRORS] for info in train(scheme)]
    assert all(error.shape[1] == STAGE - 3 for error in errors)
