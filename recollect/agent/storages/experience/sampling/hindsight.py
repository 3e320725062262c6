"""`Hindsight`: which sampled steps get a new goal, which goal, and the reward for it.

Nothing is stored for it but the numbers of the steps that end a stream: goals are read from the
store, and rows are rewritten in the batch.
"""

from typing import Final, Literal

import numpy as np

from recollect.agent.storages.experience.kernels import hindsight_kernels as kernels
from recollect.agent.storages.experience.sampling.relabelling import FunctionRewriter, GoalRewriter, Relabelled, Windows
from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing

Strategy = Literal["future", "final", "episode", "random"]

_CODES: Final[dict[Strategy, int]] = {
    "future": kernels.FUTURE,
    "final": kernels.FINAL,
    "episode": kernels.EPISODE,
    "random": kernels.RANDOM,
}
_FIRST_ENTRIES: Final = 16
# Longer windows get working space for the longest stretch that is stored, not for all that they might hold.
_LONG_WINDOW: Final = 64


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

    def longest(self, ring: LaneRing) -> int:
        """Steps of the longest stretch without an end."""
        longest = 1
        for lane, (following, oldest, _) in enumerate(self.cursors):
            ends = self.ends[lane, np.arange(oldest, following) % self.ends.shape[1]]
            borders = [ring.firsts[lane] - 1, *ends, ring.heads[lane] - 1]
            longest = max(longest, int(np.diff(borders).max()))
        return longest


class Hindsight:
    """Rewrites a share of each batch towards goals that were reached.

    Parameters
    ----------
    strategy : {"future", "final", "episode", "random"}
        Where the goal comes from: a later state of the same episode, its last, any of it, or of the store.
    share : float
        Share of rows (or sequences) to rewrite.
    rewriter : GoalRewriter or FunctionRewriter
        What rows are worth under another goal.
    """

    def __init__(self, strategy: Strategy, share: float, rewriter: GoalRewriter | FunctionRewriter) -> None:
        self.strategy = strategy
        self.share = share
        self.rewriter = rewriter

    def restart(self, ring: LaneRing) -> None:
        """Start over with a ring whose steps have moved or gone."""
        self.rewriter.restart(ring)
        self._index = EpisodeIndex(ring.num_lanes)

    def follow(self, ring: LaneRing) -> EpisodeIndex:
        """Make the episodes that have ended since available."""
        self._index.follow(ring)
        return self._index

    def num_chosen(self, num_sequences: int) -> int:
        """How many of the rows (or sequences) of a batch are rewritten."""
        return round(self.share * num_sequences)

    def relabel(
        self,
        store: ExperienceStore,
        ids: np.ndarray,
        length: int,
        max_steps: int,
        gamma: float,
        rng: np.random.Generator,
    ) -> tuple[Relabelled, np.ndarray]:
        """Choose rows of a batch and rewrite them; `length` consecutive rows make a sequence.

        Returns what to write into the batch, and the sequences that were chosen, int64 [count].
        """
        index = self.follow(store.ring)
        if max_steps > _LONG_WINDOW:
            # To a power of two, so that working space is kept from batch to batch.
            max_steps = min(max_steps, 1 << index.longest(store.ring).bit_length())
        count = self.num_chosen(len(ids) // length) * length
        uniforms = rng.random((2, count))
        anywhere = store.access.draw_steps(uniforms[1]) if self.strategy == "random" else ids
        windows = np.empty((kernels.N_NUM_WORDS, count), np.int64)
        steps = np.empty(count * max_steps, np.int64)
        num_steps = kernels.relabel(
            store.ring.header,
            index.ends,
            index.cursors,
            _CODES[self.strategy],
            length,
            max_steps,
            self.rewriter.field(count, max_steps),
            ids,
            uniforms,
            anywhere,
            windows,
            steps,
        )
        rows, _, goals, begins, used = windows
        chosen = rows if length == 1 else rows[::length] // length
        return self.rewriter.rewrite(Windows(rows, goals, begins, used, steps[:num_steps]), gamma), chosen
