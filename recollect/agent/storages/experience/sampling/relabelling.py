"""Relabelling of rows with other goals, by the environment's functions or by the user's."""

import dis
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from sys import getrefcount
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.kernels import hindsight_kernels as kernels
from recollect.agent.storages.experience.sampling.outputs import Name, OutputPlan, map_arrays, name_of, nest
from recollect.agent.storages.experience.store.experience_store import ONE_STEP
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.schema.planning import to_numpy, walk
from recollect.agent.storages.experience.store.schema.schema import DTYPE_CODES, KeyPath, Leaf
from recollect.errors import OwnPart, SchemaError
from recollect.roles import Observation

HerFunction = Callable[..., Any]
GoalFunction = Callable[[np.ndarray, np.ndarray, Mapping[str, Any]], Any]

_ACHIEVED: Final[KeyPath] = (keys.OBS, keys.ACHIEVED_GOAL)
_DESIRED: Final[tuple[KeyPath, KeyPath]] = ((keys.OBS, keys.DESIRED_GOAL), (keys.NEXT_OBS, keys.DESIRED_GOAL))
_UNKNOWN: Final = np.empty(0, np.bool_)
# All that the code of a function consists of that returns a constant and reads nothing.
_RETURNS_A_CONSTANT: Final = {"NOP", "RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
# What functions raise that are given arrays of a form that they do not know.
_FORM_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_TORCH_CODES: Final = {torch.from_numpy(np.empty(0, dtype)).dtype: code for dtype, code in DTYPE_CODES.items()}


class Windows(NamedTuple):
    """Windows of a batch that get new goals.

    Attributes
    ----------
    rows : int64 [rows]
        Their rows in the batch.
    goals, begins : int64 [rows]
        Ids of the steps that led to the goals, and of the first steps of the windows' streams.
    used : int64 [rows]
        Steps of each window.
    steps : int64 [steps]
        Ids of all windows' steps, one window after another.
    """

    rows: np.ndarray
    goals: np.ndarray
    begins: np.ndarray
    used: np.ndarray
    steps: np.ndarray


@dataclass
class Relabelled:
    """What replaces the stored values in rewritten rows of a batch.

    Attributes
    ----------
    rows : int64 [rows]
        Rows of the batch.
    returns : float64 [rows]
        Folded rewards.
    lengths : int64 [rows]
        Steps of each window.
    terminated : bool [rows]
        Whether a window ends in a termination, where `knows_ends`; else the stored flags stand.
    values : dict
        Other new values by name, `[rows, ...]`, written one by one.
    goals : tuple of int or None
        The bytes of each new goal, and where they are; None where `values` has all there is.
    """

    rows: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    terminated: np.ndarray
    knows_ends: bool = False
    values: dict[Name, np.ndarray] = field(default_factory=dict)
    goals: tuple[int, int] | None = None

    def apply(self, tensors: dict[Name, torch.Tensor], gamma: float) -> None:
        """Write the new values into the columns of a batch, by name."""
        columns = [_column(kernels.W_RETURN, tensors[keys.REWARD])]
        if self.goals is not None:
            columns += [(kernels.W_COPY, tensors[path].data_ptr(), *self.goals) for path in _DESIRED]
        if self.knows_ends:
            columns.append(_column(kernels.W_DISCOUNT, tensors[keys.DISCOUNT]))
            columns.append(_column(kernels.W_DONE, tensors[keys.NEXT_DONE]))
            if keys.NEXT_TERMINATED in tensors:
                columns.append(_column(kernels.W_TERMINATED, tensors[keys.NEXT_TERMINATED]))
        kernels.patch(self.rows, self.returns, self.lengths, self.terminated, gamma, np.array(columns, np.int64))
        for name, values in self.values.items():
            target = tensors[name].numpy()
            if values.shape[1:] != target.shape[1:]:
                raise SchemaError(
                    f"her_function must return rows of shape {target.shape[1:]} of {name}, got {values.shape[1:]}"
                )
            target[self.rows] = values


class _GoalArrays:
    """Goals of windows, and what a reward function is shown of their steps.

    The three lie in one array of which only slices are given away, so that one count tells whether
    anybody refers to them: fresh arrays and their addresses cost more than the goals' copies.
    """

    def __init__(self, leaf: Leaf, num_rows: int, max_steps: int) -> None:
        num_steps = num_rows * max_steps
        self.size = (num_rows, max_steps)
        self._array = np.empty((num_rows + 2 * num_steps, *leaf.shape), leaf.dtype)
        self._begins = (num_rows, num_rows + num_steps)
        goals = self._array.ctypes.data
        achieved, desired = (goals + begin * leaf.num_bytes for begin in self._begins)
        self.addresses = (goals, achieved, desired)
        self._references_at_rest = getrefcount(self._array)

    def is_free(self) -> bool:
        """Whether nobody refers to what was shown."""
        return getrefcount(self._array) == self._references_at_rest

    def shown(self, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """What the first `num_steps` steps achieved, and the goals they are judged by."""
        achieved, desired = self._begins
        return self._array[achieved : achieved + num_steps], self._array[desired : desired + num_steps]


class _Question:
    """Asks a goal function about all rows of a batch at once.

    A function that knows single goals only gives one answer for many rows, which may be wrong for some:
    they are asked for one by one. Only where its code is nothing but a constant, as gymnasium-robotics'
    `compute_terminated` is, does one answer stand for all rows.
    """

    def __init__(self, function: GoalFunction, dtype: type[np.generic]) -> None:
        self._function = function
        self._dtype = dtype
        self._is_constant = is_constant(function)
        self._name = getattr(function, "__name__", function)
        self._called = OwnPart(f"{self._name} must take achieved goals, desired goals and a dict")

    def ask(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """One answer for each row."""
        with self._called:
            answer = to_numpy(self._function(achieved, desired, {}))
            if answer.ndim == 0 and len(achieved) > 1:
                if self._is_constant:
                    answer = np.full(len(achieved), answer)
                else:
                    answer = np.array([self._function(*row, {}) for row in zip(achieved, desired, strict=True)])
        answer = np.ascontiguousarray(answer.ravel(), self._dtype)
        if len(answer) != len(achieved):
            raise SchemaError(f"{self._name} must give one value for each of {len(achieved)} rows, got {len(answer)}")
        return answer


def is_constant(function: GoalFunction) -> bool:
    """Whether a function's code returns a constant and does nothing else; answers alone never tell that."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and {each.opname for each in dis.get_instructions(code)} <= _RETURNS_A_CONSTANT


class GoalRewriter:
    """Rewrites Gymnasium's goal observations by the environment's own functions.

    Parameters
    ----------
    compute_reward, compute_terminated : callable
        What the environment says of achieved and desired goals; None where reaching a goal ends nothing.
    """

    # Only goals are written, and goals are no frame stacks.
    writes_observations = False

    def __init__(self, compute_reward: GoalFunction, compute_terminated: GoalFunction | None) -> None:
        self._reward = _Question(compute_reward, np.float64)
        self._termination = None if compute_terminated is None else _Question(compute_terminated, np.bool_)

    def restart(self, ring: LaneRing) -> None:
        """Find the goals in the rows of a ring."""
        places = {place.leaf.path: place for place in ring.schema.carried}
        if not {_ACHIEVED, _DESIRED[0]} <= places.keys():
            raise SchemaError(
                f"hindsight needs dict observations with {keys.ACHIEVED_GOAL!r} and {keys.DESIRED_GOAL!r}, got "
                f"{sorted(place.leaf.name for place in ring.schema.carried)}; give a her_function for others"
            )
        if places[_ACHIEVED].depth > 1 or places[_DESIRED[0]].depth > 1:
            raise SchemaError("hindsight cannot choose stacked frames as goals; give a her_function for them")
        place, desired = places[_ACHIEVED], places[_DESIRED[0]].leaf
        # A goal that was reached is copied, byte by byte, over the one that was desired.
        if (place.leaf.shape, place.leaf.dtype) != (desired.shape, desired.dtype):
            raise SchemaError(
                f"{keys.DESIRED_GOAL!r} must have the shape and dtype of {keys.ACHIEVED_GOAL!r}, because hindsight "
                f"puts one in the other's place: expected {place.leaf.shape} and {place.leaf.dtype}, got "
                f"{desired.shape} and {desired.dtype}; convert one of them, or give a her_function"
            )
        self._leaf, self._arrays = place.leaf, _GoalArrays(place.leaf, 0, 0)
        self._field = np.zeros(kernels.G_NUM_WORDS, np.int64)
        self._field[: kernels.G_GOALS] = (
            place.leaf.num_bytes,
            place.row_offset,
            ring.block_address(place),
            place.tail_offset,
        )

    def field(self, num_rows: int, max_steps: int) -> np.ndarray:
        """What the kernel reads: achieved goals, into arrays that nobody refers to."""
        if self._arrays.size != (num_rows, max_steps) or not self._arrays.is_free():
            self._arrays = _GoalArrays(self._leaf, num_rows, max_steps)
            self._field[kernels.G_GOALS :] = self._arrays.addresses
        return self._field

    def rewrite(self, windows: Windows, gamma: float) -> Relabelled:
        """Reward and end the windows as their new goals have it."""
        achieved, desired = self._arrays.shown(len(windows.steps))
        rewards = self._reward.ask(achieved, desired)
        knows_ends = self._termination is not None
        terminations = _UNKNOWN if self._termination is None else self._termination.ask(achieved, desired)
        returns, lengths, terminated = _fold(rewards, terminations, windows.used, gamma)
        goals = (self._leaf.num_bytes, self._arrays.addresses[0])
        return Relabelled(windows.rows, returns, lengths, terminated, knows_ends, goals=goals)


class FunctionRewriter:
    """Rewrites any observation by the user's function, which sees every step of every window."""

    writes_observations = True

    def __init__(self, her_function: HerFunction) -> None:
        self._her_function = her_function
        self._takes_batches: bool | None = None

    def restart(self, ring: LaneRing) -> None:
        """Read from another ring."""
        self._plan = OutputPlan(ring)

    def field(self, num_rows: int, max_steps: int) -> np.ndarray:
        """What the kernel reads: nothing."""
        return np.zeros(kernels.G_NUM_WORDS, np.int64)

    def rewrite(self, windows: Windows, gamma: float) -> Relabelled:
        """Rewrite the windows' steps, then fold their new rewards."""
        owners = np.repeat(np.arange(len(windows.rows)), windows.used)
        window = self._read(windows.steps)
        initial = self._read(windows.begins[owners])[keys.OBS]
        final = self._read(windows.goals[owners])[keys.NEXT_OBS]
        names = (keys.OBS, keys.RHS, keys.NEXT_OBS, keys.NEXT_RHS, keys.REWARD)
        rewritten = self._ask([*(window.get(name) for name in names), initial, final], len(windows.steps))
        if not isinstance(rewritten, tuple) or len(rewritten) != len(names):
            raise SchemaError("her_function must return (obs, rhs, next_obs, next_rhs, reward)")
        try:
            rewards = np.asarray(to_numpy(rewritten[-1]), np.float64).ravel()
        except (TypeError, ValueError):
            raise SchemaError(f"her_function must return rewards, got {rewritten[-1]!r}") from None
        if len(rewards) != len(windows.steps):
            raise SchemaError(f"her_function must return {len(windows.steps)} rewards, got {len(rewards)}")
        returns, lengths, terminated = _fold(rewards, _UNKNOWN, windows.used, gamma)
        ends = np.cumsum(windows.used)
        values: dict[Name, np.ndarray] = {}
        for name, value in zip(names[:-1], rewritten, strict=False):
            if value is not None:
                positions = ends - windows.used if name in (keys.OBS, keys.RHS) else ends - 1
                given = dict(walk((name,), window.get(name)))
                for path, array in walk((name,), value):
                    values[name_of(path)] = _checked(path, to_numpy(array), given.get(path))[positions]
        return Relabelled(windows.rows, returns, lengths, terminated, values=values)

    def _ask(self, given: list[Observation], num_rows: int) -> Any:
        """The function's answer for `num_rows` rows: all at once, or one by one if it is not made for batches."""
        if self._takes_batches is None and num_rows > 1:
            self._takes_batches = _takes_batches(self._her_function, given, num_rows)
        with OwnPart("her_function must take obs, rhs, next_obs, next_rhs, reward, initial_state and final_state"):
            if self._takes_batches is False:
                return _row_by_row(self._her_function, given, num_rows)
            return self._her_function(*given)

    def _read(self, ids: np.ndarray) -> dict[str, Any]:
        """All columns of single steps, as (nested) dicts of arrays."""
        tensors = self._plan.gather(ids, ONE_STEP, 1.0)
        return nest((name, tensor.numpy()) for name, tensor in tensors.items())


def _takes_batches(function: HerFunction, given: list[Observation], num_rows: int) -> bool:
    """Whether a function answers for rows together as it does for each alone; one that cannot do the latter does."""
    together, singly = ([map_arrays(np.copy, each) for each in given] for _ in range(2))
    try:
        expected = _row_by_row(function, singly, num_rows)
    except _FORM_ERRORS:
        return True
    try:
        found = function(*together)
        return isinstance(found, tuple) and len(found) == len(expected) and all(map(_are_alike, found, expected))
    except _FORM_ERRORS:
        return False


def _row_by_row(function: HerFunction, given: list[Observation], num_rows: int) -> tuple[Observation, ...]:
    """Call a function for each row alone, without the axis of rows, and put its answers together."""
    answers = [function(*(map_arrays(itemgetter(row), each) for each in given)) for row in range(num_rows)]
    return tuple(_together(column) for column in zip(*answers, strict=True))


def _together(values: Sequence[Observation]) -> Observation:
    if isinstance(values[0], Mapping):
        return {name: _together([value[name] for value in values]) for name in values[0]}
    return None if values[0] is None else np.stack([to_numpy(value) for value in values])


def _are_alike(found: Observation, expected: Observation) -> bool:
    if isinstance(expected, Mapping):
        return found.keys() == expected.keys() and all(_are_alike(found[name], expected[name]) for name in expected)
    if found is None or expected is None:
        return found is expected
    left, right = to_numpy(found), to_numpy(expected)
    return left.size == right.size and np.allclose(left.ravel(), right.ravel(), equal_nan=True)


def _column(kind: int, tensor: torch.Tensor) -> tuple[int, int, int, int]:
    return kind, tensor.data_ptr(), _TORCH_CODES[tensor.dtype], 0


def _checked(path: KeyPath, values: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """What a user's function returned of the rows it was given, which must be as many."""
    name = keys.PATH_SEPARATOR.join(path)
    if given is None:
        raise SchemaError(f"her_function returned {name}, which it was not given; return None for what is not there")
    if values.shape[:1] != given.shape[:1]:
        raise SchemaError(f"her_function must return {len(given)} rows of {name}, got shape {values.shape}")
    return values


def _fold(
    rewards: np.ndarray, terminations: np.ndarray, used: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    returns, lengths = np.empty(len(used)), np.empty(len(used), np.int64)
    terminated = np.empty(len(used), np.bool_)
    if not kernels.fold(rewards, terminations, used, gamma, returns, lengths, terminated):
        raise SchemaError("a reward in hindsight is NaN or infinite; rewards must be finite")
    return returns, lengths, terminated
