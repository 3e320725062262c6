"""Faults in storages that mix data with own experience."""

from typing import Final

from tests.mutants.mutant import Mutant

MIXED: Final = "agent/storages/off_policy/mixed_buffer.py"
UNIT: Final = ("tests/unit/agent/storages/off_policy/test_mixed_buffer.py",)

MUTANTS: Final = (
    Mutant("weights of mixed parts are not of one scale", MIXED, " * self._largest_weight(part, drawn.ids)", "", UNIT),
    Mutant("weights within mixed parts forget the part's mean", MIXED,
           "mean = 1.0 if self.config.joint_priorities else part.mean", "mean = 1.0", UNIT),
    Mutant("joint priorities do not move rows between parts", MIXED,
           "wanted = favoured if favoured.any() else wanted", "pass", UNIT),
    Mutant("a mixed share is always rounded down", MIXED, "ends + self._rng.random()", "ends", UNIT),
    Mutant("parts get rows by their sizes instead of their shares", MIXED,
           "[part.share for part in parts]", "[float(part.num_starts) for part in parts]", UNIT),
    Mutant("data age like own experience", MIXED,
           "own = np.where(self._part_of_lanes() == _OWN, sizes, 0)", "own = sizes", UNIT),
    Mutant("a part's draws take the newest step of other parts", "agent/storages/experience/kernels/draw_kernels.py",
           "        if floors[lane] >= head_of(header, lane):\n            return low, np.int64(0)\n", "", UNIT),
    Mutant("data leave with the workers of a run", "agent/storages/snapshots.py",
           "if source in storage.lasting_sources:", "if source == 0:", UNIT),
    Mutant("data that do not fit are accepted", MIXED, "num_groups = num_collectors + ", "num_groups = ", UNIT),
)  # fmt: skip
