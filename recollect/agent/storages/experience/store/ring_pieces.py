"""EpisodeSegments of a lane ring: consecutive steps of neighbouring lanes as arrays that stand alone.

In a piece, side-table records are numbered in the order of the steps that refer to them, so that it
fits into any ring of the same schema, whatever that ring's size and history.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.lane_ring import LaneRing

_ROWS: Final = "rows"
_BLOCK: Final = "block"
_TAILS: Final = "tails"
_WHOLES: Final = "wholes"


def cut_piece(ring: LaneRing, lanes: slice, begin: int, end: int) -> dict[str, np.ndarray]:
    """Copy the steps `begin` to `end` of `lanes` out of a ring; the step to come may be the last.

    Returns
    -------
    dict
        By name, uint8: packed rows and blocks `[num_lanes, num_steps, ...]`, records `[count, ...]`.
    """
    tables = ring.tables()
    slots = np.arange(begin, end) % ring.num_slots
    rows = tables.rows[lanes][:, slots]  # [num_lanes, num_steps, row_bytes]
    tails, wholes = _take_records(rows, tables.tails, tables.wholes, stacked=ring.schema.depth > 1)
    blocks = {f"{_BLOCK}{index}": block[lanes][:, slots] for index, block in enumerate(tables.blocks)}
    return {_ROWS: rows, **blocks, _TAILS: tails} | ({_WHOLES: wholes} if ring.schema.depth > 1 else {})


def put_piece(ring: LaneRing, lanes: slice, begin: int, piece: Mapping[str, np.ndarray], lowest: int, end: int) -> None:
    """Copy a piece that begins with step `begin` into a ring, steps before `lowest` and from `end` on left out."""
    kept = slice(max(0, lowest - begin), end - begin)
    rows = piece[_ROWS][:, kept].copy()
    tables = ring.tables()
    records = piece[_TAILS], piece.get(_WHOLES, tables.wholes[:0])
    tails, wholes = _take_records(rows, *records, stacked=ring.schema.depth > 1)
    first_tail, first_whole = ring.claim(len(tails), len(wholes))
    _shift(rows, layout.R_TAIL, first_tail)
    if ring.schema.depth > 1:
        _shift(rows, layout.R_WHOLE, first_whole)
        _shift(tails, layout.T_WHOLE, first_whole)
    slots = np.arange(begin + kept.start, begin + kept.start + rows.shape[1]) % ring.num_slots
    tables.rows[lanes][:, slots] = rows
    for index, block in enumerate(tables.blocks):
        block[lanes][:, slots] = piece[f"{_BLOCK}{index}"][:, kept]
    tables.tails[first_tail : first_tail + len(tails)] = tails
    tables.wholes[first_whole : first_whole + len(wholes)] = wholes


def _references(records: np.ndarray, offset: int) -> np.ndarray:
    """View of the references at `offset` of rows or tails, int32 `[..., 1]`."""
    return records[..., offset : offset + 4].view(np.int32)


def _take_records(
    rows: np.ndarray, tails: np.ndarray, wholes: np.ndarray, *, stacked: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Copy the records that `rows` refer to, and let the rows refer to the copies."""
    own_tails = _take(_references(rows, layout.R_TAIL), tails, 0)
    if not stacked:
        return own_tails, wholes[:0]
    of_rows = _take(_references(rows, layout.R_WHOLE), wholes, 0)
    of_tails = _take(_references(own_tails, layout.T_WHOLE), wholes, len(of_rows))
    return own_tails, np.concatenate([of_rows, of_tails])


def _take(references: np.ndarray, records: np.ndarray, num_before: int) -> np.ndarray:
    used = references > 0
    taken: np.ndarray = records[references[used] - 1]
    references[used] = np.arange(num_before + 1, num_before + len(taken) + 1)
    return taken


def _shift(records: np.ndarray, offset: int, num_before: int) -> None:
    references = _references(records, offset)
    references[references > 0] += num_before
