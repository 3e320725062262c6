"""Small agents in environments that take their time, so that two cores can hold many workers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.sleeping_env import SleepingEnv
from recollect.agent.actors import OffPolicyActor
from recollect.agent.algorithms.off_policy.ddqn import DDQN
from recollect.agent.envs import VecEnv
from recollect.agent.storages import ReplayBuffer


@dataclass(frozen=True)
class OneIsSlow:
    """Makes the envs of all workers alike, but for those of worker 0, which are slower."""

    usual: Callable[..., Any]
    slow: Callable[..., Any]

    def __call__(self, device: Any, index_worker: int = 0, index_parent: int = 0, mode: str = "train") -> Any:
        factory = self.slow if index_worker == 0 else self.usual
        return factory(device, index_worker, index_parent, mode)


def make_parts(
    sleep_s: float,
    update_every: int,
    *,
    slow_factor: float = 1.0,
    obs_size: int = 8,
    hidden_sizes: tuple[int, ...] = (16,),
    size: int = 20_000,
    **numbers: Any,
) -> dict[str, Any]:
    """Factories of a small agent in such envs, as `CWorkerSet` takes them; `numbers` are options of the algorithm."""
    options = {"sleep_s": sleep_s, "obs_size": obs_size}
    envs, action_space, obs_space = VecEnv.create_factory(SleepingEnv, options, seed=1)
    slow, _, _ = VecEnv.create_factory(SleepingEnv, {**options, "sleep_s": slow_factor * sleep_s}, seed=1)
    given = {"update_every": update_every, "start_steps": 0, "epsilon_steps": 1, **numbers}
    return {
        "algo_factory": DDQN.create_factory(**given),
        "actor_factory": OffPolicyActor.create_factory(
            obs_space, action_space, DDQN, seed=1, hidden_sizes=hidden_sizes
        ),
        "storage_factory": ReplayBuffer.create_factory(size, seed=1),
        "train_envs_factory": envs if slow_factor == 1.0 else OneIsSlow(envs, slow),
    }
