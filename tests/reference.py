"""A naive model of the experience store: plain lists of steps, one list per lane.

It answers two questions without any cleverness: what row must a batch hold for a given step (or
sequence), and how probable is each step. The tests compare every buffer against it.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
import torch

from recollect import keys

Row = dict[str, np.ndarray]
LANE_SHIFT = 40
# The default error that stands for the largest error seen so far.
AS_LARGE_AS_ANY = 1e6
FROM_FIRST = (keys.OBS, keys.ACTION, keys.ACTION_PROBS, keys.DONE, keys.RHS)
FROM_LAST = (keys.NEXT_OBS, keys.NEXT_RHS, keys.NEXT_DONE, keys.NEXT_TERMINATED)
FOLDED = (keys.REWARD, keys.IREWARD)


def flatten(data: Mapping[str, Any], prefix: str = "") -> Row:
    """Turn a nested dict of tensors or arrays into one dict of arrays by key path."""
    flat: Row = {}
    for name, value in data.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{path}/")
        else:
            flat[path] = value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    return flat


def nest(row: Row, root: str) -> Any:
    """Rebuild what hangs below the key `root`: an array, a nested dict of arrays, or None."""
    if root in row:
        return row[root]
    tree: dict[str, Any] = {}
    for path, value in row.items():
        if not path.startswith(f"{root}/"):
            continue
        *branches, leaf = path.removeprefix(f"{root}/").split("/")
        node = tree
        for branch in branches:
            node = node.setdefault(branch, {})
        node[leaf] = value
    return tree or None


def under(row: Row, roots: Iterable[str]) -> Row:
    """Pick the entries of `row` whose first key is one of `roots`."""
    wanted = set(roots)
    return {path: value for path, value in row.items() if path.split("/")[0] in wanted}


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Compare two arrays bit for bit (so that NaN equals itself and -0.0 is not 0.0)."""
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def stack(rows: list[Row]) -> Row:
    """Stack equal rows along a new first axis."""
    return {path: np.stack([row[path] for row in rows]) for path in rows[0]}


@dataclass(frozen=True)
class Rewriting:
    """How a row is rewritten towards another goal: by an environment's functions or by the user's."""

    compute_reward: Callable[..., Any] | None = None
    compute_terminated: Callable[..., Any] | None = None
    her_function: Callable[..., Any] | None = None


@dataclass
class Settings:
    """Every parameter of a buffer; `length` 0 means single steps instead of sequences.

    `shares` are those of a batch that are drawn from the sources of these names; `joint` priorities choose between
    these, too.
    """

    num_envs: int = 1
    max_size: int = 10
    gamma: float = 0.99
    n_step: int = 1
    prioritised: bool = False
    recent: bool = False
    epsilon: float = 0.0
    alpha: float = 0.0
    beta: float = 1.0
    default_error: float = AS_LARGE_AS_ANY
    eta: float = 1.0
    cmin: float = 5000
    strategy: str = "future"
    length: int = 0
    overlap: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    joint: bool = False


@dataclass
class Step:
    """What happened at one step of a lane, and how the stream continues behind it."""

    number: int
    row: Row
    ended: bool
    terminated: bool
    cut: bool
    error: np.float32

    @property
    def is_last(self) -> bool:
        """Whether nothing that follows belongs to the same stretch."""
        return self.ended or self.cut


@dataclass
class Lane:
    """One environment's stream: the steps still held, and the running number of the next one."""

    steps: list[Step] = field(default_factory=list)
    head: int = 0
    base: int = 0
    context_end: int = 0

    def position(self, number: int) -> int | None:
        """Find where the step with this running number is held."""
        for position, step in enumerate(self.steps):
            if step.number == number:
                return position
        return None

    @property
    def context(self) -> int:
        """Count the held steps that only serve as context after a reset."""
        return sum(step.number < self.context_end for step in self.steps)


@dataclass
class Source:
    """A feeder of steps: its lanes, and how many steps of its own stream were received."""

    group: int
    received: int = 0


