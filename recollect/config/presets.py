"""Presets: configs with tuned hyperparameters, one YAML file for each task and algorithm."""

from functools import cache
from pathlib import Path
from typing import Final

from recollect.config.files import NAME, Document, read_document
from recollect.config.parts import ALGO, ENV
from recollect.errors import ConfigError, closest

DEFAULT: Final = "pendulum-sac"
_FOLDER: Final = Path(__file__).parents[1] / "presets"
_ABOUT: Final = "about"


@cache
def names() -> tuple[str, ...]:
    """Names of all presets."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load(name: str) -> Document:
    """Read a preset by its name."""
    return {entry: value for entry, value in _read(name).items() if entry != _ABOUT}


def about(name: str) -> str:
    """One line on a preset."""
    return str(_read(name).get(_ABOUT, ""))


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
    if name not in names():
        raise ConfigError(f"there is no preset {name!r}; {closest(name, names())}")
    return read_document(_FOLDER / f"{name}.yaml")


def _name_of(part: str | Document) -> str:
    return str(part[NAME]) if isinstance(part, dict) else part
