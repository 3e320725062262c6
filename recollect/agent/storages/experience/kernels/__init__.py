"""Numba kernels over bytes and addresses, and the layout of a ring that they share.

The rooms beside this one and buffers import from here. Kernels import nothing but each other.
"""

from pathlib import Path

from recollect.agent.kernel_cache import drop_stale_kernels

drop_stale_kernels(Path(__file__).parent)
