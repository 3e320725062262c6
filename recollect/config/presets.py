"""Presets: configs with hyperparameters, one YAML file for each task and algorithm.

Beside its config a preset says what it is (`about`), how it did here (`tested`; none of those without it was run to its
end) and what others reached (`published`). It may begin with another one (`base`) and say only what differs.

Those in the folder `kinds` are for a kind of task instead of one environment, see `recollect.config.kinds`.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from recollect.agent.registry import NAME
from recollect.config.files import Document, read_document
from recollect.config.parts import ALGO, ENV
from recollect.errors import ConfigError, closest

DEFAULT: Final = "pendulum-sac"
_FOLDER: Final = Path(__file__).parents[1] / "presets"
_ABOUT, _PUBLISHED, _BASE = "about", "published", "base"
# What came of a preset: `return` or `success`, its standard `error`, the number of `seeds` and the `date`. Of a preset
# for a kind of task: what it was tried on.
_TESTED: Final = "tested"
_RESULTS: Final = ("return", "success")


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
    """Read the config of a preset by its name."""
    document = _read(name)
    own = {entry: value for entry, value in document.items() if entry not in (_ABOUT, _TESTED, _PUBLISHED, _BASE)}
    if _BASE not in document:
        return own
    base = load(document[_BASE])
    for entry, value in own.items():
        inherits = isinstance(value, dict) and NAME not in value
        base[entry] = {**_as_mapping(base.get(entry, {})), **value} if inherits else value
    return base


def tested(name: str) -> Document | str | None:
    """How a preset did here: score, standard error, seeds and date; None if it was never trained to its end.

    Of a preset for a kind of task it is a sentence on what was tried.
    """
    found: Document | str | None = _read(name).get(_TESTED)
    return found


def about(name: str) -> str:
    """One line on a preset: what it is, and how it did here, or that it is untested."""
    document = _read(name)
    outcome = [_outcome(tested(name))]
    outcome += [f"published: {document[_PUBLISHED]}"] if _PUBLISHED in document else []
    return f"{document[_ABOUT]} ({'; '.join(outcome)})"


def _outcome(result: Document | str | None) -> str:
    if not isinstance(result, Mapping):
        return result or "untested"
    metric = next(each for each in _RESULTS if each in result)
    scale, unit = (100, " %") if metric == "success" else (1, "")
    score, error = (f"{round(scale * result[each], 1):,g}{unit}" for each in (metric, "error"))
    return f"{metric} {score} ± {error}, {result['seeds']} seeds, {result['date']}"


def find(algo: str | None, env: str | None) -> str | None:
    """Name of the preset for an algorithm in an environment, if there is one."""
    for name in names():
        document = load(name)
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


def _as_mapping(part: str | Document) -> Document:
    return dict(part) if isinstance(part, dict) else {NAME: part}


def _name_of(part: str | Document) -> str:
    return str(_as_mapping(part)[NAME])
