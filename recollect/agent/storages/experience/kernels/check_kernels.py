"""Kernels that look at the rewards and flags of steps before they are stored."""

import math

import numba as nb

from recollect.agent.storages.experience.kernels.ring_layout import (
    BAD_FLAG,
    BAD_REWARD,
    D_NONE,
    F_CUT,
    F_DONE,
    F_ENDED,
    F_TERMINATED,
    INLINED,
    KERNEL,
    OK,
    S_CHECK,
    S_SOURCE,
    TERMINATED_WITHOUT_DONE,
    load_number,
)


@nb.njit(**INLINED)
def flag_of(flags, sources, which, item):
    """Value of a flag as 0 or 1, -1 if it is neither, 0 if absent."""
    code = flags[which, 1]
    if code == D_NONE:
        return 0
    value = load_number(sources[flags[which, 0]], item, code)
    if value == 0.0:
        return 0
    return 1 if value == 1.0 else -1


@nb.njit(nb.int64(nb.int64[:, ::1], nb.int64[:, ::1], nb.int64[::1], nb.int64), **KERNEL)
def check(steps, flags, sources, num_items):
    """What is wrong with the rewards and flags at `sources`, or `OK`."""
    for index in range(steps.shape[0]):
        code = steps[index, S_CHECK]
        if code != D_NONE:
            address = sources[steps[index, S_SOURCE]]
            for item in range(num_items):
                if not math.isfinite(load_number(address, item, code)):
                    return BAD_REWARD
    for item in range(num_items):
        ended = flag_of(flags, sources, F_ENDED, item)
        terminated = flag_of(flags, sources, F_TERMINATED, item)
        lowest = min(flag_of(flags, sources, F_DONE, item), ended, terminated, flag_of(flags, sources, F_CUT, item))
        if lowest < 0:
            return BAD_FLAG
        if terminated > ended:
            return TERMINATED_WITHOUT_DONE
    return OK
