"""Random programs for the buffers: which features meet, a configuration, and a list of operations.

A program is expanded from one seed and its number of operations, so that it takes milliseconds to
make and still shrinks: the first operations of a longer program are those of the shorter one.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np
from hypothesis import strategies as st

from recollect import keys
from recollect.agent.storages import (
    OFF_POLICY_STORAGES,
    EREBuffer,
    HERBuffer,
    MixedBuffer,
    NStepReplayBuffer,
    PERBuffer,
    ReplayBuffer,
)
from tests.reference import Rewriting, Settings
from tests.simulated import FRAMES, LAYOUTS, STACKS, FrameStack, ObservationKind, StreamKind

Features = dict[str, str]
Pair = frozenset[tuple[str, str]]

FEATURES: dict[str, tuple[str, ...]] = {
    "buffer": tuple(OFF_POLICY_STORAGES),
    "observation": (*LAYOUTS, *STACKS),
    "optional": ("none", "flags", "extras", "states", "cut", "all"),
    "strategy": ("future", "final", "episode", "random"),
    "rewriting": ("reward", "termination", "function"),
    "priorities": ("flat", "mixed", "proportional"),
    "recent": ("everything", "window"),
    "goals": ("absent", "dict", "columns"),
    "unit": ("steps", "sequences"),
    "n_step": ("one", "several"),
    "envs": ("one", "several"),
    "sources": ("one", "several"),
    "inserts": ("steps", "slices", "both"),
    "ring": ("wraps", "has_room"),
    "resize": ("never", "sometimes"),
    "given": ("numpy", "torch", "strided"),
    "mixing": ("parts", "joint"),
}
OPTIONAL_KEYS: dict[str, tuple[str, ...]] = {
    "none": (),
    "flags": (keys.DONE, keys.NEXT_TERMINATED),
    "extras": (keys.IREWARD, keys.ACTION_PROBS),
    "states": (keys.RHS, keys.NEXT_RHS, keys.NEXT_TERMINATED),
    "cut": (keys.CUT, keys.NEXT_TERMINATED),
}
OPTIONAL_KEYS["all"] = tuple(dict.fromkeys(key for group in OPTIONAL_KEYS.values() for key in group))
SOURCE_NAMES: tuple[Hashable, ...] = (0, "worker", ("node", 2))
PART_NAMES = ("expert", "medium")
# Of a batch, from one part.
SHARES = (0.0, 0.25, 0.3, 0.5)
MAX_OPERATIONS = 25

# The buffers that bring a feature along, to their subclasses too.
OWNERS: dict[str, type[ReplayBuffer]] = {
    "priorities": PERBuffer,
    "recent": EREBuffer,
    "strategy": HERBuffer,
    "rewriting": HERBuffer,
    "mixing": MixedBuffer,
}
GOAL_COLUMNS: dict[str, tuple[str, ...]] = {
    "goals": ("columns",),
    "rewriting": ("function",),
    "observation": ("vector",),
}


def blocks() -> list[dict[str, tuple[str, ...]]]:
    """Sets of features that combine freely; together they are everything that is possible."""
    found = []
    for buffer in FEATURES["buffer"]:
        cls = OFF_POLICY_STORAGES[buffer]
        base = {"buffer": (buffer,), "goals": ("dict",) if issubclass(cls, HERBuffer) else ("absent", "dict")}
        base |= {} if issubclass(cls, NStepReplayBuffer) else {"n_step": ("one",)}
        base |= {name: ("absent",) for name, owner in OWNERS.items() if not issubclass(cls, owner)}
        for feeding in ({"sources": ("one",)}, {"inserts": ("slices", "both")}):
            found.append(FEATURES | base | feeding)
            if issubclass(cls, HERBuffer):
                found.append(FEATURES | base | feeding | GOAL_COLUMNS)
    return found


def pairs_of(features: Features) -> set[Pair]:
    """All pairs of features in a row."""
    return {frozenset(pair) for pair in combinations(features.items(), 2)}


def possible_pairs() -> set[Pair]:
    """All pairs of features that can meet."""
    found: set[Pair] = set()
    for block in blocks():
        for (left, left_values), (right, right_values) in combinations(block.items(), 2):
            found |= {frozenset([(left, a), (right, b)]) for a in left_values for b in right_values}
    return found


def covering_rows() -> list[Features]:
    """Choose rows of features, greedily, so that every possible pair is in one of them."""
    missing = possible_pairs()
    rows = []
    while missing:
        pair = min(missing, key=lambda pair: sorted(pair))
        row = _extended(pair, missing)
        missing -= pairs_of(row)
        rows.append(row)
    return rows


def _extended(pair: Pair, missing: set[Pair]) -> Features:
    """Complete a pair to a row that covers many missing pairs."""
    allowing = [block for block in blocks() if all(value in block[name] for name, value in pair)]
    candidates = [_filled(dict(pair), block, missing) for block in allowing]
    return max(candidates, key=lambda row: len(pairs_of(row) & missing))


def _filled(row: Features, block: dict[str, tuple[str, ...]], missing: set[Pair]) -> Features:
    for name, values in block.items():
        if name not in row:
            gains = [sum(frozenset([(name, value), other]) in missing for other in row.items()) for value in values]
            row[name] = values[gains.index(max(gains))]
    return {name: row[name] for name in block}


def compute_reward(achieved: np.ndarray, goal: np.ndarray, info: dict[str, Any]) -> np.ndarray:
    """Any function of outcome and goal with exact values."""
    assert achieved.ndim == 2
    assert achieved.shape == goal.shape
    return -0.125 * ((achieved[:, 0] + 3 * goal[:, 0]) % 7)


def compute_terminated(achieved: np.ndarray, goal: np.ndarray, info: dict[str, Any]) -> np.ndarray:
    """Reached where the outcome is the goal, and at some other outcomes too."""
    return (achieved[:, 0] - goal[:, 0]) % 5 == 0


def rewrite_dicts(obs: Any, rhs: Any, next_obs: Any, next_rhs: Any, reward: Any, first: Any, final: Any) -> Any:
    """A user's rewriting of goal observations, with traces of every argument."""
    goal = final[keys.ACHIEVED_GOAL].copy()
    obs = obs | {keys.DESIRED_GOAL: goal}
    next_obs = next_obs | {keys.DESIRED_GOAL: goal}
    return obs, scaled(rhs), next_obs, scaled(next_rhs), traced(reward, first[keys.ACHIEVED_GOAL][:, 0])


