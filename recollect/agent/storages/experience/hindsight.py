"""`Hindsight`: which sampled steps get a new goal, which one, and what they are worth then.

Nothing is stored for it but the numbers of the steps that end a stream: goals are read from the
store, and rows are rewritten in the batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience import hindsight_kernels as kernels
from recollect.agent.storages.experience import ring_layout as layout
from recollect.agent.storages.experience.lane_ring import LaneRing
from recollect.agent.storages.experience.lane_store import ONE_STEP, LaneStore
from recollect.agent.storages.experience.outputs import Name, OutputPlan, name_of, nest
from recollect.agent.storages.experience.schema import Path, to_numpy, walk
from recollect.errors import ConfigError, SchemaError

Strategy = Literal["future", "final", "episode", "random"]
HerFunction = Callable[..., Any]
GoalFunction = Callable[[np.ndarray, np.ndarray, Mapping[str, Any]], Any]

_CODES: Final[dict[str, int]] = {
    "future": kernels.FUTURE,
    "final": kernels.FINAL,
    "episode": kernels.EPISODE,
}
_ACHIEVED: Final[Path] = (keys.OBS, keys.ACHIEVED_GOAL)
_NEXT_ACHIEVED: Final[Path] = (keys.NEXT_OBS, keys.ACHIEVED_GOAL)
_DESIRED: Final[tuple[Path, Path]] = ((keys.OBS, keys.DESIRED_GOAL), (keys.NEXT_OBS, keys.DESIRED_GOAL))
_FIRST_ENTRIES: Final = 16


@dataclass(frozen=True)
class GoalFunctions:
    """What a goal environment says of a goal: the reward, and perhaps whether reaching it terminates."""

    compute_reward: GoalFunction
    compute_terminated: GoalFunction | None = None


@dataclass
class Relabelled:
    """Rewritten windows: their rows in the batch and what replaces the stored values there.

    Attributes
    ----------
    rows : int64 [count]
        Rows of the batch.
    returns : float64 [count]
        Folded rewards.
    lengths : int64 [count]
        Steps of each window.
    terminated : bool [count] or None
        Whether a window ends in a termination; None where the stored flags stand.
    values : dict
        Other new values by name, `[count, ...]`.
    """

    rows: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    terminated: np.ndarray | None
    values: dict[Name, np.ndarray]


class _Windows:
    """The steps of all windows, one window after another.

    Attributes
    ----------
    used : int64 [rows]
        Steps of each window.
    steps, owners : int64 [steps]
        Ids of the steps, and the window that each belongs to.
    are_single : bool
        Whether every window is one step.
    """

    def __init__(self, store: LaneStore, ids: np.ndarray, limits: np.ndarray) -> None:
        self.are_single = bool(limits[0] == 1)
        self.steps = ids
        self.owners = np.arange(len(ids))
        self.used = np.ones(len(ids), np.int64)
        if not self.are_single:
            self.used = np.ascontiguousarray(store.locate(ids, limits)[layout.P_USED])
            self.owners = np.repeat(self.owners, self.used)
            begins = np.cumsum(self.used) - self.used
            self.steps = ids[self.owners] + (np.arange(len(self.owners)) - begins[self.owners])


class EpisodeIndex:
    """The numbers of the steps that end a stream, lane by lane, oldest first."""

    def __init__(self, num_lanes: int) -> None:
        self.ends = np.zeros((num_lanes, _FIRST_ENTRIES), np.int64)
        self.cursors = np.zeros((num_lanes, kernels.X_NUM_WORDS), np.int64)

    def follow(self, ring: LaneRing) -> None:
        """Take in what has ended since; forget what was overwritten."""
        while num_entries := kernels.index_ends(ring.header, self.ends, self.cursors):
            old = self.ends
            self.ends = np.zeros((len(old), num_entries), np.int64)
            for lane, (following, oldest, _) in enumerate(self.cursors):
                entries = np.arange(oldest, following)
                self.ends[lane, entries % num_entries] = old[lane, entries % old.shape[1]]


class Hindsight:
    """Rewrites a share of each batch towards goals that were reached.

    Parameters
    ----------
    strategy : {"future", "final", "episode", "random"}
        Where the goal comes from: a later state of the same episode, its last, any of it, or of the store.
    share : float
        Share of rows (or sequences) to rewrite.
    goals : GoalFunctions, optional
        How to reward another goal, for environments with Gymnasium's goal observations.
    her_function : callable, optional
        Used instead: rewrites `(obs, rhs, next_obs, next_rhs, reward)` given the first and the chosen state.
    """

    def __init__(
        self,
        strategy: Strategy = "future",
        share: float = 0.8,
        *,
        goals: GoalFunctions | None = None,
        her_function: HerFunction | None = None,
    ) -> None:
        if strategy not in get_args(Strategy):
            raise ConfigError(f"strategy must be one of {', '.join(get_args(Strategy))}, got {strategy!r}")
        self.strategy = strategy
        self.share = share
        self._goals = goals
        self._her_function = her_function
        self._index: EpisodeIndex | None = None
        self._plans: dict[str, OutputPlan] = {}

    def restart(self, ring: LaneRing) -> None:
        """Start over with a ring whose steps have moved or gone."""
        self._index = EpisodeIndex(ring.num_lanes)
        self._plans.clear()

    def follow(self, ring: LaneRing) -> None:
        """Make the episodes that have ended since available."""
        if self._index is None:
            self.restart(ring)
        assert self._index is not None
        self._index.follow(ring)

    def relabel(
        self,
        store: LaneStore,
        ids: np.ndarray,
        length: int,
        limits: np.ndarray,
        gamma: float,
        rng: np.random.Generator,
    ) -> tuple[Relabelled, np.ndarray]:
        """Choose rows of a batch and rewrite them; `length` consecutive rows make a sequence.

        Returns the rewritten windows, and the sequences that they make, int64 [count].
        """
        self.follow(store.ring)
        num_sequences = len(ids) // length
        chosen = rng.permutation(num_sequences)[: round(self.share * num_sequences)]
        rows = chosen if length == 1 else (chosen[:, None] * length + np.arange(length)).ravel()
        chosen_ids = ids[rows]
        goals, begins = self._choose(store, chosen_ids, length, rng)
        windows = _Windows(store, chosen_ids, limits)
        rewrite = self._rewrite_goals if self._her_function is None else self._rewrite_by_function
        return rewrite(store, rows, windows, goals, begins, gamma), chosen

    def _choose(
        self, store: LaneStore, ids: np.ndarray, length: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids of each row's goal step, and of the first step of its stream."""
        assert self._index is not None
        goals, begins = np.empty_like(ids), np.empty_like(ids)
        code = _CODES.get(self.strategy, kernels.FINAL)
        kernels.choose_goals(
            store.ring.header,
            self._index.ends,
            self._index.cursors,
            code,
            ids,
            length,
            rng.random(len(ids)),
            goals,
            begins,
        )
        if self.strategy == "random" and len(ids):
            anywhere = store.draw_steps(rng.random(len(ids)))
            # Rows of one stream share the goal that was drawn for the first of them.
            first_of_stream = np.ones(len(ids), np.bool_)
            first_of_stream[1:] = begins[1:] != begins[:-1]
            first_of_stream[::length] = True
            goals = anywhere[np.maximum.accumulate(np.where(first_of_stream, np.arange(len(ids)), 0))]
        return goals, begins

    def _rewrite_goals(
        self,
        store: LaneStore,
        rows: np.ndarray,
        windows: "_Windows",
        goals: np.ndarray,
        begins: np.ndarray,
        gamma: float,
    ) -> Relabelled:
        assert self._goals is not None
        reached = self._read(store, "achieved", np.concatenate([goals, windows.steps]))[_NEXT_ACHIEVED].numpy()
        goal, achieved = reached[: len(goals)], reached[len(goals) :]
        desired = goal if windows.are_single else goal[windows.owners]
        rewards = _ask(self._goals.compute_reward, achieved, desired, np.float64)
        if not np.isfinite(rewards).all():
            raise SchemaError("compute_reward gave a NaN or infinite reward for a goal in hindsight")
        terminations = np.empty(0, np.bool_)
        if self._goals.compute_terminated is not None:
            terminations = _ask(self._goals.compute_terminated, achieved, desired, np.bool_)
        returns, lengths, terminated = _fold(rewards, terminations, windows.used, gamma)
        values: dict[Name, np.ndarray] = dict.fromkeys(_DESIRED, goal)
        known = self._goals.compute_terminated is not None
        return Relabelled(rows, returns, lengths, terminated if known else None, values)

    def _rewrite_by_function(
        self,
        store: LaneStore,
        rows: np.ndarray,
        windows: "_Windows",
        goals: np.ndarray,
        begins: np.ndarray,
        gamma: float,
    ) -> Relabelled:
        assert self._her_function is not None
        steps, owners, used = windows.steps, windows.owners, windows.used
        window = _as_arrays(self._read(store, "all", steps))
        initial = _as_arrays(self._read(store, "all", begins[owners]))[keys.OBS]
        final = _as_arrays(self._read(store, "all", goals[owners]))[keys.NEXT_OBS]
        names = (keys.OBS, keys.RHS, keys.NEXT_OBS, keys.NEXT_RHS, keys.REWARD)
        rewritten = self._her_function(*(window.get(name) for name in names), initial, final)
        if not isinstance(rewritten, tuple) or len(rewritten) != len(names):
            raise SchemaError("her_function must return (obs, rhs, next_obs, next_rhs, reward)")
        rewards = np.asarray(to_numpy(rewritten[-1]), np.float64).ravel()
        if len(rewards) != len(steps) or not np.isfinite(rewards).all():
            raise SchemaError(f"her_function must return {len(steps)} finite rewards, got {rewards.shape}")
        returns, lengths, _ = _fold(rewards, np.empty(0, np.bool_), used, gamma)
        ends = np.cumsum(used)
        values: dict[Name, np.ndarray] = {}
        for name, value in zip(names[:-1], rewritten, strict=False):
            if value is not None:
                positions = ends - used if name in (keys.OBS, keys.RHS) else ends - 1
                values |= {name_of(path): to_numpy(array)[positions] for path, array in walk((name,), value)}
        return Relabelled(rows, returns, lengths, None, values)

    def _read(self, store: LaneStore, name: str, ids: np.ndarray) -> dict[Name, torch.Tensor]:
        """Read single steps: only the achieved goals, or all that a her_function may rewrite."""
        if name not in self._plans:
            wanted = {_NEXT_ACHIEVED} if name == "achieved" else None
            self._plans[name] = store.plan(wanted)
        return self._plans[name].gather(ids, store.locate(ids, ONE_STEP), 1.0)


