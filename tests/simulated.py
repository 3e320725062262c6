"""Simulated environments: endless streams of steps with every kind of observation, end and break."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import torch

from recollect import keys
from tests.reference import Row, nest

Leaves = dict[str, np.ndarray]  # one observation by key path, "" for a plain array
LAYOUTS: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]] = {
    "vector": {"": ("float32", (3,))},
    "image": {"": ("uint8", (2, 4, 3))},
    "double": {"": ("float64", (2,))},
    "nested": {
        "/a": ("float32", (2,)),
        "/b/c": ("uint8", (3,)),
        "/b/d": ("int64", ()),
        "/b/e": ("float16", (1,)),
        "/f": ("bool", (2,)),
    },
    "block": {"": ("float32", (300,))},
}
STACKS = {"first_frame": "first", "zero_frames": "zero", "odd_frames": "odd", "two_stacks": "odd"}
GOAL_SHAPE = (2,)
FRAMES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("uint8", (3, 2)),
    ("float32", ()),
    ("uint8", (20, 20)),
    ("float32", (3,)),
)


def random_values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], *, few: bool = False) -> np.ndarray:
    """Draw an array of any dtype; `few` distinct values make different arrays equal now and then."""
    if dtype.startswith("float"):
        values = rng.integers(0, 2, shape) if few else rng.standard_normal(shape)
        return np.asarray(values, dtype)
    return np.asarray(rng.integers(0, 2 if few or dtype == "bool" else 200, shape), dtype)


@dataclass(frozen=True)
class FrameStack:
    """How frames are stacked: how many, along which axis, and what stands before the first."""

    depth: int
    axis: int
    padding: str
    dtype: str
    frame_shape: tuple[int, ...]
    few_values: bool

    def frame(self, rng: np.random.Generator) -> np.ndarray:
        """Draw one frame."""
        return random_values(rng, self.dtype, self.frame_shape, few=self.few_values)

    def fresh(self, rng: np.random.Generator) -> np.ndarray:
        """Begin an episode."""
        frames = [self.frame(rng) for _ in range(self.depth)]
        if self.padding == "first":
            frames = [frames[-1]] * self.depth
        if self.padding == "zero":
            frames = [np.zeros_like(frames[-1])] * (self.depth - 1) + frames[-1:]
        return np.stack(frames, axis=self.axis)

    def following(self, rng: np.random.Generator, current: np.ndarray) -> np.ndarray:
        """Shift in a new frame, or jump to any stack where padding is irregular."""
        if self.padding == "odd" and rng.random() < 0.2:
            return self.fresh(rng)
        frames = [*np.moveaxis(current, self.axis, 0)[1:], self.frame(rng)]
        return np.stack(frames, axis=self.axis)


@dataclass(frozen=True)
class ObservationKind:
    """What observations look like, with goals around them or not."""

    layout: Mapping[str, tuple[str, tuple[int, ...]]]
    stacks: Mapping[str, FrameStack] = field(default_factory=dict)
    has_goals: bool = False
    goal_columns: bool = False
    odd_floats: bool = True

    @property
    def prefix(self) -> str:
        """Where the observation proper lies below the root."""
        return "/observation" if self.has_goals else ""

    def frame_stack_option(self) -> int | dict[str, Any] | None:
        """The buffers' `frame_stack` argument for this kind."""
        if not self.stacks:
            return None
        if self.prefix + min(self.stacks) == "":
            return self.stacks[""].depth
        return {
            (self.prefix + path)[1:]: stack.depth if stack.axis == 0 else (stack.depth, stack.axis)
            for path, stack in self.stacks.items()
        }

    def fresh(self, rng: np.random.Generator, state: int) -> Leaves:
        """Draw the first observation of an episode; `state` is a number no other observation has."""
        leaves = self._values(rng)
        for path, stack in self.stacks.items():
            leaves[self.prefix + path] = stack.fresh(rng)
        return self._with_goals(leaves, state, -state)

    def following(self, rng: np.random.Generator, current: Leaves, state: int) -> Leaves:
        """Draw the observation after `current`, with the same desired goal."""
        leaves = self._values(rng)
        for path, stack in self.stacks.items():
            leaves[self.prefix + path] = stack.following(rng, current[self.prefix + path])
        return self._with_goals(leaves, state, self._desired(current))

    def disturbed(self, rng: np.random.Generator, current: Leaves, state: int) -> Leaves:
        """Draw an observation that does not continue `current`, often differing in one place only."""
        if rng.random() < 0.4:
            return self.fresh(rng, state)
        changed = {path: values.copy() for path, values in current.items()}
        path = sorted(changed)[int(rng.integers(len(changed)))]
        values = changed[path].reshape(-1)
        place = int(rng.integers(len(values)))
        if self.goal_columns or path.endswith("goal"):
            values[-1] -= 1000
        elif values[place] == 0 and values.dtype.kind == "f":
            values[place] = -values[place]
        else:
            values[place] = not values[place] if values.dtype == bool else values[place] + 1
        return changed | {path: values.reshape(changed[path].shape)}

    def _values(self, rng: np.random.Generator) -> Leaves:
        leaves = {}
        for path, (dtype, shape) in self.layout.items():
            values = random_values(rng, dtype, shape)
            if self.odd_floats and dtype.startswith("float") and rng.random() < 0.2:
                values.reshape(-1)[0] = rng.choice([-np.inf, np.inf, -0.0, 0.0])
            leaves[self.prefix + path] = values
        return leaves

    def _with_goals(self, leaves: Leaves, state: float, desired: float) -> Leaves:
        if self.goal_columns:
            leaves[""][-2:] = state, desired
        if self.has_goals:
            leaves["/achieved_goal"] = np.array([state, state / 2], np.float32)
            leaves["/desired_goal"] = np.array([desired, 0.25], np.float32)
        return leaves

    def _desired(self, current: Leaves) -> float:
        if self.goal_columns:
            return float(current[""][-1])
        return float(current["/desired_goal"][0]) if self.has_goals else 0.0


