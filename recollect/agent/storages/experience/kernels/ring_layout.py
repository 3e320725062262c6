"""Where things lie in a lane ring: the words of its header and tables, the bytes of its rows.

Kernels take the ring's `header`, an int64 array of sizes and addresses whose words the `H_*` constants
name, so that a call unboxes a few arrays whatever the schema.
"""

from typing import Any, Final

import numba as nb
import numpy as np
from numba.np.unsafe.ndarray import to_fixed_tuple

from recollect.agent.storages.experience.kernels.pointers import (
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    load_u8,
    store_f32,
    store_f64,
    store_i32,
    store_i64,
    store_u8,
)

# Words of the header.
H_ROWS = 0  # address of the packed rows [lanes * slots, row_bytes]
H_ROW_BYTES = 1
H_SLOTS = 2  # slots of one lane: capacity + guards + the pending step
H_CAPACITY = 3  # steps of one lane that may be handed out
H_HEAD = 4  # address of int64 [lanes]: number of the step to come
H_FIRST = 5  # address of int64 [lanes]: oldest step that may be handed out
H_LOW = 6  # address of int64 [lanes]: oldest step still in memory
H_TAILS = 7  # address of the tail records
H_TAIL_BYTES = 8
H_TAIL_FREE = 9  # address of the int32 stack of freed tail records
H_TAIL_NUM_FREE = 10  # read as the word after the address, so that both tables share the code: `take_record`
H_TAIL_TOP = 11  # tail records ever used
H_WHOLES = 12  # address of the whole stacks
H_WHOLE_BYTES = 13
H_WHOLE_FREE = 14
H_WHOLE_NUM_FREE = 15
H_WHOLE_TOP = 16
H_DEPTH = 17  # depth of the deepest frame stack, 1 without stacks
H_NUM_CUTS = 18  # unannounced breaks found so far
H_NUM_ENDS = 19  # steps so far that ended an episode
H_NUM_LANES = 20
H_NUM_WORDS = 21

# Bytes of a packed row. `tail` is 0 or 1 + the record that holds the true next observation.
R_TAIL = 0
R_DONE = 4
R_ENDED = 5
R_TERMINATED = 6
R_AGE = 7  # earlier slots that this step's frame stack reaches back to, at most depth - 1
R_WHOLE = 8  # only with stacks: 0 or 1 + the record of a stack that is no shifted or padded one
R_FIXED = 8
R_FIXED_STACKED = 12

# A tail record begins with the reference to its whole stack where there are stacks.
T_WHOLE = 0
T_FIXED_STACKED = 8

# Columns of the table of carried fields (what the next step's row also holds: observations, hidden states).
C_SOURCE = 0  # position of the address in the sources, the next field's one is C_NEXT_SOURCE
C_NEXT_SOURCE = 1
C_BYTES = 2  # of the whole field, all frames
C_ROW = 3  # offset in the row, or -1 for a block
C_BLOCK = 4  # address of the block column
C_TAIL = 5  # offset in a tail record
C_DEPTH = 6  # frames, 1 if not stacked
C_WHOLE = 7  # offset in a whole record
C_CHECK = 8  # dtype code of floats in the row, which must not be NaN, or 0
C_NUM_WORDS = 9

# Columns of the table of step fields (action, rewards, ...).
S_SOURCE = 0
S_BYTES = 1
S_ROW = 2
S_BLOCK = 3
S_CHECK = 4  # dtype code of a reward, which must be finite, or 0
S_NUM_WORDS = 5

# Words of a table of stacked fields.
Z_BLOCK, Z_BYTES, Z_DEPTH, Z_WHOLE, Z_NUM_WORDS = range(5)

# Dtype codes of flags and rewards.
D_NONE, D_F32, D_F64, D_U8, D_I32, D_I64 = range(6)

# Rows of the table of flags [4, 2]: position of the address in the sources, dtype code (0 if absent).
F_DONE, F_ENDED, F_TERMINATED, F_CUT = range(4)

# Results of a check.
OK, BAD_REWARD, BAD_FLAG, TERMINATED_WITHOUT_DONE, BAD_REFERENCE, BAD_STACK, NAN_OBSERVATION = range(7)

# Kinds of output columns, and the words of their table.
K_FIRST = 0
K_NEXT = 1
K_FIRST_STACK = 2
K_NEXT_STACK = 3
K_BOTH_STACKS = 4
K_FLAG_FIRST = 5
K_FLAG_LAST = 6
K_REWARD = 7
K_DISCOUNT = 8
K_NUM_STEPS = 9
O_KIND, O_BYTES, O_ROW, O_BLOCK, O_TAIL, O_DEPTH, O_WHOLE, O_CODE, O_NUM_WORDS = range(9)

# Rows of the table that says which steps of a lane a batch's rows may start at [A_NUM_WORDS, num_lanes].
A_BASE = 0  # where the grid of starts begins
A_STRIDE = 1  # from one start to the next
A_LENGTH = 2  # steps from a start on that must be there
A_CONTEXT = 3  # steps before this one are context and do not count
A_NUM_WORDS = 4

