"""Whole stored columns: export a source's steps, view them in place, write one ahead."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.sampling.outputs import name_of, nest
from recollect.agent.storages.experience.store.experience_store import ONE_STEP, ExperienceStore
from recollect.agent.storages.experience.store.schema.planning import to_numpy, walk
from recollect.agent.storages.experience.store.schema.schema import KeyPath
from recollect.checks import check_whole
from recollect.errors import ConfigError, SchemaError, StorageError
from recollect.roles import Observation


def export(store: ExperienceStore, source: Hashable, begin: int, end: int | None) -> dict[str, Any]:
    """Steps `begin` to `end` of a source, oldest first, as tensors `[time, num_envs, ...]`."""
    lane = store.lane_of(source)
    lanes = np.arange(lane, lane + store.num_envs, dtype=np.int64)
    # What serves as context after a reset is never handed out again.
    firsts = np.maximum(store.ring.firsts[lanes], store.starts.table[layout.A_CONTEXT, lanes])
    lengths = store.ring.heads[lanes] - firsts
    if (lengths != lengths[0]).any():
        raise StorageError(
            f"the envs have {lengths.min()} to {lengths.max()} stored steps, because steps were skipped, so they do "
            "not fit into one array; sample batches instead, or write a snapshot"
        )
    begin, end = check_whole("start_pos", begin), int(lengths[0]) if end is None else check_whole("end_pos", end)
    if not begin <= end <= lengths[0]:
        raise ConfigError(f"positions {begin} to {end} are not within the {lengths[0]} stored steps; 0 is the oldest")
    numbers = np.arange(begin, end, dtype=np.int64)[:, None] + firsts  # [time, num_envs]
    return _export_rows(store, (numbers | lanes << layout.ID_SHIFT).ravel(), numbers.shape)


def episode_ids(store: ExperienceStore) -> Iterator[np.ndarray]:
    """Ids of the steps of one episode after the other, lane by lane, oldest first.

    A break in the stream parts episodes too; the last one of a lane may be unfinished.
    """
    ring = store.ring
    firsts = np.maximum(ring.firsts, store.starts.table[layout.A_CONTEXT, : ring.num_lanes])
    for lane in range(ring.num_lanes):
        ids = np.arange(firsts[lane], ring.heads[lane], dtype=np.int64) | lane << layout.ID_SHIFT
        if len(ids):
            last = ring.flag_column(layout.R_ENDED).reshape(-1)[ring.slots(ids)] | ring.are_cut(ids)
            yield from np.split(ids, np.flatnonzero(last[:-1]) + 1)


def export_ids(store: ExperienceStore, ids: np.ndarray) -> dict[str, Any]:
    """Steps of the given ids, as tensors `[time, ...]`."""
    return _export_rows(store, ids, ids.shape)


def views(store: ExperienceStore) -> dict[str, Any]:
    """Views of the stored columns, `[num_lanes, num_slots, ...]`, as (nested) dicts of tensors."""
    places = store.ring.schema.stored.items()
    return nest((path, torch.from_numpy(store.ring.column(place))) for path, place in places)


def ends(store: ExperienceStore) -> tuple[np.ndarray, np.ndarray]:
    """Which steps of the first source ended an episode, and which terminated it: bool `[time, num_envs]`, oldest first.

    Nothing else of the steps is read.
    """
    ring = store.ring
    numbers = np.arange(ring.firsts[: store.num_envs].max(), ring.heads[: store.num_envs].min())
    slots = numbers % ring.num_slots
    ended, terminated = (
        ring.flag_column(byte)[: store.num_envs, slots, 0].T for byte in (layout.R_ENDED, layout.R_TERMINATED)
    )
    return ended, terminated


def end_newest(store: ExperienceStore, envs: np.ndarray, *, terminated: bool) -> None:
    """Say that the newest steps of some envs of the first source ended their episodes after all."""
    ring = store.ring
    ring.cut_lanes(envs)
    slots = (ring.heads[envs] - 1) % ring.num_slots
    ring.flag_column(layout.R_ENDED)[envs, slots] = True
    ring.flag_column(layout.R_TERMINATED)[envs, slots] = terminated


def window_rewards(store: ExperienceStore, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Rewards of the windows that start at `ids` and have `lengths` [batch, 1] steps: `[batch, longest]`, 0 behind."""
    ring = store.ring
    steps = np.arange(lengths.max())
    slots = ((ids & layout.ID_MASK)[:, None] + steps) % ring.num_slots
    rewards = ring.column(ring.schema.stored[(keys.REWARD,)])[(ids >> layout.ID_SHIFT)[:, None], slots, 0]
    return np.where(steps < lengths, rewards, 0)


def write_ahead(store: ExperienceStore, key: str, values: Observation) -> int:
    """Write one column of the first source's steps to come, `[time, num_envs, ...]`.

    The cursor stays. What lay in those slots is forgotten. Returns the number of steps.
    """
    schema = store.ring.schema
    leaves = {leaf.path: leaf for leaf, _ in schema.inputs if leaf.path in schema.stored}
    arrays = {path: to_numpy(value) for path, value in walk((key,), values)}
    expected = {path for path in leaves if path[0] == key}
    if not expected or arrays.keys() != expected:
        raise SchemaError(
            f"{key!r} is not a stored column with the entries {_names(arrays)}; stored are {_names(leaves)}"
        )
    num_steps: int = next((*array.shape, 0)[0] for array in arrays.values())
    for path, array in arrays.items():
        leaf = leaves[path]
        shape = (num_steps, store.num_envs, *leaf.shape)
        if array.shape != shape or array.dtype != leaf.dtype:
            raise SchemaError(
                f"{leaf.name}: expected shape {shape} and dtype {leaf.dtype}, got {array.shape} and {array.dtype}"
            )
        if num_steps > store.ring.capacity:
            raise SchemaError(f"{leaf.name} has {num_steps} steps, more than the {store.ring.capacity} of the storage")
        if schema.stored[path].is_reward and not np.isfinite(array).all():
            raise SchemaError(f"{leaf.name} is NaN or infinite; rewards must be finite")
    lane = store.lane_of(store.sources[0]) if store.sources else 0
    store.ring.write_ahead(lane, arrays)
    return num_steps


def _names(paths: Iterable[KeyPath]) -> str:
    return ", ".join(sorted(keys.PATH_SEPARATOR.join(path) for path in paths))


def _export_rows(store: ExperienceStore, ids: np.ndarray, shape: tuple[int, ...]) -> dict[str, Any]:
    rows = store.plan().gather(ids, ONE_STEP, 1.0)
    for key in (keys.DISCOUNT, keys.N_STEP):
        del rows[key]
    ended = store.ring.flag_column(layout.R_ENDED).reshape(-1)[store.ring.slots(ids)]
    cut = store.ring.are_cut(ids) & ~ended
    if cut.any():
        rows[keys.CUT] = torch.from_numpy(cut[:, None].astype(store.ring.schema.flags[keys.NEXT_DONE]))
    rows |= {name_of(path): torch.from_numpy(values) for path, values in store.starts.columns(ids).items()}
    return nest((name, rows[name].reshape(*shape, *rows[name].shape[1:])) for name in rows)
