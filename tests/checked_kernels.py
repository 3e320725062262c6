"""Runs the kernels that restore steps as plain Python, with every address checked.

`python -m tests.checked_kernels NUMBER` forges so many pieces of each kind, and says how many could be read.

Kernels work on addresses, where Numba's bounds checking sees nothing. Here loads, stores and copies are functions that
know which memory belongs to rings and pieces, section by section, and refuse all else; indices into arrays are NumPy's,
which checks them as Numba would. Pieces of steps are forged, and read where they are not refused.
"""

import ctypes
import os
import random
import sys
import weakref
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

os.environ["NUMBA_DISABLE_JIT"] = "1"
_KERNELS = "recollect.agent.storages.experience.kernels"
_NUMBERS = {
    "u8": ctypes.c_uint8,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


class OutOfBoundsError(Exception):
    """A kernel asked for memory that is not the store's."""


class Memory:
    """The memory that kernels may touch.

    Attributes
    ----------
    is_checked : bool
        Whether anything else is an error; samples that are appended lie anywhere.
    """

    def __init__(self) -> None:
        self.is_checked = False
        self._known: dict[int, list[tuple[int, int]]] = {}

    def know(self, owner: object, parts: Iterable[tuple[int, int]]) -> None:
        """Let kernels touch the parts (address, bytes) as long as their owner lives."""
        weakref.finalize(owner, self._known.pop, id(owner), None)
        self._known[id(owner)] = list(parts)

    def check(self, address: int, num_bytes: int) -> None:
        """Refuse bytes that are not all within one known part."""
        if not self.is_checked or num_bytes == 0:
            return
        for parts in self._known.values():
            if any(begin <= address and address + num_bytes <= begin + size for begin, size in parts):
                return
        raise OutOfBoundsError(f"{num_bytes} bytes at {address}")


MEMORY = Memory()


def copy_bytes(target: int, source: int, num_bytes: int) -> None:
    MEMORY.check(source, num_bytes)
    MEMORY.check(target, num_bytes)
    ctypes.memmove(int(target), int(source), int(num_bytes))


def same_bytes(left: int, right: int, num_bytes: int) -> bool:
    MEMORY.check(left, num_bytes)
    MEMORY.check(right, num_bytes)
    return ctypes.string_at(int(left), int(num_bytes)) == ctypes.string_at(int(right), int(num_bytes))


def _loader(kind: Any) -> Any:
    def load(address: int) -> Any:
        MEMORY.check(address, ctypes.sizeof(kind))
        return kind.from_address(int(address)).value

    return load


def _storer(kind: Any) -> Any:
    def store(address: int, value: Any) -> None:
        MEMORY.check(address, ctypes.sizeof(kind))
        kind.from_address(int(address)).value = value.item() if isinstance(value, np.generic) else value

    return store


def _checked_pointers() -> ModuleType:
    """What stands in for the module of loads, stores and copies; hints to the processor do nothing."""
    module: Any = ModuleType(f"{_KERNELS}.pointers")
    module.copy_bytes = module.copy_field = module.stream_bytes = copy_bytes
    module.same_bytes = same_bytes
    module.prefetch = module.finish_streams = lambda *words: None
    for name, kind in _NUMBERS.items():
        setattr(module, f"load_{name}", _loader(kind))
        setattr(module, f"store_{name}", _storer(kind))
    return module


sys.modules[f"{_KERNELS}.pointers"] = _checked_pointers()

# What follows imports the kernels, with the module above in place.
from recollect.agent.storages import ReplayBuffer  # noqa: E402
from recollect.agent.storages.experience.persistence.manifest import MAX_STEPS  # noqa: E402
from recollect.agent.storages.experience.persistence.snapshot_content import Content, Part, SlotValues, put_steps  # noqa: E402
from recollect.agent.storages.experience.store.allocator import Allocator  # noqa: E402
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing  # noqa: E402
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece  # noqa: E402
from recollect.errors import RecollectError  # noqa: E402
from tests.fuzzing import WHOLE  # noqa: E402
from tests.simulated import SourceStream, as_sample, state_numbers  # noqa: E402
from tests.snapshot_runs import KINDS, NUM_ENVS  # noqa: E402

NUM_STEPS = 9
_HEAD_BYTES = 8 * (6 + 3 * NUM_ENVS)
NO_SLOTS = SlotValues(np.zeros(NUM_ENVS, np.int64), np.zeros(NUM_ENVS, np.int64), {})


class CheckedRing(LaneRing):
    """A ring whose memory is known to the byte: whole pages would hide what lies just beyond."""

    def _make_header(self) -> np.ndarray:
        num_slots = self.num_lanes * self.num_slots
        sizes = [self.schema.row_bytes, *self.schema.block_bytes, *self._side_bytes.values()]
        arrays = [self._rows, *self._blocks, *self._side_tables]
        parts = [(array.ctypes.data, num_slots * size) for array, size in zip(arrays, sizes, strict=True)]
        MEMORY.know(self, [*parts, *((cursor.ctypes.data, cursor.nbytes) for cursor in self._cursors)])
        return super()._make_header()


class CheckedPiece(RingPiece):
    """A piece of whose memory each section is known by itself."""

    def _hold(self, schema: Any, data: np.ndarray | None, words: np.ndarray) -> None:
        super()._hold(schema, data, words)
        ends = self._starts[1:]
        sections = [(self._address + begin, end - begin) for begin, end in zip(self._starts, ends, strict=False)]
        MEMORY.know(self, [*sections, (self._rows.ctypes.data, self._rows.nbytes)])


def honest(kind: str) -> RingPiece:
    """Steps of all lanes of a storage, some of which were overwritten."""
    stream, options = KINDS[kind]
    storage = ReplayBuffer.standalone(NUM_STEPS, num_envs=NUM_ENVS, seed=1, **options)
    source = SourceStream(stream, NUM_ENVS, [0, 0], state_numbers())
    storage.insert_data_slice(as_sample(source.take(NUM_STEPS + 4), "numpy"))
    ring = storage.store.ring
    states = [np.zeros((int((ring.heads - ring.lows).sum()), *leaf.shape), leaf.dtype) for leaf in ring.schema.hidden]
    return RingPiece.cut_from(ring, 0, ring.lows, ring.heads, states=states)


def forge(data: np.ndarray, rng: random.Random) -> np.ndarray:
    """Change words of the head, bytes of the marks and ages behind it or anywhere, or the length."""
    forged = data.copy()
    words = _words_of(forged)
    for _ in range(rng.choice([1, 1, 2, 6])):
        action = rng.random()
        if action < 0.3:
            place = rng.randrange(1, _HEAD_BYTES // 8)
            words[place] = words[place] + rng.choice([-1, 1, 2, 64]) if rng.random() < 0.6 else rng.choice(WHOLE[:8])
        elif action < 0.95:
            place = rng.randrange(_HEAD_BYTES, _HEAD_BYTES + 64) if action < 0.7 else rng.randrange(len(forged))
            forged[place] = rng.choice([0, 1, 2, 3, 8, 9, 10, 16, 24, 255])
        else:
            size = rng.randrange(-64, 64)
            forged = np.resize(forged, len(forged) + size) if len(forged) + size > 0 else forged
            words = _words_of(forged)
    return forged


def _words_of(data: np.ndarray) -> np.ndarray:
    return data[: len(data) // 8 * 8].view(np.int64)


def restore(schema: Any, data: np.ndarray, rng: random.Random) -> None:
    """Put a piece into a ring, perhaps a smaller one or twice, and cut all out of it again."""
    ring = CheckedRing(schema, NUM_ENVS, rng.choice([2, 5, NUM_STEPS, 2 * NUM_STEPS]), Allocator())
    part = Part(0, MAX_STEPS, lambda: data)
    lowest = np.zeros(NUM_ENVS, np.int64)
    put_steps(ring, NUM_ENVS, lowest, [Content([part] * rng.choice([1, 2]), NO_SLOTS, {})])
    CheckedPiece.cut_from(ring, 0, ring.lows, ring.heads)


def forge_all(kind: str, number: int) -> int:
    """Try forgeries of a piece; returns how many were restored."""
    MEMORY.is_checked = False
    piece, num_restored = honest(kind), 0
    MEMORY.is_checked = True
    restore(piece.schema, piece.data, random.Random(0))
    for each in range(number):
        rng = random.Random(each)
        forged = forge(piece.data, rng)
        try:
            restore(piece.schema, forged, rng)
            num_restored += 1
        except RecollectError:
            continue
        except (OutOfBoundsError, IndexError) as error:
            raise SystemExit(f"forgery {each} of {kind}: {error}") from error
    return num_restored


def main(number: int) -> None:
    persistence: Any = sys.modules[put_steps.__module__]
    persistence.RingPiece = CheckedPiece
    for kind in KINDS:
        sys.stdout.write(f"{kind}: {forge_all(kind, number)}\n")


if __name__ == "__main__":
    np.seterr(over="ignore")
    main(int(sys.argv[1]))
