"""State of tasks of the DeepMind Control Suite beside their physics: counters, chance, and what a task moves."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from recollect.agent.envs.state.values import pack, unpack
from recollect.errors import StorageError

_TASK: Final = "task"
_MODEL: Final = "model"
_COUNTERS: Final = ("_step_count", "_reset_next_step")
_CHANCE: Final = "_random"
# What tasks change of the model when an episode begins: where targets are, sizes, colours, gears.
_MOVED: Final = (
    "body_pos",
    "body_quat",
    "dof_damping",
    "geom_pos",
    "geom_quat",
    "geom_rgba",
    "geom_size",
    "hfield_data",
    "jnt_stiffness",
    "light_pos",
    "mat_rgba",
    "site_pos",
    "site_quat",
    "site_size",
    "tendon_stiffness",
    "wrap_prm",
)
_PLAIN: Final = (bool, int, float, np.ndarray)


def read_suite_task(env: Any) -> dict[str, Any]:
    """What an env of the suite remembers beside MuJoCo's own state."""
    values = {name: vars(env)[name] for name in _COUNTERS} | _plain_attributes(env.task)
    kind, keys, position, has_gauss, gauss = vars(env.task)[_CHANCE].get_state()
    chance = (kind, keys, int(position), int(has_gauss), float(gauss))
    return {
        _TASK: {name: pack(value) for name, value in {**values, _CHANCE: chance}.items()},
        _MODEL: {name: np.array(getattr(env.physics.model.ptr, name)) for name in _MOVED},
    }


def write_suite_task(env: Any, state: Mapping[str, Any]) -> None:
    """Give an env what `read_suite_task` found in another one.

    Raises
    ------
    StorageError
        If the state is of an env of another form.
    """
    if _TASK not in state or _MODEL not in state:
        raise StorageError("a saved state lacks what tasks of dm_control remember; it is of another env")
    values = {name: unpack(tree) for name, tree in state[_TASK].items()}
    before = {name: vars(env)[name] for name in _COUNTERS} | _plain_attributes(env.task)
    arrays = {name: np.asarray(state[_MODEL].get(name)) for name in _MOVED}
    chance = _chance_of(values.pop(_CHANCE, None))
    if values.keys() != before.keys() or any(not _fits(values[name], before[name]) for name in before):
        raise StorageError(f"a saved state of a dm_control task has {sorted(values)}, this one has {sorted(before)}")
    model = env.physics.model.ptr
    for name, array in arrays.items():
        if array.shape != getattr(model, name).shape or array.dtype.kind != "f":
            raise StorageError(f"MuJoCo's {name} has the shape {getattr(model, name).shape}, got {array.shape}")
    for name, array in arrays.items():
        getattr(model, name)[...] = array
    for name, value in values.items():
        vars(env if name in _COUNTERS else env.task)[name] = value
    vars(env.task)[_CHANCE] = chance


def _plain_attributes(task: object) -> dict[str, Any]:
    """Numbers and arrays that a task holds, such as how long it has made no progress."""
    return {name: value for name, value in vars(task).items() if type(value) in _PLAIN}


def _fits(value: object, before: object) -> bool:
    """Whether a value is of the kind, and an array of the shape, that is there already."""
    same_shape = not isinstance(before, np.ndarray) or (isinstance(value, np.ndarray) and value.shape == before.shape)
    return type(value) is type(before) and same_shape


def _chance_of(state: object) -> np.random.RandomState:
    # dm_control draws from NumPy's older generator.
    chance = np.random.RandomState()
    try:
        chance.set_state(state)  # type: ignore[arg-type]  # checked by NumPy
    except (TypeError, ValueError, IndexError) as error:
        raise StorageError(f"a saved state of a dm_control task has a damaged generator: {error}") from error
    return chance