@dataclass(frozen=True)
class StreamKind:
    """Everything about the steps of a program: keys, dtypes and how often episodes end or break."""

    observation: ObservationKind
    optional: frozenset[str] = frozenset()
    reward_dtype: str = "float32"
    flag_dtype: str = "float32"
    action: tuple[str, tuple[int, ...]] = ("float32", (2,))
    nested_states: bool = False
    end_probability: float = 0.15
    break_probability: float = 0.05


class EnvStream:
    """One environment: yields its next step, a dict of arrays by key path."""

    def __init__(self, kind: StreamKind, rng: np.random.Generator, states: Iterator[int]) -> None:
        self.kind = kind
        self.rng = rng
        self.states = states
        self.start()
        self.began = True

    def start(self) -> None:
        """Begin an episode."""
        self.obs = self.kind.observation.fresh(self.rng, next(self.states))
        self.hidden = {path: np.zeros_like(values) for path, values in self._draw_hidden().items()}
        self.began = True

    def step(self) -> Row:
        """Take one step."""
        if self.rng.random() < self.kind.break_probability:
            self._break()
        ended, terminated, cut = self._outcome()
        next_obs = self.kind.observation.following(self.rng, self.obs, next(self.states))
        next_hidden = self._draw_hidden()
        row = _rooted(keys.OBS, self.obs) | _rooted(keys.NEXT_OBS, next_obs)
        row |= _rooted(keys.RHS, self.hidden) | _rooted(keys.NEXT_RHS, next_hidden)
        row[keys.ACTION] = random_values(self.rng, *self.kind.action)
        row[keys.ACTION_PROBS] = random_values(self.rng, "float32", (3,))
        row |= {key: self._reward() for key in (keys.REWARD, keys.IREWARD)}
        flags = {
            keys.DONE: self.began,
            keys.NEXT_DONE: ended,
            keys.NEXT_TERMINATED: terminated,
            keys.CUT: cut,
        }
        row |= {key: np.full(1, value, self.kind.flag_dtype) for key, value in flags.items()}
        self.began = False
        self.obs, self.hidden = next_obs, next_hidden
        if ended or (cut and self.rng.random() < 0.5):
            self.start()
        return {path: values for path, values in row.items() if self._is_kept(path)}

    def _outcome(self) -> tuple[bool, bool, bool]:
        ended = bool(self.rng.random() < self.kind.end_probability)
        terminated = ended and bool(self.rng.random() < 0.5)
        cut = not ended and keys.CUT in self.kind.optional and bool(self.rng.random() < 0.1)
        return ended, terminated, cut

    def _break(self) -> None:
        if keys.NEXT_RHS in self.kind.optional and self.rng.random() < 0.5:
            self.hidden = self._draw_hidden()
        else:
            self.obs = self.kind.observation.disturbed(self.rng, self.obs, next(self.states))

    def _draw_hidden(self) -> Leaves:
        if keys.RHS not in self.kind.optional:
            return {}
        paths = ("/h", "/c") if self.kind.nested_states else ("",)
        return {path: random_values(self.rng, "float32", (2,)) for path in paths}

    def _reward(self) -> np.ndarray:
        return self.rng.standard_normal(1).astype(self.kind.reward_dtype)

    def _is_kept(self, path: str) -> bool:
        always = (keys.OBS, keys.ACTION, keys.REWARD, keys.NEXT_OBS, keys.NEXT_DONE)
        root = path.split("/")[0]
        return root in always or root in self.kind.optional