def check_goal_observation(ring: LaneRing) -> None:
    """Refuse a store whose observations have no goals."""
    paths = {place.leaf.path for place in ring.schema.carried}
    if not {_ACHIEVED, _DESIRED[0]} <= paths:
        raise SchemaError(
            f"hindsight needs dict observations with {keys.ACHIEVED_GOAL!r} and {keys.DESIRED_GOAL!r}, "
            f"got {sorted(keys.PATH_SEPARATOR.join(path) for path in paths)}; give a her_function for others"
        )


def _ask(function: GoalFunction, achieved: np.ndarray, desired: np.ndarray, dtype: type[np.generic]) -> np.ndarray:
    answer = to_numpy(function(achieved, desired, {}))
    if answer.ndim == 0 and len(achieved) > 1:
        # An environment that knows single goals only gives one answer for all rows, which may be wrong for some.
        answer = np.array([function(*row, {}) for row in zip(achieved, desired, strict=True)])
    answer = np.ascontiguousarray(answer.ravel(), dtype)
    if len(answer) != len(achieved):
        raise SchemaError(
            f"{getattr(function, '__name__', function)} must give one value for each of {len(achieved)} rows, "
            f"got {len(answer)}"
        )
    return answer


def _fold(
    rewards: np.ndarray, terminations: np.ndarray, used: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    returns, lengths = np.empty(len(used)), np.empty(len(used), np.int64)
    terminated = np.empty(len(used), np.bool_)
    kernels.fold(rewards, terminations, used, gamma, returns, lengths, terminated)
    return returns, lengths, terminated


def _as_arrays(tensors: dict[Name, torch.Tensor]) -> dict[str, Any]:
    return nest((name, tensor.numpy()) for name, tensor in tensors.items())
