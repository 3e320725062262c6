"""`MixedBuffer`: batches that are part data and part own experience, in fixed, scheduled or prioritised shares."""

from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, dataclass
from math import fsum
from typing import Final, NamedTuple

import numpy as np

from recollect.agent.storages.base import Creates
from recollect.agent.storages.experience.kernels import draw_kernels
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.sampling.relabelling import GoalRewriter, HerFunction
from recollect.agent.storages.experience.store.ring.ring_access import NO_FLOORS
from recollect.agent.storages.off_policy.her_buffer import HERBuffer, HERConfig
from recollect.agent.storages.off_policy.replay_buffer import Drawn
from recollect.checks import check_number
from recollect.errors import ConfigError
from recollect.options import flag, number, option
from recollect.roles import Actor, Algorithm, Device, VectorEnvs

# The part that data go to where no other is named.
DATA: Final = "data"
_OWN: Final = 0
_ROUNDING: Final = 1e-9


def _check_shares(name: str, value: object) -> float | dict[str, float]:
    if not isinstance(value, Mapping):
        return check_number(name, value, 0.0, 1.0)
    shares = {part: check_number(f"{name}[{part!r}]", share, 0.0, 1.0) for part, share in value.items()}
    are_named = bool(shares) and all(isinstance(part, str) and part for part in shares)
    if not are_named or fsum(shares.values()) > 1 + _ROUNDING:
        raise ConfigError(
            f"{name} must be a number from 0 to 1, or one for each part by its name, such as {{expert: 0.25, medium: "
            f"0.25}}, of at most 1 together, got {value!r}"
        )
    return shares


@dataclass(frozen=True)
class MixedConfig(HERConfig):
    """Options of batches that are part data, part own experience. Hindsight is off unless `share` is given."""

    _: KW_ONLY
    share: float = option(0.0, "Share of a batch that is relabelled.", number(0.0, 1.0))
    data_share: float | Mapping[str, float] = option(
        0.5,
        "Share of a batch that is drawn from the data; of several parts {expert: 0.25, medium: 0.25}.",
        _check_shares,
        changes=True,
    )
    joint_priorities: bool = option(
        False, "Let priorities decide between the parts, too, rather than within each alone.", flag
    )


class _Part(NamedTuple):
    """What may be drawn of one part.

    Attributes
    ----------
    share : float
        Wanted share of a batch.
    floors : int64 [num_lanes]
        Oldest step of each lane that may be drawn; of other parts' lanes, the step to come.
    num_starts : int
        How many starts that leaves.
    mean : float
        Mean of their priorities.
    """

    share: float
    floors: np.ndarray
    num_starts: int
    mean: float


