"""The parts that storages are made of: arrays in, arrays out."""

from pathlib import Path

from recollect.agent.storages.experience.kernel_cache import drop_stale_kernels

drop_stale_kernels(Path(__file__).parent)
