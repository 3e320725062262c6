"""Every algorithm that masks actions keeps to the masks with every storage, memory and kind of choice."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import recollect as rc
from recollect.agent.actors import OffPolicyActor, OnPolicyActor
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.envs import VecEnv
from recollect.agent.envs.tasks import BitFlip
from recollect.agent.storages import OFF_POLICY_STORAGES, ON_POLICY_STORAGES, STORAGES, HERBuffer
from recollect.errors import SchemaError
from recollect.scheme.scheme import Scheme
from tests.masked_envs import ACTION_SPACES, MASKS, Gates, is_allowed

MASKED = [name for name, algorithm in ALGORITHMS.items() if algorithm.masks_actions]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Networks of this size are faster so."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def agents() -> Iterator[tuple[str, str, str, str | None]]:
    for algo in MASKED:
        is_on_policy = ALGORITHMS[algo].is_on_policy
        for storage in ON_POLICY_STORAGES if is_on_policy else OFF_POLICY_STORAGES:
            if not issubclass(STORAGES[storage], HERBuffer):  # there are no goals
                for kind, space in ACTION_SPACES.items():
                    if isinstance(space, ALGORITHMS[algo].action_spaces):
                        for memory in (None, "gru"):
                            yield algo, storage, kind, memory


def build(algo: str, storage: str, kind: str, memory: str | None) -> Scheme:
    algorithm = ALGORITHMS[algo]
    pace: dict[str, Any] = {"update_every": 8, "num_mini_batch": 2, "mini_batch_size": 16}
    start = {} if algorithm.is_on_policy else {"start_steps": 16}
    envs, action_space, obs_space = VecEnv.create_factory(Gates, {"action": kind}, 2, seed=1)
    actor_class = OnPolicyActor if algorithm.is_on_policy else OffPolicyActor
    networks = {"hidden_sizes": (8,), "memory": memory, "memory_size": 4, "normalise_observations": True}
    return Scheme(
        algorithm.create_factory(**pace, **start),
        actor_class.create_factory(obs_space, action_space, algorithm, seed=1, **networks),
        STORAGES[storage].create_factory(100, seed=1),
        envs,
        envs,
        device="cpu",
    )


@pytest.mark.parametrize(("algo", "storage", "kind", "memory"), list(agents()))
def test_masks_are_kept_from_the_first_random_step_to_evaluation(
    algo: str, storage: str, kind: str, memory: str | None
) -> None:
    scheme = build(algo, storage, kind, memory)
    for _ in range(4):
        scheme.update_worker.step()
    scheme.col_worker.evaluate_episodes(4)
    updates = list(scheme.update_worker.recent_updates)
    scheme.stop()
    assert len(updates) >= 4
    # The environment fails where an action is taken that it forbids.
    assert scheme.col_worker.envs_train.num_failures == scheme.col_worker.envs_test.num_failures == 0


class HalfBlind(BitFlip):
    """Forbids to flip bits that are right."""

    def action_masks(self) -> np.ndarray:
        wrong = self._bits != self._goal
        return wrong if wrong.any() else ~wrong

    def step(self, action: np.int64) -> Any:
        if not self.action_masks()[action]:
            raise ValueError(f"bit {action} is right")
        return super().step(action)


@pytest.mark.parametrize("algo", [algo for algo in MASKED if not ALGORITHMS[algo].is_on_policy])
def test_masks_stay_with_their_steps_when_goals_are_replaced(algo: str) -> None:
    agent = rc.Agent(algo, HalfBlind, "her", seed=1, start_steps=30, hidden_sizes=(8,), **{"env.n": 5}).learn(100)
    assert agent.scheme.col_worker.envs_train.num_failures == 0
    assert agent.evaluate(5).success_rate == 1.0  # only wrong bits can be flipped
    agent.close()


def make_agent(algo: str, gives: str = "info", **options: Any) -> rc.Agent:
    start = {} if ALGORITHMS[algo].is_on_policy else {"start_steps": 10}
    return rc.Agent(algo, Gates, seed=1, hidden_sizes=(8,), **{"env.gives": gives}, **start, **options)


@pytest.mark.parametrize("algo", MASKED)
@pytest.mark.parametrize("gives", ["info", "method", "observation"])
def test_predictions_are_allowed(algo: str, gives: str) -> None:
    agent = make_agent(algo, gives)
    env = Gates(gives)
    obs, _ = env.reset(seed=1)
    for _ in range(4):
        place = int((obs["place"] if gives == "observation" else obs).argmax())
        masks = None if gives == "observation" else MASKS["discrete"][place]
        action = agent.predict(obs, action_masks=masks)
        assert is_allowed("discrete", place, action)
        obs, *_ = env.step(action)
    agent.close()


def test_predicting_without_the_masks_is_refused() -> None:
    agent = make_agent("ddqn")
    obs, _ = Gates().reset()
    with pytest.raises(SchemaError, match="pass action_masks="):
        agent.predict(obs)
    with pytest.raises(SchemaError, match=r"shape \(4,\), or \[batch, \*\(4,\)\], got \(3,\)"):
        agent.predict(obs, action_masks=[1, 0, 1])
    agent.close()
    agent = rc.Agent("ddqn", "CartPole-v1")
    with pytest.raises(SchemaError, match="masks no actions"):
        agent.predict([0.0] * 4, action_masks=[1, 0])
    agent.close()
