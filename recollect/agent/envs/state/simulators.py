"""State of the simulators behind envs: MuJoCo's physics and the Arcade Learning Environment."""

import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from recollect.agent.envs.state.attributes import Layer, suite_env_of
from recollect.agent.envs.state.suite import read_suite_task, write_suite_task
from recollect.errors import StorageError

_PHYSICS: Final = "physics"
_DERIVED: Final = "derived"
_EMULATOR: Final = "emulator"
# What MuJoCo computes from its state, at the step before: envs read it before they step on.
_RESULTS: Final = (
    "actuator_force",
    "cfrc_ext",
    "cinert",
    "cvel",
    "geom_xpos",
    "qfrc_actuator",
    "sensordata",
    "site_xmat",
    "site_xpos",
    "subtree_com",
    "ximat",
    "xipos",
    "xmat",
    "xpos",
    "xquat",
)


def read_simulator(layer: Layer) -> dict[str, Any]:
    """The state of an env's simulator; empty if it has none."""
    data: Any = vars(layer).get("data")
    ale: Any = vars(layer).get("ale")
    suite = suite_env_of(layer)
    if suite is not None:
        physics = suite.physics
        return {**_read_physics(physics.model.ptr, physics.data.ptr), **read_suite_task(suite)}
    if _is_of("mujoco", "MjData", data):
        return _read_physics(vars(layer)["model"], data)
    if _is_of("ale_py", "ALEInterface", ale):
        return {_EMULATOR: np.frombuffer(ale.cloneSystemState().serialize(), np.uint8).copy()}
    return {}


def write_simulator(layer: Layer, state: Mapping[str, Any]) -> None:
    """Give an env's simulator the state that `read_simulator` gave."""
    if _EMULATOR in state:
        kind = sys.modules["ale_py"].ALEState
        vars(layer)["ale"].restoreSystemState(kind(np.asarray(state[_EMULATOR], np.uint8).tobytes()))
    suite = suite_env_of(layer)
    if suite is not None:
        write_suite_task(suite, state)
        _write_physics(suite.physics.model.ptr, suite.physics.data.ptr, state)
    elif _PHYSICS in state:
        _write_physics(vars(layer)["model"], vars(layer)["data"], state)


def _is_of(module: str, name: str, value: object) -> bool:
    # A simulator that was never imported has made nothing.
    return module in sys.modules and isinstance(value, getattr(sys.modules[module], name))


def _read_physics(model: Any, data: Any) -> dict[str, Any]:
    import mujoco

    physics = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, physics, mujoco.mjtState.mjSTATE_INTEGRATION)
    return {_PHYSICS: physics, _DERIVED: {name: np.array(getattr(data, name)) for name in _RESULTS}}


def _write_physics(model: Any, data: Any, state: Mapping[str, Any]) -> None:
    import mujoco

    physics = np.asarray(state[_PHYSICS], np.float64)
    derived = {name: np.asarray(state[_DERIVED][name]) for name in _RESULTS}
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION)
    if physics.shape != (size,):
        raise StorageError(f"MuJoCo's state of this env has {size} numbers, got an array of shape {physics.shape}")
    for name, array in derived.items():
        if array.shape != getattr(data, name).shape:
            raise StorageError(f"MuJoCo's {name} has the shape {getattr(data, name).shape}, got {array.shape}")
    mujoco.mj_setState(model, data, physics, mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(model, data)
    # That computed what follows from the state, and changed what the solver starts from.
    mujoco.mj_setState(model, data, physics, mujoco.mjtState.mjSTATE_INTEGRATION)
    for name, array in derived.items():
        getattr(data, name)[...] = array
