"""Schemas as text, for files and messages: it names the fields, and the reader works out where they lie."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from recollect import keys
from recollect.agent.storages.experience.sampling.outputs import nest
from recollect.agent.storages.experience.store.schema.planning import check_keys, plan_schema
from recollect.agent.storages.experience.store.schema.schema import KeyPath, Leaf, Schema, next_path
from recollect.errors import RecollectError, SchemaError
from recollect.files.records import PARSE_ERRORS

_STEPS: Final = "steps"
_CARRIED: Final = "carried"
_FLAGS: Final = "flags"
_HIDDEN: Final = "hidden"


def dump_schema(schema: Schema) -> str:
    """The fields of a schema, as JSON."""
    content = {
        _STEPS: [_dump_leaf(place.leaf) for place in schema.steps],
        _CARRIED: [[*_dump_leaf(place.leaf), place.depth, place.axis] for place in schema.carried],
        _FLAGS: [[key, dtype.str] for key, dtype in schema.flags.items()],
        _HIDDEN: [_dump_leaf(leaf) for leaf in schema.hidden],
    }
    return json.dumps(content, separators=(",", ":"))


@lru_cache(maxsize=16)
def load_schema(text: str) -> Schema:
    """Plan a schema from what `dump_schema` made of one; anything else is refused."""
    try:
        content = json.loads(text)
        stacks = {
            keys.PATH_SEPARATOR.join(path[1:]): (depth, axis)
            for path, _, _, depth, axis in content[_CARRIED]
            if depth > 1
        }
        sample = _sample(content)
        check_keys(sample, tuple(sample), recurrent=False)
        frame_stack = stacks.get("", stacks) if stacks else None
        schema = plan_schema(sample, num_lead=1, recurrent=bool(content[_HIDDEN]), frame_stack=frame_stack)
    except (*PARSE_ERRORS, RecollectError) as error:
        raise SchemaError(f"what came with the steps does not describe them: {error}") from error
    if dump_schema(schema) != text:
        raise SchemaError("what came with the steps does not describe them: no storage would keep such fields")
    return schema


def sample_of(schema: Schema, num_envs: int) -> dict[str, Any]:
    """A sample with the fields of a schema `[num_envs, ...]`, all of them zero, which takes no memory."""
    return _sample(json.loads(dump_schema(schema)), num_envs)


def _sample(content: Mapping[str, Any], num_envs: int = 1) -> dict[str, Any]:
    arrays: list[tuple[KeyPath, np.ndarray]] = []
    for path, shape, dtype in (*content[_STEPS], *content[_HIDDEN]):
        arrays.append((tuple(path), _zeros(num_envs, shape, dtype)))
    for path, shape, dtype, _, _ in content[_CARRIED]:
        zeros = _zeros(num_envs, shape, dtype)
        arrays += [(tuple(path), zeros), (next_path(tuple(path)), zeros)]
    arrays += [((key,), _zeros(num_envs, [1], dtype)) for key, dtype in content[_FLAGS]]
    return nest(arrays)


def _zeros(num_envs: int, shape: list[int], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind not in "biuf":
        raise SchemaError(f"a field cannot have the dtype {kind}")
    return np.broadcast_to(np.zeros((), kind), (num_envs, *shape))


def _dump_leaf(leaf: Leaf) -> list[Any]:
    return [list(leaf.path), list(leaf.shape), leaf.dtype.str]