class ReferenceStore:
    """The whole store, slowly.

    Parameters
    ----------
    settings : Settings
        The parameters of the buffer under test.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.groups: list[list[Lane]] = []
        self.sources: dict[Hashable, Source] = {}
        self.free: list[int] = []
        self.num_mismatches = 0
        self.num_overwritten = 0
        self.largest_error = np.float32(0)
        self.eta = settings.eta
        self.returns: list[float] = []
        self.best_improvement = 0.0
        self.span_calls = 0
        self.last_span = 1000

    @property
    def lanes(self) -> list[Lane]:
        """All lanes in the order of their numbers."""
        return [lane for group in self.groups for lane in group]

    @property
    def capacity(self) -> int:
        """How many steps each lane may hold."""
        return self.settings.max_size // max(1, len(self.groups))

    def __len__(self) -> int:
        return sum(len(lane.steps) - lane.context for lane in self.lanes)

    def insert(self, data: Mapping[str, Any], source: Hashable = 0, first_step: int | None = None) -> None:
        """Append a slice `[time, num_envs, …]` to the lanes of `source`."""
        flat = flatten(data)
        num_steps = len(flat[keys.REWARD])
        starts = flat.pop(keys.START, None)
        stream = self._stream(source)
        lanes = self.groups[stream.group]
        first = stream.received if first_step is None else first_step
        if first > stream.received:
            self._cut(lanes)
        skipped = min(num_steps, max(0, stream.received - first))
        for env, lane in enumerate(lanes if starts is not None and skipped < num_steps else ()):
            if not any(self._is_start(lane, step) for step in lane.steps):
                marked = [*np.flatnonzero(starts[skipped:, env]), num_steps - skipped]
                lane.base = lane.head + int(marked[0])
        for time in range(skipped, num_steps):
            for env, lane in enumerate(lanes):
                self._append(lane, {path: values[time, env].copy() for path, values in flat.items()})
        stream.received = max(stream.received, first + num_steps)
        self._count_span(flat[keys.NEXT_DONE][skipped:])

    def insert_transition(self, sample: Mapping[str, Any]) -> None:
        """Append one step `[num_envs, …]` of source 0."""
        self.insert({path: values[None] for path, values in flatten(sample).items()})

    def release_source(self, source: Hashable) -> None:
        """Let the lanes of `source` be taken by the next new one."""
        self.free.append(self.sources.pop(source).group)

    def _stream(self, source: Hashable) -> Source:
        if source not in self.sources:
            self.sources[source] = Source(self._group())
        return self.sources[source]

    def _group(self) -> int:
        if self.free:
            group = self.free.pop(0)
            self._cut(self.groups[group])
            return group
        self.groups.append([Lane() for _ in range(self.settings.num_envs)])
        self._evict()
        return len(self.groups) - 1

    def _is_start(self, lane: Lane, step: Step) -> bool:
        return (step.number - lane.base) % (self.settings.length - self.settings.overlap) == 0

    @staticmethod
    def _cut(lanes: list[Lane]) -> None:
        for lane in lanes:
            if lane.steps and not lane.steps[-1].ended:
                lane.steps[-1].cut = True

    def _append(self, lane: Lane, row: Row) -> None:
        if lane.steps and not lane.steps[-1].is_last and not self._continues(lane.steps[-1].row, row):
            lane.steps[-1].cut = True
            self.num_mismatches += 1
        cut = row.pop(keys.CUT, np.zeros(1))
        ended = bool(row[keys.NEXT_DONE].item())
        terminated = bool(row.get(keys.NEXT_TERMINATED, row[keys.NEXT_DONE]).item())
        step = Step(lane.head, row, ended, terminated, bool(cut.item()) and not ended, self._new_error())
        lane.steps.append(step)
        lane.head += 1
        if self.settings.length and len(lane.steps) >= self.settings.length:
            # A sequence is new data once it is complete.
            lane.steps[-self.settings.length].error = self._new_error()
        self.num_overwritten += self._evict()

    def _new_error(self) -> np.float32:
        if self.settings.default_error == AS_LARGE_AS_ANY:
            return self.largest_error or np.float32(1)
        return np.float32(self.settings.default_error)

    def _continues(self, row: Row, following: Row) -> bool:
        pairs = [(keys.NEXT_OBS, keys.OBS)]
        if not self.settings.length:
            pairs.append((keys.NEXT_RHS, keys.RHS))
        for next_root, root in pairs:
            for path, values in under(row, [next_root]).items():
                other = following.get(root + path.removeprefix(next_root))
                if other is not None and not same_bits(values, other):
                    return False
        return True

    def _evict(self) -> int:
        """Drop the oldest steps beyond the capacity; return how many."""
        num_dropped = 0
        for lane in self.lanes:
            while len(lane.steps) > self.capacity:
                lane.steps.pop(0)
                num_dropped += 1
        return num_dropped

    def _count_span(self, ends: np.ndarray) -> None:
        if ends.any() and self.span_calls:
            self.last_span, self.span_calls = self.span_calls, 0

    def reset(self) -> None:
        """Forget everything; sequences keep the last `overlap` steps of each lane as context."""
        kept = self.settings.overlap if self.settings.length else 0
        for lane in self.lanes:
            lane.steps = lane.steps[-kept:] if kept else []
            lane.base = lane.head - len(lane.steps)
            lane.context_end = lane.head
            for step in lane.steps:
                step.error = self._new_error()

    def update(self, name: str, value: float) -> None:
        """Change a parameter for the data already held as well."""
        setattr(self.settings, name, value)
        if name == "eta":
            self.eta = value
        self._evict()

    def update_eta(self, returns: float | list[float]) -> None:
        """Follow the recent training returns, one after the other, with eta."""
        for value in filter(np.isfinite, np.atleast_1d(returns)):
            self.returns = [*self.returns, float(value)][-20:]
            if len(self.returns) > 1:
                improvement = (self.returns[-1] - self.returns[0]) / (len(self.returns) - 1)
                self._follow(improvement)

    def _follow(self, improvement: float) -> None:
        self.best_improvement = max(self.best_improvement, improvement)
        ratio = 0.0
        if self.best_improvement > 0:
            ratio = min(1.0, max(0.0, improvement / self.best_improvement))
        self.eta = self.settings.eta * ratio + (1 - ratio)

    def set_errors(self, ids: Iterable[int], errors: Iterable[float]) -> int:
        """Set the errors of steps by id, the largest of each; return how many ids were stale."""
        largest: dict[int, np.float32] = {}
        num_stale = 0
        for step_id, error in zip(ids, errors, strict=True):
            if self.find(step_id) is None:
                num_stale += 1
            else:
                largest[step_id] = max(np.float32(error), largest.get(step_id, np.float32(0)))
        for step_id, kept in largest.items():
            self.step(step_id).error = kept
            self.largest_error = max(self.largest_error, kept)
        return num_stale

    def find(self, step_id: int) -> tuple[int, int] | None:
        """Locate a step: its lane's number and its position from the oldest, None if it is gone."""
        lane, number = int(step_id) >> LANE_SHIFT, int(step_id) & ((1 << LANE_SHIFT) - 1)
        if not 0 <= lane < len(self.lanes):
            return None
        position = self.lanes[lane].position(number)
        return None if position is None else (lane, position)

    def locate(self, step_id: int) -> tuple[Lane, int]:
        """Locate a step that must be there."""
        found = self.find(step_id)
        assert found is not None, f"step {step_id >> LANE_SHIFT}:{step_id & 0xFFFFFFFFFF} is not stored"
        return self.lanes[found[0]], found[1]

    def step(self, step_id: int) -> Step:
        """Return the step with this id."""
        lane, position = self.locate(step_id)
        return lane.steps[position]

    def ids(self) -> list[int]:
        """Ids of all steps held, lane by lane, oldest first."""
        return [number << LANE_SHIFT | step.number for number, lane in enumerate(self.lanes) for step in lane.steps]

    def segment(self, step_id: int) -> list[int]:
        """Ids of the stretch of continuing steps that the step belongs to, oldest first."""
        lane, position = self.locate(step_id)
        start = position
        while start > 0 and not lane.steps[start - 1].is_last:
            start -= 1
        end = position
        while not lane.steps[end].is_last and end + 1 < len(lane.steps):
            end += 1
        offset = step_id - position
        return [offset + place for place in range(start, end + 1)]

    def window(self, step_id: int) -> list[Step]:
        """Collect the steps that the n-step return of a step is made of."""
        lane, position = self.locate(step_id)
        used: list[Step] = []
        for step in lane.steps[position : position + self.settings.n_step]:
            used.append(step)
            if step.is_last:
                break
        return used

    def next_windows(self, batch: int = 1, num_batches: int = 1) -> list[int]:
        """Count the newest steps of each lane that the next batch is drawn from.

        `batch` counts the batches of one call from 1; a call for a single batch keeps counting
        across calls.
        """
        fraction = batch / num_batches
        if num_batches == 1:
            self.span_calls += 1
            fraction = min(1.0, self.span_calls / self.last_span)
        everything = [len(lane.steps) for lane in self.lanes]
        is_own = [self.part_of(number) is None for number in range(len(self.lanes))]
        sizes = [len(lane.steps) - lane.context for lane in self.lanes]
        total = sum(size for size, own in zip(sizes, is_own, strict=True) if own)
        newest = max(total * self.eta ** (1000 * fraction), self.settings.cmin)
        if not self.settings.recent or newest >= total:
            return everything
        return [
            min(size, ceil(newest * size / total)) if own else whole
            for size, whole, own in zip(sizes, everything, is_own, strict=True)
        ]

    def part_of(self, lane: int) -> str | None:
        """Name of the part that a lane is of, None for own experience."""
        for name in self.settings.shares:
            if name in self.sources and self.sources[name].group == lane // self.settings.num_envs:
                return name
        return None

    def parts(self, candidates: list[int]) -> list[tuple[float, list[int]]]:
        """Candidates by part, and the share of a batch that each is to have; what empty ones would have is divided."""
        wanted: dict[str | None, float] = {None: 1.0 - sum(self.settings.shares.values()), **self.settings.shares}
        found: dict[str | None, list[int]] = {name: [] for name in wanted}
        for step_id in candidates:
            found[self.part_of(step_id >> LANE_SHIFT)].append(step_id)
        filled = [(wanted[name], ids) for name, ids in found.items() if ids]
        if sum(share for share, _ in filled) < 1e-9:
            filled = [(len(ids), ids) for _, ids in filled]
        total = sum(share for share, _ in filled)
        return [(share / total, ids) for share, ids in filled]

    def num_recent(self, windows: list[int]) -> int:
        """Count the steps in these windows of the lanes, context apart."""
        sizes = [len(lane.steps) - lane.context for lane in self.lanes]
        return sum(min(size, window) for size, window in zip(sizes, windows, strict=True))

    def candidates(self, windows: list[int]) -> list[int]:
        """Ids of the steps (or first steps of sequences) in these windows of the lanes."""
        found = []
        for number, (lane, window) in enumerate(zip(self.lanes, windows, strict=True)):
            starts = self._starts(lane)
            recent = [start for start in starts if start >= lane.head - window]
            if self.settings.length and starts and not recent:
                recent = starts[-1:]
            found += [number << LANE_SHIFT | start for start in recent]
        return found

    def _starts(self, lane: Lane) -> list[int]:
        numbers = [step.number for step in lane.steps]
        if not self.settings.length:
            return numbers
        stride = self.settings.length - self.settings.overlap
        last = lane.head - self.settings.length
        return [n for n in numbers if n <= last and n >= lane.base and (n - lane.base) % stride == 0]

    def priority(self, step_id: int) -> float:
        """The unnormalised probability of a step under prioritisation."""
        error = float(self.step(step_id).error)
        return (error + self.settings.epsilon) ** self.settings.alpha

    def priorities(self, candidates: list[int]) -> dict[int, float]:
        """Priorities of the candidates; all equal where nothing else makes sense."""
        values = dict.fromkeys(candidates, 1.0)
        if self.settings.prioritised:
            values = {step_id: self.priority(step_id) for step_id in candidates}
        if not any(values.values()):
            values = dict.fromkeys(candidates, 1.0)
        return values

    def probabilities(self, candidates: list[int]) -> dict[int, float]:
        """The exact probability of each candidate."""
        parts = self.parts(candidates)
        if self.settings.joint:
            values = self.priorities(candidates)
            chances = {step_id: share / len(ids) * values[step_id] for share, ids in parts for step_id in ids}
            if not any(chances.values()):  # only parts without a share have any priority
                chances = {step_id: share / len(ids) for share, ids in parts for step_id in ids}
            total = sum(chances.values())
            return {step_id: value / total for step_id, value in chances.items()}
        chances = {}
        for share, ids in parts:
            values = self.priorities(ids)
            chances |= {step_id: share * value / sum(values.values()) for step_id, value in values.items()}
        return chances

    def weights(self, drawn: list[int], candidates: list[int]) -> list[float]:
        """The importance weights of steps that were drawn together from these candidates.

        They lead back to draws that are uniform within each part.
        """
        chances = self.probabilities(candidates)
        uniform = {step_id: share / len(ids) for share, ids in self.parts(candidates) for step_id in ids}
        raw = [(uniform[step_id] / chances[step_id]) ** self.settings.beta for step_id in drawn]
        return [value / max(raw) for value in raw]

    def row(self, step_id: int) -> Row:
        """The row that a batch must hold for a step."""
        return self._fold(self.window(step_id))

    def _fold(self, window: list[Step], rewards: list[float] | None = None) -> Row:
        first, last = window[0].row, window[-1].row
        row = under(first, FROM_FIRST) | under(last, FROM_LAST)
        for key in FOLDED:
            if key in first:
                values = [float(step.row[key].item()) for step in window]
                if key == keys.REWARD and rewards is not None:
                    values = rewards
                row[key] = np.full(1, self._discounted(values), first[key].dtype)
        discount = 0.0 if window[-1].terminated else self.settings.gamma ** len(window)
        row[keys.DISCOUNT] = np.full(1, discount, np.float32)
        row[keys.N_STEP] = np.full(1, len(window), np.int64)
        return row

    def _discounted(self, values: list[float]) -> float:
        return sum(self.settings.gamma**i * value for i, value in enumerate(values))

    def goals(self, step_id: int) -> list[int]:
        """Ids of the steps whose outcome may become the goal of a step, all equally probable."""
        if self.settings.strategy == "random":
            return self.ids()
        segment = self.segment(step_id)
        if self.settings.strategy == "final":
            return segment[-1:]
        if self.settings.strategy == "episode":
            return segment
        return [other for other in segment if other >= step_id]

    def relabelled_row(self, step_id: int, goal_id: int, rewriting: Rewriting) -> Row:
        """The row that a batch must hold for a step once the outcome of another is its goal."""
        if rewriting.her_function is not None:
            return self._rewritten_by_user(step_id, goal_id, rewriting.her_function)
        return self._rewritten_by_env(step_id, goal_id, rewriting)

    def _rewritten_by_env(self, step_id: int, goal_id: int, rewriting: Rewriting) -> Row:
        assert rewriting.compute_reward is not None
        achieved_path = f"{keys.NEXT_OBS}/{keys.ACHIEVED_GOAL}"
        goal = self.step(goal_id).row[achieved_path]
        used, rewards, reached = [], [], False
        for step in self.window(step_id):
            achieved = step.row[achieved_path]
            used.append(step)
            rewards.append(float(rewriting.compute_reward(achieved[None], goal[None], {})[0]))
            if rewriting.compute_terminated is not None:
                reached = bool(rewriting.compute_terminated(achieved[None], goal[None], {})[0])
            if reached:
                break
        row = self._fold(used, rewards)
        row[f"{keys.OBS}/{keys.DESIRED_GOAL}"] = goal
        row[f"{keys.NEXT_OBS}/{keys.DESIRED_GOAL}"] = goal
        if rewriting.compute_terminated is not None:
            self._set_termination(row, reached)
        return row

    def _set_termination(self, row: Row, reached: bool) -> None:
        discount = 0.0 if reached else self.settings.gamma ** int(row[keys.N_STEP].item())
        row[keys.DISCOUNT] = np.full(1, discount, np.float32)
        if reached:
            row[keys.NEXT_DONE] = np.ones_like(row[keys.NEXT_DONE])
        if keys.NEXT_TERMINATED in row:
            row[keys.NEXT_TERMINATED] = np.full_like(row[keys.NEXT_TERMINATED], reached)

    def _rewritten_by_user(self, step_id: int, goal_id: int, her_function: Callable[..., Any]) -> Row:
        initial, final = self.step(self.segment(step_id)[0]).row, self.step(goal_id).row
        window = self.window(step_id)
        parts = []
        for step in window:
            roots = (keys.OBS, keys.RHS, keys.NEXT_OBS, keys.NEXT_RHS, keys.REWARD)
            given = [_as_batch(step.row, root) for root in roots]
            states = [_as_batch(initial, keys.OBS), _as_batch(final, keys.NEXT_OBS)]
            rewritten = her_function(*given, *states)
            parts.append(dict(zip(roots, rewritten, strict=True)))
        row = self._fold(window, [float(np.asarray(part[keys.REWARD]).item()) for part in parts])
        row |= _as_row(parts[0], (keys.OBS, keys.RHS))
        row |= _as_row(parts[-1], (keys.NEXT_OBS, keys.NEXT_RHS))
        return row

    def sequence_ids(self, start_id: int) -> list[int]:
        """Ids of the steps at each position of a sequence, the newest repeated at the end."""
        lane, _ = self.locate(start_id)
        newest = (start_id >> LANE_SHIFT) << LANE_SHIFT | (lane.head - 1)
        length = self.settings.length + self.settings.n_step
        return [min(start_id + position, newest) for position in range(length)]

    def sequence_row(self, start_id: int, rows: list[Row] | None = None) -> Row:
        """The entry that a batch must hold for a sequence (from its rows, if they were rewritten)."""
        rows = [self.row(step_id) for step_id in self.sequence_ids(start_id)] if rows is None else rows
        states = under(rows[0], [keys.RHS, keys.NEXT_RHS])
        kept = [{path: value for path, value in row.items() if path not in states} for row in rows]
        sequence = stack(kept) | under(self.step(start_id).row, [keys.RHS])
        sequence[keys.MASK] = self._mask()
        return sequence

    def _mask(self) -> np.ndarray:
        positions = range(self.settings.length + self.settings.n_step)
        trained = [self.settings.overlap <= p < self.settings.length for p in positions]
        return np.array(trained, np.float32)[:, None]

    def all_data(self, source: Hashable = 0) -> Row:
        """All steps of a source, oldest first, `[time, num_envs, …]`.

        What is only context after a reset is left out. Sequences say where they start, and keep hidden
        states only there.
        """
        lanes = self.groups[self.sources[source].group]
        kept = [[step for step in lane.steps if step.number >= lane.context_end] for lane in lanes]
        data = {}
        for path in kept[0][0].row if kept[0] else ():
            values = [[step.row[path] for step in steps] for steps in kept]
            data[path] = np.stack([np.stack(column) for column in values], axis=1)
        cuts = np.array([[step.cut for step in steps] for steps in kept])
        if cuts.any():
            data[keys.CUT] = cuts.T[..., None]
        if self.settings.length:
            data = self._with_starts(data, lanes, kept)
        return data

    def _with_starts(self, data: Row, lanes: list[Lane], kept: list[list[Step]]) -> Row:
        columns = [[self._is_start(lane, step) for step in steps] for lane, steps in zip(lanes, kept, strict=True)]
        starts = np.array(columns, np.bool_).T[..., None]  # [time, num_envs, 1]
        data = {path: values for path, values in data.items() if path not in under(data, [keys.NEXT_RHS])}
        for path, values in under(data, [keys.RHS]).items():
            data[path] = values.copy()
            data[path][~starts[..., 0]] = 0
        return data | ({keys.START: starts} if data else {})


def _as_batch(row: Row, root: str) -> Any:
    """What a user's function gets for one step: arrays with a first axis of one."""
    return nest({path: value[None].copy() for path, value in row.items()}, root)


def _as_row(parts: Mapping[str, Any], roots: Iterable[str]) -> Row:
    """Flatten what a user's function returned for one step."""
    given = {root: parts[root] for root in roots if parts[root] is not None}
    return {path: values[0] for path, values in flatten(given).items()}
