"""Faults in the adapters: what another library's loop is told of ends, discounts and weights."""

from typing import Final

from tests.mutants.mutant import Mutant

SB3: Final = ("tests/unit/adapters/test_sb3.py",)
CLEANRL: Final = ("tests/unit/adapters/test_cleanrl.py",)
TORCHRL: Final = ("tests/unit/adapters/test_torchrl.py",)

MUTANTS: Final = (
    Mutant("SB3's truncations end the return", "adapters/sb3/buffers.py",
           "step.ended[env], step.terminated[env] = 1, 0", "step.ended[env], step.terminated[env] = 1, 1", SB3),
    Mutant("SB3 is told of every end as a termination", "adapters/sb3/samples.py",
           "batch[keys.NEXT_TERMINATED], rewards", "batch[keys.NEXT_DONE], rewards", SB3),
    Mutant("SB3's losses leave weights out", "adapters/sb3/algorithms.py",
           "constant + weights * (current - constant)", "current", SB3),
    Mutant("CleanRL's truncations end the return", "adapters/cleanrl.py",
           "next_obs, terminated & ~truncated, truncated", "next_obs, terminated, truncated", CLEANRL),
    Mutant("CleanRL's weights are all one", "adapters/cleanrl.py",
           "batch.get(keys.PER_WEIGHTS, torch.ones_like(rewards))", "torch.ones_like(rewards)", CLEANRL),
    Mutant("TorchRL's truncations are terminations", "adapters/tensordicts.py",
           "_TERMINATED: terminated, _TRUNCATED: done & ~terminated",
           "_TERMINATED: done, _TRUNCATED: done & ~terminated", TORCHRL),
    Mutant("TorchRL's ends are its terminations alone", "adapters/tensordicts.py",
           "(done | terminated | outcomes.get(_TRUNCATED, done)).contiguous()", "terminated.contiguous()", TORCHRL),
    Mutant("TorchRL's padding is stored", "adapters/tensordicts.py", "data = data[mask]", "pass", TORCHRL),
)  # fmt: skip
