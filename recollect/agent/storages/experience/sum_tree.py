"""`SumTree`: priorities of slots, drawn in proportion, exact in sums and minima."""

from typing import Any

import numpy as np

from recollect.agent.storages.experience import tree_kernels
from recollect.agent.storages.experience.memory import anonymous
from recollect.errors import SchemaError


class SumTree:
    """Priorities `(error + epsilon) ** alpha` over slots.

    Raw errors are kept beside the tree, so that alpha and epsilon can change; with alpha 0 all
    priorities are equal, and there is no tree at all.

    Parameters
    ----------
    num_leaves : int
        Number of slots.
    alpha, epsilon : float
        Exponent of the priorities, and what is added to each error.

    Attributes
    ----------
    errors : float32 [num_leaves]
        The error last given to each slot.
    nodes_visited : int
        Nodes that draws have read so far.
    """

    def __init__(self, num_leaves: int, alpha: float, epsilon: float) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.nodes_visited = 0
        self.errors: np.ndarray = anonymous(4 * num_leaves)[: 4 * num_leaves].view(np.float32)
        sizes = [_padded(num_leaves)]
        while sizes[-1] > tree_kernels.FANOUT:
            sizes.append(_padded(sizes[-1] // tree_kernels.FANOUT))
        sizes.append(1)
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._sums: np.ndarray | None = None
        self._mins: np.ndarray | None = None

    @property
    def is_flat(self) -> bool:
        """Whether all priorities are equal, so that no tree is needed."""
        return self.alpha == 0.0

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        sums, _ = self._nodes()
        return float(sums[self._offsets[-2]])

    @property
    def smallest_positive(self) -> float:
        """Smallest positive priority, 0 if there is none."""
        _, mins = self._nodes()
        return float(mins[self._offsets[-2] - self._offsets[1]])

    def admit(self, leaves: np.ndarray, error: float) -> None:
        """Give the slots `leaves` the error of new data."""
        self.errors[leaves] = error
        if not self.is_flat:
            priority = float(self.priority(np.float32(error)))
            tree_kernels.set_leaves(*self._nodes(), self._offsets, leaves, priority)

    def remove(self, leaves: np.ndarray) -> None:
        """Make the slots `leaves` undrawable."""
        if not self.is_flat:
            tree_kernels.set_leaves(*self._nodes(), self._offsets, leaves, 0.0)

    def update(self, leaves: np.ndarray, errors: np.ndarray) -> None:
        """Set the errors of `leaves` [count]; of duplicates the largest wins."""
        tree_kernels.keep_errors(self.errors, leaves, errors)
        if not self.is_flat:
            tree_kernels.apply_errors(
                *self._nodes(), self._offsets, self.errors, leaves, self.epsilon, self.alpha
            )

    def rescale(self, alpha: float, epsilon: float, leaves: np.ndarray) -> None:
        """Take other parameters and compute the priorities of the drawable `leaves` anew."""
        self.alpha, self.epsilon = alpha, epsilon
        self._sums = self._mins = None
        if not self.is_flat:
            sums, mins = self._nodes()
            sums[leaves] = self.priority(self.errors[leaves])
            tree_kernels.rebuild(sums, mins, self._offsets)

    def draw(self, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draw a leaf for each stratum: leaves int64 [batch] and their priorities float64 [batch]."""
        leaves, priorities = np.empty(len(uniforms), np.int64), np.empty(len(uniforms))
        sums, _ = self._nodes()
        self.nodes_visited += tree_kernels.draw(sums, self._offsets, uniforms, leaves, priorities)
        return leaves, priorities

    def range_totals(self, ranges: np.ndarray) -> tuple[np.ndarray, float]:
        """Running sums over `ranges` [num_ranges, 2] of leaves, and their smallest positive priority."""
        cumulative, smallest = np.empty(len(ranges)), np.empty(1)
        self.nodes_visited += tree_kernels.range_totals(
            *self._nodes(), self._offsets, ranges, cumulative, smallest
        )
        return cumulative, float(smallest[0])

    def draw_in_ranges(
        self, ranges: np.ndarray, cumulative: np.ndarray, uniforms: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `draw`, but only from the leaves in `ranges`, whose `range_totals` are `cumulative`."""
        leaves, priorities = np.empty(len(uniforms), np.int64), np.empty(len(uniforms))
        sums, _ = self._nodes()
        self.nodes_visited += tree_kernels.draw_in_ranges(
            sums, self._offsets, ranges, cumulative, uniforms, leaves, priorities
        )
        return leaves, priorities

    def priority(self, error: Any) -> Any:
        """Priority of one or more errors, in float64."""
        return np.power(np.asarray(error, np.float64) + self.epsilon, self.alpha)

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        if self._sums is None or self._mins is None:
            num_nodes = int(self._offsets[-1])
            num_inner = num_nodes - int(self._offsets[1])
            # Page-aligned, so that the eight children of a node share a cache line.
            self._sums = anonymous(8 * num_nodes)[: 8 * num_nodes].view(np.float64)
            self._mins = anonymous(8 * num_inner)[: 8 * num_inner].view(np.float64)
        return self._sums, self._mins


def check_errors(errors: np.ndarray) -> None:
    """Refuse errors that are negative, NaN or infinite."""
    if tree_kernels.check_errors(errors) != tree_kernels.OK:
        raise SchemaError(
            "a TD error is negative, NaN or infinite; give finite absolute errors, e.g. (q - target).abs()"
        )


def _padded(count: int) -> int:
    return -(-count // tree_kernels.FANOUT) * tree_kernels.FANOUT
