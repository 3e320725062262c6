"""The state of an env, layer by layer: of each wrapper, and of the env that they wrap."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from recollect.agent.envs.state.attributes import OWN_LIST, Layer, class_name, layers_of, names_of
from recollect.agent.envs.state.simulators import read_simulator, write_simulator
from recollect.agent.envs.state.values import pack, unpack
from recollect.errors import StorageError
from recollect.files.records import PARSE_ERRORS

_CLASS: Final = "class"
_OWN: Final = "own"
_ATTRIBUTES: Final = "attributes"
_SIMULATOR: Final = "simulator"


@runtime_checkable
class StatefulLayer(Protocol):
    """An env or wrapper that saves and restores its own state; each layer speaks for itself alone."""

    def get_state(self) -> Mapping[str, Any]:
        """The state as plain values, lists, tuples, arrays and generators by name."""

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `get_state` gave, perhaps in another process."""


def find_gap(env: Layer) -> str | None:
    """Why the state of an env cannot be saved; None if it can."""
    for layer in layers_of(env):
        if not isinstance(layer, StatefulLayer) and names_of(layer) is None:
            return (
                f"nobody knows the state of {class_name(layer)}; give it get_state and set_state, or list its "
                f"attributes in {OWN_LIST}"
            )
    return None


def read_state(env: Layer) -> list[dict[str, Any]]:
    """The state of an env as plain data, a dict for each layer, the outermost first.

    Raises
    ------
    StorageError
        If the state of a layer is not known, see `find_gap`, or is not plain data.
    """
    gap = find_gap(env)
    if gap is not None:
        raise StorageError(gap)
    return [_read(layer) for layer in layers_of(env)]


def write_state(env: Layer, states: Sequence[Mapping[str, Any]]) -> None:
    """Give an env, which was reset before, the state that another one of its form had.

    Raises
    ------
    StorageError
        If the state is of an env of another form.
    """
    layers = list(layers_of(env))
    expected, found = [class_name(layer) for layer in layers], [state.get(_CLASS) for state in states]
    if expected != found:
        raise StorageError(f"a saved state is of an env made of {found}, this one is made of {expected}")
    try:
        values = [_values_for(layer, state) for layer, state in zip(layers, states, strict=True)]
        for layer, state, attributes in zip(layers, states, values, strict=True):
            if isinstance(layer, StatefulLayer):
                layer.set_state(attributes)
                continue
            write_simulator(layer, state[_SIMULATOR])
            vars(layer).update(attributes)
    except PARSE_ERRORS as error:
        raise StorageError(f"a saved state of {expected[-1]} is damaged: {error!r}") from error


def _read(layer: Layer) -> dict[str, Any]:
    name = class_name(layer)
    if isinstance(layer, StatefulLayer):
        return {_CLASS: name, _OWN: _pack_all(name, layer.get_state())}
    values = {each: vars(layer)[each] for each in names_of(layer) or () if each in vars(layer)}
    return {_CLASS: name, _ATTRIBUTES: _pack_all(name, values), _SIMULATOR: read_simulator(layer)}


def _pack_all(owner: str, values: Mapping[str, Any]) -> dict[str, Any]:
    packed = {}
    for name, value in values.items():
        try:
            packed[name] = pack(value)
        except StorageError as error:
            raise StorageError(f"{name} of {owner} cannot be saved: {error}") from error
    return packed


def _values_for(layer: Layer, state: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a layer is to have, none of which it could not have had."""
    is_own = isinstance(layer, StatefulLayer)
    values = {name: unpack(tree) for name, tree in state[_OWN if is_own else _ATTRIBUTES].items()}
    known = values.keys() if is_own else names_of(layer) or ()
    for name, value in values.items():
        if name not in known:
            raise StorageError(f"{name!r} is not of the state of {class_name(layer)}")
        before = vars(layer).get(name)
        if isinstance(before, np.ndarray) and isinstance(value, np.ndarray) and before.shape != value.shape:
            raise StorageError(
                f"{name} of {class_name(layer)} has the shape {before.shape}, the saved one has {value.shape}"
            )
    return values