class MixedBuffer(HERBuffer):
    """Draws a share of each batch from data and the rest from own experience (Ball et al., 2023, arXiv:2302.02948).

    Data are the steps of sources that `data_share` names, by default `"data"`: `load_minari` and `--data` put theirs
    there, `insert_data_slice(steps, source="data")` does too. All other sources are own experience. Every source has
    lanes of its own, so that experience never overwrites data; `size` is shared among all of them.

    A part gets its share of rows, rounded at random where that is no whole number; what an empty part would get goes
    to the others. Within a part, draws are prioritised as in `PERBuffer`, and `per_weights` lead back to uniform draws
    in these shares. With `joint_priorities` a part's rows are also in proportion to the mean of its priorities.
    Recency (`eta`) is of own experience alone: data do not age.

    Parameters
    ----------
    size, device, actor, algorithm, envs, her_function
        As in `HERBuffer`.
    *values, **given
        See `MixedConfig`.

    Examples
    --------
    >>> memory = MixedBuffer.standalone(1000, data_share=0.5, seed=0)
    >>> obs, flag = np.zeros((1, 3), np.float32), np.zeros((1, 1), np.float32)
    >>> step = {"Observation": obs, "Action": flag, "Reward": flag, "NextObservation": obs, "NextDone": flag}
    >>> memory.insert_data_slice({key: values[None] for key, values in step.items()}, source="data")
    >>> memory.insert_transition(step | {"Reward": flag + 1})
    >>> float(memory.sample(4)["Reward"].sum())
    2.0
    """

    create_factory = Creates(MixedConfig)
    title = "mixed replay"
    config: MixedConfig

    def __init__(
        self,
        size: int,
        device: Device,
        actor: Actor,
        algorithm: Algorithm,
        envs: VectorEnvs,
        her_function: HerFunction | None = None,
        *values: object,
        **given: object,
    ) -> None:
        super().__init__(size, device, actor, algorithm, envs, her_function, *values, **given)

    @property
    def data_source(self) -> Hashable:
        return next(iter(self._shares))

    @property
    def lasting_sources(self) -> tuple[Hashable, ...]:
        return (*super().lasting_sources, *self._shares)

    def check_room(self, num_collectors: int) -> None:
        """Refuse data that would be overwritten, now or once `num_collectors` collectors have joined."""
        with self._store.lock:
            lengths = self._store.ring.heads[self._part_of_lanes() != _OWN]
        num_groups = num_collectors + len(lengths) // self.num_envs
        longest = int(lengths.max(initial=0))
        if longest > self.max_size // num_groups:
            raise ConfigError(
                f"the data have {longest:,} steps for each of {self.num_envs} environments, and a storage of size "
                f"{self.max_size:,} keeps {self.max_size // num_groups:,} of them beside what is collected; use a "
                f"size of at least {longest * num_groups:,}"
            )

    @property
    def _shares(self) -> Mapping[str, float]:
        """Share of each part that is data, by name."""
        given = self.config.data_share
        return given if isinstance(given, Mapping) else {DATA: given}

    def _goal_rewriter(self) -> GoalRewriter | None:
        return super()._goal_rewriter() if self.config.share > 0 else None

    def _newest(self, progress: float) -> tuple[np.ndarray, int]:
        access = self._store.access
        heads = access.ring.heads
        sizes = heads - np.maximum(access.ring.firsts, access.starts.table[layout.A_CONTEXT])  # [num_lanes]
        own = np.where(self._part_of_lanes() == _OWN, sizes, 0)
        num_own = int(own.sum())
        reach = self._recent.reach(num_own, progress)
        if reach >= num_own:
            return NO_FLOORS, int(sizes.sum())
        recent = np.minimum(own, np.ceil(reach * own / num_own).astype(np.int64))
        return np.where(own > 0, heads - recent, 0), int((sizes - own + recent).sum())

    def _draw_prioritised(self, num_rows: int, floors: np.ndarray) -> Drawn:
        parts = self._parts(floors)
        ids: list[np.ndarray] = []
        weights: list[np.ndarray] = []
        for part, count in zip(parts, self._allot(num_rows, parts), strict=True):
            if count:
                drawn = super()._draw_prioritised(int(count), part.floors)
                ids.append(drawn.ids)
                weights.append(drawn.columns[0] * self._largest_weight(part, drawn.ids))
        mixed = np.concatenate(weights)
        return Drawn(np.concatenate(ids), ((mixed / mixed.max()).astype(np.float32),))

    def _parts(self, floors: np.ndarray) -> list[_Part]:
        """The parts that have something to draw."""
        access = self._store.access
        owners, heads = self._part_of_lanes(), access.ring.heads
        shares = [max(0.0, 1.0 - fsum(self._shares.values())), *self._shares.values()]
        found = []
        for number_of_part, share in enumerate(shares):
            own = np.where(owners == number_of_part, floors if len(floors) else 0, heads)
            num_starts = draw_kernels.count_starts(access.ring.header, access.starts.table, own)
            if num_starts:
                mean = 1.0 if self.tree.is_flat else self.tree.mass(own) / num_starts
                found.append(_Part(share, own, num_starts, mean))
        return found

    def _part_of_lanes(self) -> np.ndarray:
        """Part of each lane, int64 [num_lanes]: 0 for own experience, else its place in `_shares`, counted from 1."""
        store = self._store
        owners = np.zeros(store.ring.num_lanes, np.int64)
        for place, name in enumerate(self._shares, 1):
            if name in store.sources:
                lane = store.lane_of(name)
                owners[lane : lane + self.num_envs] = place
        return owners

    def _allot(self, num_rows: int, parts: list[_Part]) -> np.ndarray:
        """Rows of each part: its share rounded down or up, at random so that the mean is exact, int64 [parts]."""
        wanted = np.array([part.share for part in parts])
        if not wanted.any():  # a batch from parts that are to have no share is better than none
            wanted = np.array([part.num_starts for part in parts], np.float64)
        if self.config.joint_priorities:
            favoured = wanted * [part.mean for part in parts]
            wanted = favoured if favoured.any() else wanted
        ends = num_rows * np.cumsum(wanted / wanted.sum())
        ends[-1] = num_rows
        allotted: np.ndarray = np.diff(np.floor(ends + self._rng.random()).astype(np.int64), prepend=0)
        return allotted

    def _largest_weight(self, part: _Part, ids: np.ndarray) -> float:
        """Weight of the row of a part that has the lowest priority, before weights are made relative."""
        if self.tree.is_flat or part.mean == 0.0:
            return 1.0
        mean = 1.0 if self.config.joint_priorities else part.mean
        return float((mean / self.tree.of(ids).min()) ** self.beta)