# What is known of each row of a batch: addresses of its window's rows, and the steps used.
P_FIRST, P_LAST, P_NEXT, P_TAIL, P_USED, P_NUM_WORDS = range(6)

ID_SHIFT = 40
ID_MASK = (1 << ID_SHIFT) - 1

# How kernels are compiled that Python calls, what they call, and what their loops call for each step: there, passing
# arrays on costs more than the work. Only the first are found on the disk, with all that they call, and are made for
# Python: doing that for all takes a third longer to compile.
KERNEL: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy", "cache": True, "no_cfunc_wrapper": True}
HELPER: Final[dict[str, Any]] = {**KERNEL, "cache": False, "no_cpython_wrapper": True}
INLINED: Final[dict[str, Any]] = {**HELPER, "forceinline": True}


@nb.njit(**INLINED)
def words_of(header):
    """The header as a tuple, for kernels that only read it.

    An array costs two atomic operations wherever a loop hands it to a function that branches: a quarter of the time
    of hindsight's kernel.
    """
    return to_fixed_tuple(header, H_NUM_WORDS)


@nb.njit(**INLINED)
def head_of(header, lane):
    """Number of the step of `lane` to come."""
    return load_i64(header[H_HEAD] + 8 * lane)


@nb.njit(**INLINED)
def oldest_of(header, lane):
    """Number of the oldest step of `lane` that may be handed out."""
    return load_i64(header[H_FIRST] + 8 * lane)


@nb.njit(**INLINED)
def low_of(header, lane):
    """Number of the oldest step of `lane` still in memory."""
    return load_i64(header[H_LOW] + 8 * lane)


@nb.njit(**INLINED)
def row_at(header, lane, number):
    slots = header[H_SLOTS]
    return header[H_ROWS] + (lane * slots + number % slots) * header[H_ROW_BYTES]


@nb.njit(**INLINED)
def row_after(header, row, lane):
    """Address of the row after `row` in the ring of `lane`."""
    lane_bytes = header[H_SLOTS] * header[H_ROW_BYTES]
    row += header[H_ROW_BYTES]
    return row - lane_bytes if row == header[H_ROWS] + (lane + 1) * lane_bytes else row


@nb.njit(**INLINED)
def field_at(header, row, row_offset, block, num_bytes):
    """Address of a field of the step at `row`: inside the row, or in its block column."""
    if row_offset >= 0:
        return row + row_offset
    return block + (row - header[H_ROWS]) // header[H_ROW_BYTES] * num_bytes


@nb.njit(**INLINED)
def tail_of(header, row):
    """Address of the tail record of the step at `row`, 0 if its stream continues."""
    reference = np.int64(load_i32(row + R_TAIL))
    if reference == 0:
        return np.int64(0)
    return header[H_TAILS] + (reference - 1) * header[H_TAIL_BYTES]


@nb.njit(**INLINED)
def age_of(row):
    """Earlier slots that the stack of the step at `row` reaches back to."""
    return np.int64(load_u8(row + R_AGE))


@nb.njit(**HELPER)
def frame_at(header, lane, number, back, block, frame_bytes, depth, whole_offset):
    """Address of the frame `back` steps before the newest one in the stack of step `number`."""
    age = age_of(row_at(header, lane, number))
    slots = header[H_SLOTS]
    if back <= age:
        return block + (lane * slots + (number - back) % slots) * frame_bytes
    start = number - age
    whole = np.int64(load_i32(row_at(header, lane, start) + R_WHOLE))
    if whole == 0:
        return block + (lane * slots + start % slots) * frame_bytes
    record = header[H_WHOLES] + (whole - 1) * header[H_WHOLE_BYTES] + whole_offset
    return record + (depth - 1 - (back - age)) * frame_bytes


@nb.njit(**INLINED)
def load_number(address, item, code):
    """Read element `item` of an array whose dtype has the code `code`, as float64."""
    if code == D_F32:
        return np.float64(load_f32(address + 4 * item))
    if code == D_F64:
        return load_f64(address + 8 * item)
    if code == D_U8:
        return np.float64(load_u8(address + item))
    if code == D_I32:
        return np.float64(load_i32(address + 4 * item))
    return np.float64(load_i64(address + 8 * item))


@nb.njit(**INLINED)
def store_number(address, item, code, value):
    """Write a number as element `item` of an array whose dtype has the code `code`."""
    if code == D_F32:
        store_f32(address + 4 * item, np.float32(value))
    elif code == D_F64:
        store_f64(address + 8 * item, value)
    elif code == D_U8:
        store_u8(address + item, np.uint8(value))
    elif code == D_I32:
        store_i32(address + 4 * item, np.int32(value))
    else:
        store_i64(address + 8 * item, np.int64(value))


@nb.njit(**HELPER)
def take_record(header, free_word):
    """Reserve a side-table record; the words after `free_word` are its free count and top."""
    if header[free_word + 1] > 0:
        header[free_word + 1] -= 1
        return np.int64(load_i32(header[free_word] + 4 * header[free_word + 1]))
    header[free_word + 2] += 1
    return header[free_word + 2] - 1
