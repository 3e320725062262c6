"""`HERBuffer`: hindsight experience replay."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from operator import itemgetter
from typing import Any, get_args

import numpy as np

from recollect.agent.registry import FUNCTIONS
from recollect.agent.storages.base import Creates
from recollect.agent.storages.config import StorageConfig
from recollect.agent.storages.experience.sampling.hindsight import Hindsight, Strategy
from recollect.agent.storages.experience.sampling.outputs import map_arrays
from recollect.agent.storages.experience.sampling.relabelling import (
    FunctionRewriter,
    GoalFunction,
    GoalRewriter,
    HerFunction,
)
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.off_policy.ere_buffer import EREBuffer, EREConfig
from recollect.agent.storages.off_policy.per_buffer import PERConfig
from recollect.agent.storages.off_policy.replay_buffer import Rows
from recollect.errors import ConfigError, SchemaError
from recollect.options import number, one_of, option
from recollect.roles import Actor, Algorithm, Device, Observation, VectorEnvs


@dataclass(frozen=True)
class HindsightConfig(StorageConfig):
    """Options of hindsight, apart from those of what it is combined with, so that `her_function` comes before them."""

    her_function: HerFunction | None = option(
        None,
        "Rewrites rows for another goal; none for Gymnasium's goal observations.",
        FUNCTIONS.check,
        kind=FUNCTIONS.kind,
    )
    _: KW_ONLY
    strategy: Strategy = option(
        "future", "Where goals come from: future, final, episode or random.", one_of(*get_args(Strategy))
    )
    share: float = option(0.8, "Share of a batch that is relabelled.", number(0.0, 1.0))
    compute_reward: GoalFunction | None = option(
        None, "Reward of achieved and desired goals; none for the environment's.", FUNCTIONS.check, kind=FUNCTIONS.kind
    )
    compute_terminated: GoalFunction | None = option(
        None, "Whether a goal ends the episode; none for the environment's.", FUNCTIONS.check, kind=FUNCTIONS.kind
    )


@dataclass(frozen=True)
class HERConfig(EREConfig, HindsightConfig):
    """Options of hindsight experience replay."""

    @classmethod
    def recommended(cls, given: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
        """Neither priorities nor recency; where it is given an alpha, it gets the rest of what PER gets."""
        return PERConfig.recommended(given, num_envs) if given.get("alpha") else {}


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
        observation whose goal was chosen: whole batches as arrays or dicts of arrays. One that is written
        for single transitions, as a first batch shows, is called row by row. None rewrites Gymnasium's goal
        observations; of an environment without goals nothing is relabelled.
    *values, **given
        See `HERConfig`.
    """

    create_factory = Creates(HERConfig)  # type: ignore[assignment]  # promised order
    title = "HER"
    config: HERConfig

    def __init__(
        self,
        size: int,
        device: Device,
        actor: Actor,
        algorithm: Algorithm,
        envs: VectorEnvs,
        her_function: HerFunction | None,
        *values: object,
        **given: object,
    ) -> None:
        super().__init__(size, device, actor, algorithm, envs, her_function, *values, **given)

    def _make_parts(self) -> None:
        super()._make_parts()
        config = self.config
        rewriter = FunctionRewriter(config.her_function) if config.her_function else self._goal_rewriter()
        self._hindsight = None if rewriter is None else Hindsight(config.strategy, config.share, rewriter)

    def handle_end_of_episode(self) -> None:
        """Make the episodes that have ended since available to relabelling.

        Sampling does it by itself; call it to spread the work.
        """
        with self._store.lock:
            if self._store.is_built and self._hindsight is not None:
                self._hindsight.follow(self._store.ring)

    def copy_single_tensor(self, key: str, position: int) -> Observation:
        """Return a copy of the values of `key` at a position along time: `[num_envs, ...]`.

        Position 0 is the oldest, -1 the newest.
        """
        if not -self.size <= position < self.size:
            raise ConfigError(
                f"position must be that of one of the {self.size} stored steps, {-self.size} to {self.size - 1}, got "
                f"{position}"
            )
        position %= self.size
        stored: Mapping[str, Observation] = self.get_data_slice(position, position + 1)
        if key not in stored:
            raise SchemaError(f"no column {key!r} is stored; stored are {sorted(stored)}")
        return map_arrays(itemgetter(0), stored[key])

    def _goal_rewriter(self) -> GoalRewriter | None:
        """Asks the goal functions that were given, or the environment's; None of an environment without goals."""
        compute_reward, compute_terminated = self.config.compute_reward, self.config.compute_terminated
        if compute_reward is None or compute_terminated is None:
            env: object = self.envs
            if not hasattr(env, "compute_reward") and getattr(env, "env_fns", None):
                env = self.envs.env_fns[0]().unwrapped
            compute_reward = compute_reward or getattr(env, "compute_reward", None)
            compute_terminated = compute_terminated or getattr(env, "compute_terminated", None)
        if compute_reward is None:
            self._warn_once(
                "nothing is relabelled in hindsight, because the environment has no goals; it needs the goal's reward: "
                "an environment with compute_reward(achieved_goal, desired_goal, info), or compute_reward=, or a "
                "her_function"
            )
            return None
        return GoalRewriter(compute_reward, compute_terminated)

    def _windows(self, ids: np.ndarray, length: int) -> Rows:
        if self._hindsight is None or self._hindsight.num_chosen(len(ids) // length) == 0:
            return super()._windows(ids, length)
        gamma, limits = self._gamma(), self._limits()
        relabelled, chosen = self._hindsight.relabel(self._store, ids, length, int(limits[0]), gamma, self._rng)
        if limits[0] > 1:
            limits = np.full(len(ids), limits[0])
            limits[relabelled.rows] = relabelled.lengths
        may_overlap = not self._hindsight.rewriter.writes_observations
        tensors = self._store.access.gather(ids, limits, gamma, may_overlap=may_overlap)
        relabelled.apply(tensors, gamma)
        return tensors, chosen

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        if self._hindsight is not None:
            self._hindsight.restart(new)
        super()._on_relayout(old, new)
