"""The tensors that batches are gathered into: reused once nobody refers to them, else new."""

from collections.abc import Callable
from sys import getrefcount
from typing import Any, Final, NamedTuple

import numpy as np
import torch

# Sets of tensors kept for each batch size, and batch sizes for which they are kept.
_SETS_KEPT: Final = 4
_SIZES_KEPT: Final = 16


MakeTensor = Callable[[tuple[int, ...], np.dtype], torch.Tensor]


def host_tensor(shape: tuple[int, ...], dtype: np.dtype) -> torch.Tensor:
    """A tensor of undefined content in the memory of this process.

    In PyTorch's memory, which is aligned as products want it (`actors.spaces.as_tensor` says why), and NumPy's is not.
    """
    return torch.empty(shape, dtype=torch.from_numpy(np.empty(0, dtype)).dtype)


class _Watched(NamedTuple):
    """A tensor of the pool, and its properties while nobody else refers to it."""

    tensor: Any
    address: int
    use_count: int
    storage: Any
    storage_address: int
    storage_count: int


def _watch(tensor: Any, count_storage: Callable[[int], int]) -> _Watched:
    storage = tensor.untyped_storage()
    address = storage._cdata
    return _Watched(tensor, tensor.data_ptr(), tensor._use_count(), storage, address, count_storage(address))


class TensorSet:
    """The tensors of one batch, which are handed out again once nobody refers to them.

    To make the ten tensors of a batch costs a quarter of a uniform draw (ADR 0011). What counts as a
    reference: the tensor object itself, its implementation (autograd graphs, DLPack), its memory (views,
    detached tensors). A tensor that was changed in place, given other memory or made to require gradients
    is not used again either.

    Attributes
    ----------
    tensors : dict of Tensor
        The tensors `[batch, ...]` by name, as a batch has them: to be copied, which is cheaper than to make a dict.
    targets : int64 [outputs]
        Addresses of their memory.
    """

    def __init__(self, tensors: dict[Any, torch.Tensor], count_storage: Callable[[int], int] | None) -> None:
        self.tensors = tensors
        self.targets = np.array([tensor.data_ptr() for tensor in tensors.values()], np.int64)
        self._count_storage = count_storage
        # The counts at rest: nobody else refers to the tensors yet.
        self._watched = [_watch(tensor, count_storage) for tensor in tensors.values() if count_storage is not None]
        self._references = (0, 0)
        # Counted as `is_free` counts, so that the references of loop and call are among them.
        for tensor, _, _, storage, _, _ in self._watched:
            self._references = (getrefcount(tensor), getrefcount(storage))

    def is_free(self) -> bool:
        """Whether no tensor is referred to, or was changed in other ways than by filling it."""
        count_storage = self._count_storage
        if count_storage is None:
            return False
        of_tensor, of_storage = self._references
        for tensor, address, use_count, storage, storage_address, storage_count in self._watched:
            if (
                getrefcount(tensor) != of_tensor
                or tensor.data_ptr() != address
                or tensor._version
                or tensor.requires_grad
                or tensor._use_count() != use_count
                or count_storage(storage_address) != storage_count
                or getrefcount(storage) != of_storage
            ):
                return False
        return True


def _find_storage_count() -> Callable[[int], int] | None:
    """The function that counts the references to a tensor's memory; None where counts cannot be relied on.

    Neither Python nor torch promises that references are counted so: this version of both is tried.
    """
    count: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)
    if count is None or not hasattr(torch.Tensor, "_use_count"):
        return None
    tried = TensorSet({"": torch.from_numpy(np.zeros(1))}, count)
    holds: list[Callable[[torch.Tensor], object]] = [lambda held: held, torch.Tensor.detach, lambda held: held[:1]]
    for hold in holds:
        kept = hold(tried.tensors[""])
        is_noticed = not tried.is_free()
        del kept
        if not (is_noticed and tried.is_free()):
            return None
    return count


_storage_count: Final = _find_storage_count()


class TensorPool:
    """Hands out sets of tensors, old ones where they are free.

    Parameters
    ----------
    outputs : list of (name, shape, dtype)
        Name, shape of one row and dtype of each tensor of a set.
    make_tensor : callable
        Makes a tensor of a shape and dtype, of undefined content, in memory that kernels write to.
    """

    def __init__(self, outputs: list[tuple[Any, tuple[int, ...], np.dtype]], make_tensor: MakeTensor) -> None:
        self._outputs = outputs
        self._make_tensor = make_tensor
        self._sets: dict[int, list[TensorSet]] = {}

    def take(self, batch_size: int) -> TensorSet:
        """Return a set of tensors `[batch_size, ...]` of undefined content."""
        kept = self._sets.get(batch_size)
        if kept is None:
            if len(self._sets) >= _SIZES_KEPT:
                self._sets.clear()
            kept = self._sets[batch_size] = []
        for index, each in enumerate(kept):
            if each.is_free():
                # The set that was handed out longest ago comes first: it is the likeliest to be free again.
                kept.append(kept.pop(index))
                return each
        make = self._make_tensor
        tensors = {name: make((batch_size, *shape), dtype) for name, shape, dtype in self._outputs}
        fresh = TensorSet(tensors, _storage_count)
        if _storage_count is not None:
            if len(kept) == _SETS_KEPT:
                kept.pop(0)
            kept.append(fresh)
        return fresh