def rewrite_columns(obs: Any, rhs: Any, next_obs: Any, next_rhs: Any, reward: Any, first: Any, final: Any) -> Any:
    """A user's rewriting of plain observations: the last two columns are outcome and goal."""
    obs, next_obs = obs.copy(), next_obs.copy()
    obs[:, -1] = next_obs[:, -1] = final[:, -2]
    return obs, scaled(rhs), next_obs, scaled(next_rhs), traced(reward, first[:, -2])


def traced(reward: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Rewrite a reward so that it shows the stored one and the episode's first state."""
    return 0.5 * reward + states.reshape(reward.shape).astype(np.float64) % 11


def scaled(state: Any) -> Any:
    """Rewrite hidden states so that it shows."""
    if state is None:
        return None
    if isinstance(state, dict):
        return {name: scaled(part) for name, part in state.items()}
    return state * 2


@dataclass(frozen=True)
class Config:
    """One buffer to build and the streams that feed it."""

    features: Features
    settings: Settings
    stream: StreamKind
    num_sources: int
    share: float
    rewriting: Rewriting
    given: tuple[str, ...]
    seed: int


def make_config(features: Features, rng: np.random.Generator) -> Config:
    """Draw a configuration that has these features."""
    settings = _settings(features, rng)
    return Config(
        features=features,
        settings=settings,
        stream=_stream_kind(features, rng),
        num_sources=1 if features["sources"] == "one" else 3,
        share=float(rng.choice([0.0, 0.5, 0.8, 1.0])),
        rewriting=_rewriting(features),
        given=("strided", "strided_torch") if features["given"] == "strided" else (features["given"],),
        seed=int(rng.integers(2**31)),
    )


def _settings(features: Features, rng: np.random.Generator) -> Settings:
    settings = Settings(
        num_envs=1 if features["envs"] == "one" else int(rng.integers(2, 5)),
        gamma=float(rng.choice([0.0, 0.5, 0.9, 0.99, 1.0])),
        n_step=1 if features["n_step"] == "one" else int(rng.integers(2, 6)),
        prioritised=features["priorities"] != "absent",
        recent=features["recent"] != "absent",
        epsilon=float(rng.choice([0.0, 0.01])),
        alpha={"mixed": 0.6, "proportional": 1.0}.get(features["priorities"], 0.0),
        beta=float(rng.choice([0.0, 0.4, 1.0])),
        default_error=float(rng.choice([1e6, 1.0, 10.0])),
        cmin=int(rng.integers(1, 9)),
        strategy=features["strategy"],
    )
    if features["mixing"] != "absent":
        names = PART_NAMES[: int(rng.integers(1, 3))]
        settings.shares = dict(zip(names, rng.choice(SHARES, len(names)).tolist(), strict=True))
        settings.joint = features["mixing"] == "joint"
    if features["recent"] == "window":
        settings.eta = float(rng.choice([0.1**0.001, 0.5**0.001, 0.99, 0.9]))
    if features["unit"] == "sequences":
        settings.length = int(rng.integers(2, 6))
        settings.overlap = int(rng.integers(0, settings.length))
    settings.max_size = smallest_size(features, settings) + int(rng.integers(0, 9))
    if features["ring"] == "has_room":
        settings.max_size = 40
    return settings


def smallest_size(features: Features, settings: Settings) -> int:
    """The smallest capacity that works with all sources there."""
    per_lane = settings.length + 1 if settings.length else 1
    return max(3, per_lane * (1 if features["sources"] == "one" else 3))


def _stream_kind(features: Features, rng: np.random.Generator) -> StreamKind:
    optional = set(OPTIONAL_KEYS[features["optional"]])
    if features["unit"] == "sequences":
        optional.add(keys.DONE)
    return StreamKind(
        observation=_observation_kind(features, rng),
        optional=frozenset(optional),
        reward_dtype=str(rng.choice(["float32", "float64"])),
        flag_dtype=str(rng.choice(["float32", "bool", "uint8", "int64"])),
        action=(("float32", (2,)), ("int64", (1,)), ("int64", ()))[int(rng.integers(3))],
        nested_states=bool(rng.integers(2)),
        end_probability=float(rng.choice([0.05, 0.2, 0.4])),
        break_probability=float(rng.choice([0.0, 0.1])),
    )


def _observation_kind(features: Features, rng: np.random.Generator) -> ObservationKind:
    name, goals = features["observation"], features["goals"]
    if goals == "columns":
        return ObservationKind({"": ("float32", (4,))}, goal_columns=True)
    if name in LAYOUTS:
        return ObservationKind(LAYOUTS[name], has_goals=goals == "dict")
    if name == "two_stacks":
        stacks = {path: _frame_stack(name, rng, any_axis=True) for path in ("/camera", "/touch/left")}
        return ObservationKind({"/pose": ("float64", (2,))}, stacks, has_goals=goals == "dict")
    stack = _frame_stack(name, rng, any_axis=goals == "dict")
    return ObservationKind({}, {"": stack}, has_goals=goals == "dict")


def _frame_stack(name: str, rng: np.random.Generator, *, any_axis: bool) -> FrameStack:
    dtype, shape = FRAMES[int(rng.integers(len(FRAMES)))]
    axis = int(rng.integers(len(shape) + 1)) if any_axis else 0
    return FrameStack(int(rng.integers(2, 5)), axis, STACKS[name], dtype, shape, bool(rng.integers(2)))


def _rewriting(features: Features) -> Rewriting:
    if features["rewriting"] == "function":
        return Rewriting(her_function=rewrite_columns if features["goals"] == "columns" else rewrite_dicts)
    with_termination = features["rewriting"] == "termination"
    return Rewriting(compute_reward, compute_terminated if with_termination else None)


@dataclass(frozen=True)
class Insert:
    """Insert steps of a source; `shift` moves `first_step` off the expected one, None leaves it out."""

    source: int
    num_steps: int
    one_by_one: bool
    shift: int | None
    is_lost: bool


@dataclass(frozen=True)
class Sample:
    """Draw batches, with a priority update or an insert after each."""

    num_batches: int
    batch_size: int
    num_epochs: int
    is_trained: bool
    is_fed: bool


@dataclass(frozen=True)
class Prioritise:
    """Hand in errors for a batch drawn before."""

    age: int
    returns: tuple[float, ...]


@dataclass(frozen=True)
class Change:
    """Change a parameter at run time."""

    name: str
    value: float


@dataclass(frozen=True)
class Reset:
    """Empty the store."""


@dataclass(frozen=True)
class Release:
    """A source leaves; its successor has a new name or the same."""

    source: int
    is_renamed: bool


@dataclass(frozen=True)
class Export:
    """Read everything back, and into another buffer."""

    source: int


Operation = Insert | Sample | Prioritise | Change | Reset | Release | Export


def operations(config: Config, rng: np.random.Generator) -> Iterator[Operation]:
    """Draw operations without end."""
    makers: list[tuple[float, Callable[[Config, np.random.Generator], Operation]]] = [
        (0.40, _insert),
        (0.30, _sample),
        (0.10, _prioritise),
        (0.08, _change),
        (0.06, _export),
        (0.05, _reset),
    ]
    if config.num_sources > 1:
        makers.append((0.06, _release))
    shares = np.cumsum([share for share, _ in makers])
    yield _insert(config, rng)
    while True:
        chosen = int(np.searchsorted(shares, rng.random() * shares[-1], side="right"))
        yield makers[chosen][1](config, rng)


def _insert(config: Config, rng: np.random.Generator) -> Insert:
    how = config.features["inserts"]
    one_by_one = how == "steps" or (how == "both" and bool(rng.integers(2)))
    source = 0 if one_by_one else int(rng.integers(config.num_sources))
    longest = 2 if config.features["ring"] == "has_room" else config.settings.max_size + 3
    shift = None
    if not one_by_one and rng.random() < 0.5:
        shift = int(rng.choice([-3, -1, 0, 0, 1, 4]))
    return Insert(source, int(rng.integers(1, longest + 1)), one_by_one, shift, bool(rng.integers(2)))


def _sample(config: Config, rng: np.random.Generator) -> Sample:
    several = rng.random() < 0.4
    return Sample(
        num_batches=int(rng.integers(1, 4)) if several else 1,
        batch_size=int(rng.integers(1, 10)) * max(1, config.settings.length) + int(rng.integers(0, 2)),
        num_epochs=int(rng.integers(1, 3)) if several else 1,
        is_trained=bool(rng.integers(2)),
        is_fed=rng.random() < 0.2,
    )


def _prioritise(config: Config, rng: np.random.Generator) -> Prioritise:
    num_returns = int(rng.integers(1, 4)) if rng.random() < 0.4 else 0
    return Prioritise(int(rng.integers(0, 4)), tuple(rng.standard_normal(num_returns).tolist()))


def _change(config: Config, rng: np.random.Generator) -> Change:
    choices: dict[str, list[float]] = {"gamma": [0.0, 0.5, 0.95]}
    if config.features["resize"] == "sometimes":
        smallest = smallest_size(config.features, config.settings)
        sizes = {"max_size": [float(size) for size in range(smallest, 41)]}
        choices = sizes if rng.random() < 0.6 else choices | sizes
    if issubclass(OFF_POLICY_STORAGES[config.features["buffer"]], NStepReplayBuffer):
        choices["n_step"] = [1, 2, 3, 5] if config.features["n_step"] == "several" else [1]
    if config.settings.prioritised:
        choices |= {"alpha": [0.0, 0.6, 1.0], "beta": [0.0, 0.5, 1.0], "epsilon": [0.0, 0.01, 1.0]}
        choices["default_error"] = [1e6, 1.0, 10.0]
    if config.settings.recent:
        choices |= {"eta": [1.0, 0.99, 0.5**0.001], "cmin": [1, 3, 8]}
    if config.settings.shares:
        choices["shares"] = [0.0, 0.4, 1.0]
    name = str(rng.choice(sorted(choices)))
    value = float(rng.choice(choices[name]))
    return Change(name, int(value) if name in ("max_size", "n_step", "cmin") else value)


def _reset(config: Config, rng: np.random.Generator) -> Reset:
    return Reset()


def _release(config: Config, rng: np.random.Generator) -> Release:
    return Release(int(rng.integers(config.num_sources)), bool(rng.integers(2)))


def _export(config: Config, rng: np.random.Generator) -> Export:
    return Export(int(rng.integers(config.num_sources)))


@dataclass(frozen=True)
class Program:
    """A configuration and what is done with it."""

    config: Config
    operations: tuple[Operation, ...]
    data_seed: int


def make_program(features: Features, seed: int, num_operations: int) -> Program:
    """Expand a seed into a program with these features."""
    config = make_config(features, np.random.default_rng([seed, 0]))
    drawn = islice(operations(config, np.random.default_rng([seed, 1])), num_operations)
    return Program(config, tuple(drawn), seed)


def programs(features: Features) -> st.SearchStrategy[Program]:
    """Programs with these features, for Hypothesis to draw and to shrink."""
    return st.builds(
        make_program,
        st.just(features),
        st.integers(0, 2**32 - 1),
        st.integers(1, MAX_OPERATIONS),
    )
