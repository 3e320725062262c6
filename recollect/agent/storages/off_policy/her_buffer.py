"""`HERBuffer`: hindsight experience replay."""

from typing import Any, Unpack

import numpy as np
import torch

from recollect.agent.storages.base import StorageFactory
from recollect.agent.storages.experience.sampling.hindsight import Hindsight, Strategy
from recollect.agent.storages.experience.sampling.outputs import Drawn
from recollect.agent.storages.experience.sampling.relabelling import (
    FunctionRewriter,
    GoalFunction,
    GoalFunctions,
    GoalRewriter,
    HerFunction,
)
from recollect.agent.storages.experience.store.lane_ring import LaneRing
from recollect.agent.storages.off_policy.ere_buffer import EREBuffer
from recollect.agent.storages.off_policy.options import KEYWORD_DEFAULTS, StoreOptions
from recollect.agent.storages.off_policy.replay_buffer import Rows
from recollect.checks import check_number
from recollect.errors import ConfigError, SchemaError


class HEROptions(StoreOptions, total=False):
    """Options of hindsight, beside the `StoreOptions`.

    strategy : {"future", "final", "episode", "random"}
        Where goals come from.
    share : float
        Share of a batch that is relabelled, 4/5 by default.
    compute_reward, compute_terminated : callable, optional
        `(achieved_goal, desired_goal, info)` of whole batches; by default those of the environment.
    """

    strategy: Strategy
    share: float
    compute_reward: GoalFunction | None
    compute_terminated: GoalFunction | None


class HERBuffer(EREBuffer):
    """Hindsight experience replay (Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495).

    A share of each batch is relabelled when it is drawn, with a goal that the same episode reached;
    rewards, terminations and windows are those of the new goal. Episodes may be of any length, and end
    at different times in different envs; those still running get goals that were reached so far.

    Parameters
    ----------
    size, device, actor, algorithm, envs
        As in `ReplayBuffer`.
    her_function : callable or None
        Rewrites `(obs, rhs, next_obs, next_rhs, reward)` given `initial_state` and `final_state`, the
        observation whose goal was chosen: whole batches as arrays or dicts of arrays. None rewrites
        Gymnasium's goal observations.
    n_step, epsilon, alpha, beta, default_error, eta, cmin
        As in `EREBuffer`.
    **options
        See `HEROptions`.
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str,
        actor: Any,
        algorithm: Any,
        envs: Any,
        her_function: HerFunction | None,
        n_step: int | float = 1,
        epsilon: float = 0.0,
        alpha: float = 0.0,
        beta: float = 1.0,
        default_error: int | float = 1000000,
        eta: float = 1.0,
        cmin: int = 5000,
        **options: Unpack[HEROptions],
    ) -> None:
        strategy = options.pop("strategy", KEYWORD_DEFAULTS["strategy"])
        share = check_number("share", options.pop("share", KEYWORD_DEFAULTS["share"]), 0.0, 1.0)
        compute_reward = options.pop("compute_reward", None)
        compute_terminated = options.pop("compute_terminated", None)
        functions = {
            "her_function": her_function,
            "compute_reward": compute_reward,
            "compute_terminated": compute_terminated,
        }
        for name, function in functions.items():
            if function is not None and not callable(function):
                raise ConfigError(f"{name} must be callable or None, got {function!r}")
        super().__init__(
            size,
            device,
            actor,
            algorithm,
            envs,
            n_step,
            epsilon,
            alpha,
            beta,
            default_error,
            eta,
            cmin,
            **options,  # type: ignore[misc]
        )
        rewriter: GoalRewriter | FunctionRewriter
        if her_function is None:
            rewriter = GoalRewriter(_goal_functions(compute_reward, compute_terminated, envs))
        else:
            rewriter = FunctionRewriter(her_function)
        self._hindsight = Hindsight(strategy, share, rewriter)

    @classmethod
    def create_factory(  # type: ignore[override]  # the documented order puts her_function second
        cls,
        size: int,
        her_function: HerFunction | None = None,
        n_step: int | float = 1,
        epsilon: float = 0.0,
        alpha: float = 0.0,
        beta: float = 1.0,
        default_error: int | float = 1000000,
        eta: float = 1.0,
        cmin: int = 5000,
        **options: Unpack[HEROptions],
    ) -> StorageFactory:
        """Return a function that creates `HERBuffer` instances."""
        recent = EREBuffer.create_factory(size, n_step, epsilon, alpha, beta, default_error, eta, cmin)
        return StorageFactory(cls, {**recent.parameters, "her_function": her_function, **options})

    def handle_end_of_episode(self) -> None:
        """Make the episodes that have ended since available to relabelling.

        Sampling does it by itself; call it to spread the work.
        """
        with self._store.lock:
            if self._store.is_built:
                self._hindsight.follow(self._store.ring)

    def copy_single_tensor(self, key: str, position: int) -> Any:
        """Return a copy of the values of `key` at a position along time, 0 being the oldest: `[num_envs, ...]`."""
        stored = self.get_data_slice(position, position + 1)
        if key not in stored:
            raise SchemaError(f"no column {key!r} is stored; stored are {sorted(stored)}")
        return _first(stored[key])

    def _windows(self, drawn: Drawn, length: int) -> Rows:
        ids = drawn.ids
        if self._hindsight.num_chosen(len(ids) // length) == 0:
            return super()._windows(drawn, length)
        gamma, limits = self._gamma(), self._limits()
        relabelled, chosen = self._hindsight.relabel(self._store, ids, length, int(limits[0]), gamma, self._rng)
        if limits[0] > 1:
            limits = np.full(len(ids), limits[0])
            limits[relabelled.rows] = relabelled.lengths
        may_overlap = not self._hindsight.rewriter.writes_observations
        tensors = self._store.gather(drawn, limits, gamma, may_overlap=may_overlap)
        relabelled.apply(tensors, gamma)
        return tensors, chosen

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        self._hindsight.restart(new)
        super()._on_relayout(old, new)


def _goal_functions(
    compute_reward: GoalFunction | None, compute_terminated: GoalFunction | None, envs: Any
) -> GoalFunctions:
    """The goal functions that were given; for one that was not, that of the environment."""
    if compute_reward is None or compute_terminated is None:
        env = envs
        if not hasattr(env, "compute_reward") and getattr(envs, "env_fns", None):
            env = envs.env_fns[0]().unwrapped
        compute_reward = compute_reward or getattr(env, "compute_reward", None)
        compute_terminated = compute_terminated or getattr(env, "compute_terminated", None)
    if compute_reward is None:
        raise ConfigError(
            "hindsight needs the goal's reward: an environment with compute_reward(achieved_goal, desired_goal, "
            "info), or compute_reward=, or a her_function"
        )
    return GoalFunctions(compute_reward, compute_terminated)


def _first(value: Any) -> Any:
    return {key: _first(inner) for key, inner in value.items()} if isinstance(value, dict) else value[0]
