"""Plans the schema of a store's steps from its first sample, and checks that sample."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.store.schema.schema import (
    DTYPE_CODES,
    FLAG_BYTES,
    FLAGS,
    NEXT_OF,
    REWARDS,
    KeyPath,
    Leaf,
    Place,
    Schema,
    next_path,
)
from recollect.errors import ConfigError, SchemaError, closest
from recollect.roles import Observation

# Larger fields get a column of their own.
_LARGEST_PACKED_BYTES: Final = 1024
# Rows count how far a stack reaches back in one byte.
_DEEPEST_STACK: Final = 255
REQUIRED: Final = (keys.OBS, keys.ACTION, keys.REWARD, keys.NEXT_OBS, keys.NEXT_DONE)
# Depth of a stack, with its axis where that is not the first; of a dict observation, by key.
FrameStack = int | tuple[int, int]
FrameStacks = FrameStack | Mapping[str, FrameStack] | None


def walk(path: KeyPath, value: Observation) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the arrays of a nested dict with their paths."""
    if isinstance(value, Mapping):
        if not value:
            raise SchemaError(f"{keys.PATH_SEPARATOR.join(path)} is an empty dict; give it at least one array")
        for name, inner in value.items():
            yield from walk((*path, name), inner)
    else:
        yield path, value


def numpy_dtype(path: KeyPath, value: object) -> np.dtype:
    """The dtype of an array or tensor, as NumPy names it."""
    name = keys.PATH_SEPARATOR.join(path)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            raise SchemaError(f"{name} has dtype {value.dtype}; expected bool, integers or floats")
        native: np.dtype = value.dtype.newbyteorder("=")
        return native
    if isinstance(value, torch.Tensor):
        try:
            dtype: np.dtype = torch.empty(0, dtype=value.dtype).numpy().dtype
        except TypeError:
            raise SchemaError(f"{name} has dtype {value.dtype}, which NumPy lacks; convert it, e.g. .float()") from None
        return dtype
    raise SchemaError(f"{name} must be a numpy array or a torch tensor, got {type(value).__name__}")


def to_numpy(value: object) -> np.ndarray:
    """An array, a tensor or nested lists of numbers as an array in CPU memory."""
    try:
        return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"NumPy cannot make an array of this {type(value).__name__}: {error}") from None


def leaves_of(key: str, value: Observation, num_lead: int) -> list[Leaf]:
    """Describe the arrays under `key`, whose first `num_lead` axes are time and envs."""
    leaves = []
    for path, array in walk((key,), value):
        if not all(isinstance(part, str) for part in path):
            raise SchemaError(f"{key} is a dict with the keys {path[1:]!r}; keys must be strings")
        dtype, name = numpy_dtype(path, array), keys.PATH_SEPARATOR.join(path)
        if array.ndim < num_lead:
            raise SchemaError(f"{name} lacks the axis of envs, [num_envs, ...]; give arrays of one env as obs[None]")
        try:
            torch.from_numpy(np.empty(0, dtype))
        except TypeError:
            raise SchemaError(f"{name} has dtype {dtype}, which torch lacks; convert it, e.g. to float32") from None
        leaves.append(Leaf(path, tuple(array.shape[num_lead:]), dtype))
    return leaves


def no_sample(value: object) -> SchemaError:
    """The refusal of what is no dict."""
    return SchemaError(f"a sample must be a dict of arrays, got {type(value).__name__}")


def check_keys(sample: Mapping[str, Any], allowed: tuple[str, ...], *, recurrent: bool) -> None:
    """Refuse a first sample with unknown or missing keys."""
    if not isinstance(sample, Mapping):
        raise no_sample(sample)
    known = (*allowed, keys.NEXT_TERMINATED, keys.CUT)
    for key in sample:
        if key not in known:
            raise SchemaError(f"unknown key {key!r} in a sample; {closest(str(key), known)}")
    required = (*REQUIRED, keys.DONE) if recurrent else REQUIRED
    missing = [key for key in required if key not in sample]
    if missing:
        raise SchemaError(f"a sample lacks {', '.join(missing)}; it has {', '.join(map(str, sample))}")
    if keys.NEXT_RHS in sample and keys.RHS not in sample:
        raise SchemaError(f"a sample has {keys.NEXT_RHS} but lacks {keys.RHS}")


def check_num_envs(sample: Mapping[str, Any], num_lead: int, num_envs: int) -> None:
    """Refuse a first sample of another number of envs."""
    for path, array in walk((), sample):
        if array.shape[num_lead - 1] != num_envs:
            raise SchemaError(
                f"{keys.PATH_SEPARATOR.join(path)} has rows of {array.shape[num_lead - 1]} envs, expected {num_envs}"
                f"{'; add the axis of envs to arrays of one env, obs[None]' if num_envs == 1 else ''}"
            )


def check_frame_stacks(frame_stack: FrameStacks) -> None:
    """Refuse what is neither a depth, nor a depth and an axis, nor names observations with one of them."""
    if frame_stack is None:
        return
    declared = frame_stack if isinstance(frame_stack, Mapping) else {"": frame_stack}
    for key, value in declared.items():
        parts = value if isinstance(value, (tuple, list)) else (value, 0)
        if not isinstance(key, str) or len(parts) != 2 or not all(isinstance(part, int) for part in parts):
            raise ConfigError(f"frame_stack must be depth, (depth, axis) or {{key: one of them}}, got {frame_stack!r}")
        if not 1 <= parts[0] <= _DEEPEST_STACK:
            raise ConfigError(f"frame_stack depth must be from 1 to {_DEEPEST_STACK}, got {parts[0]!r}")


