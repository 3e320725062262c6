"""What the kernels read of a ring: its header, and the tables by which they take samples in."""

from collections.abc import Callable

import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.schema.schema import DTYPE_CODES, FLAGS, Place, Schema, next_path


def append_tables(schema: Schema, block_address: Callable[[Place], int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tables of carried fields, of step fields and of flags by which `append` reads samples.

    Parameters
    ----------
    schema : Schema
        The fields.
    block_address : callable
        Gives the address of a field's block column, 0 if it lies in the rows.
    """
    positions = {leaf.path: index for index, (leaf, _) in enumerate(schema.inputs)}
    carried = [
        [
            positions[place.leaf.path],
            positions[next_path(place.leaf.path)],
            place.leaf.num_bytes,
            place.row_offset,
            block_address(place),
            place.tail_offset,
            place.depth,
            place.whole_offset,
            # To look through images would cost more than the rest of an append.
            _float_code(place) if place.row_offset >= 0 else layout.D_NONE,
        ]
        for place in schema.carried
    ]
    steps = [
        [
            positions[place.leaf.path],
            place.leaf.num_bytes,
            place.row_offset,
            block_address(place),
            DTYPE_CODES[place.leaf.dtype] if place.is_reward else layout.D_NONE,
        ]
        for place in schema.steps
    ]
    flags = np.zeros((len(FLAGS), 2), np.int64)
    for key in FLAGS.keys() & {path[0] for path in positions}:
        flags[FLAGS[key]] = positions[(key,)], DTYPE_CODES[schema.inputs[positions[(key,)]][0].dtype]
    return np.array(carried, np.int64), np.array(steps, np.int64), flags


def make_header(schema: Schema, num_slots: int, rows: int, tails: int, wholes: int) -> np.ndarray:
    """The words that the headers of rings and pieces share; `rows`, `tails` and `wholes` are addresses."""
    header = np.zeros(layout.H_NUM_WORDS, np.int64)
    header[layout.H_SLOTS], header[layout.H_DEPTH] = num_slots, schema.depth
    header[layout.H_ROWS], header[layout.H_ROW_BYTES] = rows, schema.row_bytes
    header[layout.H_TAILS], header[layout.H_TAIL_BYTES] = tails, schema.tail_bytes
    header[layout.H_WHOLES], header[layout.H_WHOLE_BYTES] = wholes, schema.whole_bytes
    return header


def _float_code(place: Place) -> int:
    """Dtype code of floats that kernels read; `D_NONE` of all else."""
    dtype = place.leaf.dtype
    return DTYPE_CODES.get(dtype, layout.D_NONE) if dtype.kind == "f" else layout.D_NONE
