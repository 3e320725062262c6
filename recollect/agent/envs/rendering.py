"""Renderers of MuJoCo on machines without a screen."""

import os
import subprocess
import sys
from typing import Any, Final

import gymnasium as gym

from recollect.errors import ConfigError

_RENDERERS: Final = ("egl", "osmesa")
# MuJoCo, and Gymnasium's envs of it, read there which one to use.
_VARIABLE: Final = "MUJOCO_GL"
_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY")
_TRIAL_S: Final = 120
TRIAL: Final = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco/>")
with mujoco.Renderer(model, 16, 16) as renderer:
    renderer.update_scene(mujoco.MjData(model))
    renderer.render()
"""


def choose_renderer(env: gym.Env[Any, Any]) -> None:
    """Let MuJoCo render without a screen, by the first renderer that works here: EGL or OSMesa.

    Other envs, and a renderer that the user has chosen, stay as they are. A renderer that does not work can end the
    process and cannot be exchanged for another one, so each is tried in a process of its own.

    Raises
    ------
    ConfigError
        If there is none.
    """
    is_mujoco = hasattr(env.unwrapped, "mujoco_renderer")
    if not is_mujoco or _VARIABLE in os.environ or sys.platform != "linux" or any(map(os.environ.get, _SCREENS)):
        return
    for renderer in _RENDERERS:
        if _works(renderer):
            os.environ[_VARIABLE] = renderer
            return
    raise ConfigError(
        f"MuJoCo finds no renderer without a screen, tried {' and '.join(_RENDERERS)}; install one, such as OSMesa: "
        f"apt-get install libosmesa6, or set {_VARIABLE} yourself"
    )


def _works(renderer: str) -> bool:
    try:
        trial = subprocess.run(
            [sys.executable, "-c", TRIAL],
            env=os.environ | {_VARIABLE: renderer},
            capture_output=True,
            check=False,
            timeout=_TRIAL_S,
        )
    except subprocess.TimeoutExpired:
        return False
    return trial.returncode == 0
