"""Presets: configs with tuned hyperparameters, one YAML file for each task and algorithm.

Those in the folder `kinds` are for a kind of task instead of one environment, see `recollect.config.kinds`.
"""

from functools import cache
from pathlib import Path
from typing import Final

from recollect.agent.registry import NAME
from recollect.config.files import Document, read_document
from recollect.config.parts import ALGO, ENV
from recollect.errors import ConfigError, closest

DEFAULT: Final = "pendulum-sac"
_FOLDER: Final = Path(__file__).parents[1] / "presets"
_ABOUT: Final = "about"
# What a preset for a kind of task was tried on.
_TESTED: Final = "tested"


@cache
def names() -> tuple[str, ...]:
    """Names of the presets for one environment."""
    return _stems(_FOLDER)


@cache
def kinds() -> tuple[str, ...]:
    """Names of the presets for a kind of task: `image-ddqn`, `vector-sac`."""
    return _stems(_FOLDER / "kinds")


def _stems(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def load(name: str) -> Document:
    """Read a preset by its name."""
    return {entry: value for entry, value in _read(name).items() if entry not in (_ABOUT, _TESTED)}


def about(name: str) -> str:
    """One line on a preset; on one for a kind of task also what it was tested on."""
    document = _read(name)
    line = str(document.get(_ABOUT, ""))
    return line if name in names() else f"{line} ({document.get(_TESTED, 'untested')})"


def find(algo: str | None, env: str | None) -> str | None:
    """Name of the preset for an algorithm in an environment, if there is one."""
    for name in names():
        document = _read(name)
        if (_name_of(document[ALGO]), _name_of(document[ENV])) == (algo, env):
            return name
    return None


@cache
def _read(name: str) -> Document:
    if not isinstance(name, str):
        raise ConfigError(f"a preset goes by its name, or 'none' for no preset, got {name!r}")
    if name not in (*names(), *kinds()):
        raise ConfigError(f"there is no preset {name!r}; {closest(name, (*names(), *kinds()))}")
    folder = _FOLDER if name in names() else _FOLDER / "kinds"
    return read_document(folder / f"{name}.yaml")


def _name_of(part: str | Document) -> str:
    return str(part[NAME]) if isinstance(part, dict) else part
