"""Actors for tests: one plan per algorithm family, and small spaces."""

from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from recollect.agent.actors import Actor, ActorPlan, OffPolicyActor, OnPolicyActor

FLAT: Final = Box(-np.inf, np.inf, (3,), np.float32)
BOX: Final = Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))

DDQN: Final = ActorPlan(policy=None, critic="q_values")
TD3: Final = ActorPlan(policy="deterministic", critic="q_action", num_critics=2, target_policy=True)
SAC: Final = ActorPlan(policy="squashed_gaussian", critic="q_action", num_critics=2)
MPO: Final = ActorPlan(policy="squashed_gaussian", critic="q_action", num_critics=2, target_policy=True)
SAC_DISCRETE: Final = ActorPlan(policy="categorical", critic="q_values", num_critics=2)
PPO_BOX: Final = ActorPlan(policy="gaussian", critic="value", target_critics=False)
PPO_CHOICE: Final = ActorPlan(policy="categorical", critic="value", target_critics=False)

# Class, plan and action space of each kind of actor.
KINDS: Final = {
    "ddqn": (OffPolicyActor, DDQN, Discrete(4)),
    "td3": (OffPolicyActor, TD3, BOX),
    "sac": (OffPolicyActor, SAC, BOX),
    "mpo": (OffPolicyActor, MPO, BOX),
    "sac-discrete": (OffPolicyActor, SAC_DISCRETE, Discrete(4)),
    "ppo-box": (OnPolicyActor, PPO_BOX, BOX),
    "ppo-discrete": (OnPolicyActor, PPO_CHOICE, Discrete(4)),
    "ppo-multi-discrete": (OnPolicyActor, PPO_CHOICE, MultiDiscrete([2, 3, 4])),
    "ppo-multi-binary": (OnPolicyActor, PPO_CHOICE, MultiBinary(3)),
}


def make_actor(kind: str, obs_space: Any = FLAT, *, seed: int = 0, **options: Any) -> Actor:
    """Build a small actor of one of the `KINDS` on the CPU."""
    actor_class, plan, action_space = KINDS[kind]
    options = {"hidden_sizes": (8, 8)} | options
    actor: Actor = actor_class.create_factory(obs_space, action_space, plan, seed=seed, **options)("cpu")
    return actor
