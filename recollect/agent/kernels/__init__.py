"""Numba kernels of networks, losses and optimisers: float32 on the processor, one call for what are many operators.

Networks and algorithms import from here. Each kernel has a plain form in PyTorch beside its caller, which is taken on
other devices, for other dtypes and wherever autograd or a compiler must see the operators.
"""

from pathlib import Path
from typing import Any, Final

from recollect.agent.kernel_cache import drop_stale_kernels

drop_stale_kernels(Path(__file__).parent)

# Sums may be added in any order; what is not a number stays that.
_FAST: Final = {"reassoc", "contract", "arcp", "nsz"}
KERNEL: Final[dict[str, Any]] = {
    "nogil": True,
    "error_model": "numpy",
    "cache": True,
    "no_cfunc_wrapper": True,
    "fastmath": _FAST,
    "boundscheck": False,
}
INLINED: Final[dict[str, Any]] = {**KERNEL, "cache": False, "no_cpython_wrapper": True, "forceinline": True}
CALLBACK: Final[dict[str, Any]] = {name: KERNEL[name] for name in ("error_model", "cache", "fastmath", "boundscheck")}