def parse_frame_stacks(frame_stack: FrameStacks, observation: list[Leaf]) -> dict[KeyPath, tuple[int, int]]:
    """Resolve the declared stacks to `path -> (depth, axis)` and check them against the observation."""
    if frame_stack is None:
        return {}
    if isinstance(frame_stack, Mapping):
        declared = {(keys.OBS, *key.split(keys.PATH_SEPARATOR)): value for key, value in frame_stack.items()}
    elif len(observation) != 1:
        raise ConfigError("frame_stack=depth suits a plain observation; for a dict give {key: depth}")
    else:
        declared = {observation[0].path: frame_stack}
    shapes = {leaf.path: leaf.shape for leaf in observation}
    stacks = {}
    for path, value in declared.items():
        name = keys.PATH_SEPARATOR.join(path)
        if path not in shapes:
            raise ConfigError(f"frame_stack names {name}, but the observation has {sorted(shapes)}")
        depth, axis = value if isinstance(value, (tuple, list)) else (value, 0)
        shape = shapes[path]
        if not -len(shape) <= axis < len(shape) or shape[axis] % depth:
            raise ConfigError(
                f"frame_stack of {name}: {depth} frames along axis {axis} do not divide its shape {shape}"
            )
        if depth > 1:
            stacks[path] = (depth, axis % len(shape))
    return stacks


def plan_schema(sample: Mapping[str, Any], *, num_lead: int, recurrent: bool, frame_stack: FrameStacks) -> Schema:
    """Place the fields of a first `sample`, whose keys were checked."""
    leaves = {key: leaves_of(key, value, num_lead) for key, value in sample.items()}
    flags = {key: _check_scalar(leaves[key], DTYPE_CODES) for key in FLAG_BYTES if key in leaves}
    for key in REWARDS:
        if key in leaves:
            _check_scalar(leaves[key], (np.dtype(np.float32), np.dtype(np.float64)))
    stacks = parse_frame_stacks(frame_stack, leaves[keys.OBS])
    carried = [key for key, next_key in NEXT_OF.items() if next_key in leaves]
    hidden: list[Leaf] = []
    if recurrent:
        hidden = leaves.get(keys.RHS, [])
        carried = [keys.OBS]
    for key in carried:
        _check_twins(leaves[key], leaves[NEXT_OF[key]])
    derived = {*NEXT_OF.values(), *FLAGS, *carried} | ({keys.RHS} if recurrent else set())
    step_keys: list[str] = [key for key in REWARDS if key in leaves]
    step_keys += [key for key in leaves if key not in derived and key not in REWARDS]
    return _placed(
        Schema(flags=flags, hidden=hidden),
        [leaf for key in step_keys for leaf in leaves[key]],
        [leaf for key in carried for leaf in leaves[key]],
        stacks,
    )


def _placed(
    schema: Schema, steps: list[Leaf], carried: list[Leaf], stacks: Mapping[KeyPath, tuple[int, int]]
) -> Schema:
    """Lay fields out; the same fields in the same order always lie at the same places."""
    row_end, tail_end = (layout.R_FIXED_STACKED, layout.T_FIXED_STACKED) if stacks else (layout.R_FIXED, 0)
    for leaf in steps + carried:
        depth, axis = stacks.get(leaf.path, (1, 0))
        slot_bytes = leaf.num_bytes // depth
        row_offset = block = -1
        if depth == 1 and slot_bytes <= _LARGEST_PACKED_BYTES:
            row_offset = _align(row_end, leaf.dtype.itemsize)
            row_end = row_offset + slot_bytes
        else:
            block = len(schema.block_bytes)
            schema.block_bytes.append(slot_bytes)
        if len(schema.steps) < len(steps):
            schema.steps.append(Place(leaf, row_offset, block))
            continue
        schema.carried.append(Place(leaf, row_offset, block, tail_end, depth, axis, schema.whole_bytes))
        tail_end += slot_bytes
        schema.whole_bytes += leaf.num_bytes if depth > 1 else 0
    schema.row_bytes, schema.tail_bytes = _align(row_end, 8), _align(tail_end, 8)
    return schema


def _align(offset: int, multiple: int) -> int:
    return -(-offset // multiple) * multiple


def _check_scalar(leaves: list[Leaf], dtypes: Collection[np.dtype]) -> np.dtype:
    leaf = leaves[0]
    if len(leaves) != 1 or leaf.shape != (1,):
        got = ", ".join(["num_envs", *map(str, leaf.shape)])
        raise SchemaError(
            f"{leaf.name} must have the shape [num_envs, 1], or [time, num_envs, 1] in slices, got [{got}]"
        )
    if leaf.dtype not in dtypes:
        raise SchemaError(f"{leaf.name} has dtype {leaf.dtype}; expected {_listed(dtypes)}")
    return leaf.dtype


def _listed(dtypes: Collection[np.dtype]) -> str:
    *others, last = map(str, dtypes)
    return f"{', '.join(others)} or {last}"


def _check_twins(leaves: list[Leaf], next_leaves: list[Leaf]) -> None:
    expected = {next_path(leaf.path): (leaf.shape, leaf.dtype) for leaf in leaves}
    found = {leaf.path: (leaf.shape, leaf.dtype) for leaf in next_leaves}
    if expected != found:
        raise SchemaError(
            f"{next_leaves[0].path[0]} must have the keys, shapes and dtypes of {leaves[0].path[0]}: "
            f"expected {expected}, got {found}"
        )
