"""`SumTree`: priorities of the steps that rows may start at, drawn in proportion."""

import numpy as np
import torch

from recollect.agent.storages.experience.kernels import priority_kernels, tree_kernels
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.sampling.sequences import Starts
from recollect.agent.storages.experience.store.allocator import anonymous
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.errors import SchemaError


class SumTree:
    """Priorities `(error + epsilon) ** alpha` over the slots of a ring.

    Raw errors are kept beside the tree, so that alpha and epsilon can change. With alpha 0 all
    priorities are equal, and there is no tree at all.

    Parameters
    ----------
    ring : LaneRing
        Whose slots the priorities are of.
    starts : Starts
        Which of its steps rows may start at.
    alpha, epsilon : float
        Exponent of the priorities, and what is added to each error.

    Attributes
    ----------
    errors : float32 [num_slots]
        The error last given to each slot.
    nodes_visited : int
        Nodes that draws have read so far.
    """

    def __init__(self, ring: LaneRing, starts: Starts, alpha: float, epsilon: float) -> None:
        num_leaves = ring.num_lanes * ring.num_slots
        self.errors: np.ndarray = anonymous(4 * num_leaves, huge_pages=True)[: 4 * num_leaves].view(np.float32)
        self.nodes_visited = 0
        self._ring = ring
        self._starts = starts
        self._seen = np.stack([ring.firsts, ring.heads])
        self._offsets = _level_offsets(num_leaves)
        # A lane's newest starts are two ranges at most, each covered by at most 7 nodes at either end of a level.
        max_nodes = ring.num_lanes * 2 * 2 * (tree_kernels.FANOUT - 1) * len(self._offsets)
        self._cover = (np.empty((2, max_nodes), np.int64), np.empty(max_nodes))
        self.rescale(alpha, epsilon)

    @property
    def is_flat(self) -> bool:
        """Whether all priorities are equal, so that no tree is needed."""
        return self.alpha == 0.0

    @property
    def priorities(self) -> np.ndarray:
        """Priority of each slot, float64 `[num_slots]`; empty where all are equal."""
        return self._sums[: len(self.errors)]

    @property
    def num_bytes(self) -> int:
        """Bytes of the raw errors and of the tree above them."""
        return self.errors.nbytes + self._sums.nbytes

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._sums[self._offsets[-2]])

    def rescale(self, alpha: float, epsilon: float) -> None:
        """Take other parameters and compute all priorities again."""
        self.alpha, self.epsilon = alpha, epsilon
        num_nodes = 0 if self.is_flat else int(self._offsets[-1])
        # Page-aligned, so that the eight children of a node share a cache line.
        self._sums: np.ndarray = anonymous(8 * num_nodes, huge_pages=True)[: 8 * num_nodes].view(np.float64)
        if not self.is_flat:
            slots = self._starts.slots(self._ring)
            priorities = self.errors[slots].astype(np.float64)
            priority_kernels.prioritise(priorities, self.epsilon, self.alpha)
            self._sums[slots] = priorities
            tree_kernels.rebuild(self._sums, self._offsets)

    def take_over(self, old: "SumTree", old_ring: LaneRing) -> None:
        """Take the errors of the same steps in the ring that this one replaces."""
        ring = self._ring
        slots = self._starts.slots(ring)
        lanes, offsets = np.divmod(slots, ring.num_slots)
        newest = ring.heads[lanes] - 1
        numbers = newest - (newest - offsets) % ring.num_slots
        self.errors[slots] = old.errors[lanes * old_ring.num_slots + numbers % old_ring.num_slots]
        self.rescale(self.alpha, self.epsilon)

    def follow(self, default_error: float) -> None:
        """Give steps that are new in the ring the error of new data; drop those overwritten."""
        priority_kernels.follow(
            self._ring.header,
            self._starts.table,
            self._seen,
            self._sums,
            self._offsets,
            self.errors,
            default_error,
            self.epsilon,
            self.alpha,
        )

    def draw(self, uniforms: np.ndarray, beta: float, floors: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Draw starts in proportion to their priorities; None if all of these are 0.

        Parameters
        ----------
        uniforms : float64 [batch]
            Numbers in [0, 1); overwritten.
        beta : float
            Exponent of the weights.
        floors : int64 [num_lanes] or [0]
            Oldest step of each lane that may be drawn, if not all may.

        Returns
        -------
        ids : int64 [batch]
            The starts.
        weights : float32 [batch]
            Their weights, relative to the largest of them.
        """
        ids, weights = np.empty(len(uniforms), np.int64), np.empty(len(uniforms), np.float32)
        header = self._ring.header
        if len(floors) == 0:
            visited = priority_kernels.draw(header, self._sums, self._offsets, uniforms, beta, ids, weights)
        else:
            cover, ends = self._cover
            visited = priority_kernels.draw_recent(
                header, self._starts.table, floors, self._sums, self._offsets, cover, ends, uniforms, beta, ids, weights
            )
        if visited == priority_kernels.NO_MASS:
            return None
        self.nodes_visited += visited
        return ids, weights

    def mass(self, floors: np.ndarray) -> float:
        """Sum of the priorities of the starts that are not older than their lane's floor, int64 [num_lanes]."""
        total: float = priority_kernels.mass(
            self._ring.header, self._starts.table, floors, self._sums, self._offsets, *self._cover
        )
        return total

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Priorities of stored starts, float64 [batch]; of a flat tree there are none."""
        num_slots = self._ring.num_slots
        found: np.ndarray = self._sums[(ids >> layout.ID_SHIFT) * num_slots + (ids & layout.ID_MASK) % num_slots]
        return found

    def update(self, ids: torch.Tensor, errors: torch.Tensor, largest: np.ndarray) -> int:
        """Record the errors of starts; returns how many are no longer stored.

        Parameters
        ----------
        ids, errors : int64 [batch], float32 [batch]
            Contiguous and in CPU memory.
        largest : float32 [1]
            The largest error ever recorded; brought up to date.
        """
        num_stale: int = priority_kernels.update(
            self._ring.header,
            self._starts.table,
            ids.data_ptr(),
            errors.data_ptr(),
            ids.numel(),
            self._sums,
            self._offsets,
            self.errors,
            largest,
            self.epsilon,
            self.alpha,
        )
        if num_stale == priority_kernels.BAD_ERROR:
            raise wrong_error()
        return num_stale


def wrong_error() -> SchemaError:
    """The refusal of TD errors that no priority can be made of."""
    return SchemaError("a TD error is negative, NaN or infinite; give finite ones, e.g. (q - target).abs()")


def bytes_a_step(alpha: float) -> float:
    """Bytes that a step's error and its share of the tree take."""
    num_inner = 1.0 / (tree_kernels.FANOUT - 1)
    return 4.0 if alpha == 0.0 else 4.0 + 8.0 * (1.0 + num_inner)


def _level_offsets(num_leaves: int) -> np.ndarray:
    """Where each level's nodes start, every level padded to whole cache lines."""
    sizes = [_padded(num_leaves)]
    while sizes[-1] > tree_kernels.FANOUT:
        sizes.append(_padded(sizes[-1] // tree_kernels.FANOUT))
    sizes.append(1)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _padded(count: int) -> int:
    return -(-count // tree_kernels.FANOUT) * tree_kernels.FANOUT