class SourceStream:
    """The environments of one source, stepped together.

    Parameters
    ----------
    kind : StreamKind
        What the steps look like.
    num_envs : int
        How many environments step together.
    seed : sequence of int
        Seed of this source's randomness.
    states : iterator of int
        Numbers for observations, shared so that none comes twice.
    """

    def __init__(self, kind: StreamKind, num_envs: int, seed: list[int], states: Iterator[int]) -> None:
        rng = np.random.default_rng(seed)
        self.envs = [EnvStream(kind, rng, states) for _ in range(num_envs)]

    def take(self, num_steps: int) -> Row:
        """The next steps of all environments, `[time, num_envs, …]`."""
        rows = [[env.step() for env in self.envs] for _ in range(num_steps)]
        return {path: np.array([[row[path] for row in step] for step in rows]) for path in rows[0][0]}


def state_numbers() -> Iterator[int]:
    """Numbers from 1 on, each for one observation."""
    return count(1)


def as_sample(flat: Row, given: str) -> dict[str, Any]:
    """Nest a flat dict of arrays and convert it to what a caller hands in."""
    convert = CONVERSIONS[given]
    copied = {path: convert(values) for path, values in flat.items()}
    return {root: nest(copied, root) for root in dict.fromkeys(path.split("/")[0] for path in copied)}


def spoil(sample: Any) -> None:
    """Overwrite a sample after it was inserted, as a caller may who reuses memory."""
    if isinstance(sample, Mapping):
        for value in sample.values():
            spoil(value)
    else:
        sample[...] = 1


def _as_tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.copy())


def _strided(values: np.ndarray) -> np.ndarray:
    if values.ndim < 2:
        return np.repeat(values, 2)[::2]
    return np.array(values.swapaxes(0, -1), order="C").swapaxes(0, -1)


def _strided_tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.repeat(values[..., None], 2, axis=-1))[..., 0]


def _rooted(root: str, leaves: Leaves) -> Row:
    return {root + path: values for path, values in leaves.items()}


CONVERSIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": np.array,
    "torch": _as_tensor,
    "strided": _strided,
    "strided_torch": _strided_tensor,
}
