"""Small schemes of real parts, which learn nothing but run in no time."""

from collections.abc import Mapping
from typing import Any, Final

import torch

from recollect.agent.actors import OffPolicyActor, OnPolicyActor
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.envs import VecEnv
from recollect.agent.storages import STORAGES
from recollect.scheme import Scheme

# Networks this small are not worth a second thread, which only waits where tests run side by side.
torch.set_num_threads(1)

ENVS: Final = {"ddqn": "CartPole-v1", "sac": "Pendulum-v1", "crossq": "Pendulum-v1", "ppo": "CartPole-v1"}
STORAGE_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "replay": {},
    "per": {"n_step": 2, "alpha": 0.6, "epsilon": 0.01},
    "ere": {"n_step": 2, "alpha": 0.6, "epsilon": 0.01, "eta": 0.99, "cmin": 10},
    "gae": {},
    "vtrace": {},
}


def make_scheme(
    algo: str = "ddqn",
    storage: str = "per",
    *,
    memory: str | None = None,
    num_envs: int = 2,
    workers: Mapping[str, Any] | None = None,
    **numbers: Any,
) -> Scheme:
    """A scheme of tiny networks and batches; `workers` are options of the scheme, `numbers` of the algorithm."""
    algorithm = ALGORITHMS.find(algo)
    options = {"update_every": 4, "num_mini_batch": 2, "test_every": 0, "num_test_episodes": 2, **numbers}
    if not algorithm.is_on_policy:
        options = {"mini_batch_size": 8, "start_steps": 16, **options}
    envs, action_space, obs_space = VecEnv.create_factory(ENVS[algo], vec_env_size=num_envs, seed=1)
    actor_class = OnPolicyActor if algorithm.is_on_policy else OffPolicyActor
    size = options["update_every"] if algorithm.is_on_policy else 500
    return Scheme(
        algorithm.create_factory(**options),
        actor_class.create_factory(obs_space, action_space, algorithm, seed=2, hidden_sizes=(8,), memory=memory),
        STORAGES[storage].create_factory(size, seed=3, **STORAGE_OPTIONS[storage]),  # type: ignore[call-arg]
        envs,
        envs,
        device="cpu",
        **(workers or {}),
    )
