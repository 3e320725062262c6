"""The summary of a run above its progress, and the name of its folder."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import get_terminal_size
from typing import Final

from recollect import keys
from recollect.agent.registry import MEMORIES, title_of
from recollect.config import RunConfig
from recollect.config.parts import ALGO, STORAGE, class_of, options_of
from recollect.errors import ConfigError
from recollect.units import folded

# Options that tell most of how storages draw, and the storage that is about it; others tell it where it is on.
_KEY_OPTIONS: Final = {"alpha": "per", "eta": "ere", "share": "her", "data_share": "mixed", "gae_lambda": "gae"}


def summarise(config: RunConfig, num_threads: int, folder: Path) -> str:
    """Say in one line what is trained: `SAC · PER(alpha 0.6) · 3-step · Pendulum-v1 · seed 1 · ...`."""
    return " · ".join(_parts(config, num_threads, folder))


def _parts(config: RunConfig, num_threads: int, folder: Path) -> Iterator[str]:
    yield class_of(ALGO, config.algo).__name__
    yield _storage(config)
    if (n_step := config.storage_options.get("n_step", 1)) != 1:
        yield f"{n_step}-step"
    if memory := config.actor_options.get("memory"):
        yield memory.upper() if memory in MEMORIES.built_in else title_of(memory)
    yield title_of(config.env)
    if config.num_envs > 1:
        yield f"{config.num_envs} envs"
    yield from _workers(config)
    yield f"seed {config.seed}"
    yield f"{num_threads} thread{'s' if num_threads > 1 else ''}"
    yield str(folder)


def _workers(config: RunConfig) -> Iterator[str]:
    """What runs in other processes: `16 async collectors`, `2 gradient workers`."""
    options = config.scheme_options
    for name, mode, title in (("col", "col_mode", "collector"), ("grad", "grad_mode", "gradient worker")):
        if number := options.get(f"num_{name}_workers", 0):
            how = "async " if options.get(mode) == keys.ASYNC else ""
            yield f"{number} {how}{title}{'s' if number > 1 else ''}"
    if options.get("update_mode") == keys.DECENTRALISED:
        yield "decentralised updates"


def _storage(config: RunConfig) -> str:
    storage_class = class_of(STORAGE, config.storage)
    title = getattr(storage_class, "title", storage_class.__name__)
    known = options_of(STORAGE, config.storage)
    values = {name: config.storage_options.get(name, known[name].default) for name in _KEY_OPTIONS if name in known}
    options = [
        f"{name} {_amount(value)}"
        for name, value in values.items()
        if _KEY_OPTIONS[name] == config.storage or value != known[name].default
    ]
    return f"{title}({', '.join(options)})" if options else title


def _amount(value: float | Mapping[str, float]) -> str:
    """A number, or one for each part by its name."""
    return (
        " + ".join(f"{part} {_amount(each)}" for part, each in value.items())
        if isinstance(value, Mapping)
        else f"{value:g}"
    )


def say(line: str) -> None:
    """Print a line; on a terminal that it does not fit, it is broken between its parts, so that paths stay whole."""
    rows = folded(line, get_terminal_size().columns) if sys.stdout.isatty() else [line]
    print("\n".join(rows), flush=True)


def stem_of(config: RunConfig) -> str:
    """Name that runs of the same task and algorithm share: `pendulum-sac`."""
    task = re.sub(r"-v\d+$", "", title_of(config.env).rpartition("/")[2])
    return "-".join(re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in (task, title_of(config.algo)))


def free_path(parent: Path, name: str, suffix: str = "") -> Path:
    """Folder, or file, that does not exist yet: the name, with a number behind it where there is one already."""
    path, number = parent / f"{name}{suffix}", 2
    while path.exists():
        path, number = parent / f"{name}-{number}{suffix}", number + 1
    return path


def new_folder(parent: Path, name: str) -> Path:
    """Make a folder that did not exist, named as `free_path` says; two processes never get the same one."""
    while True:
        path = free_path(parent, name)
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(f"{path} cannot be made: {error.strerror}; name another folder") from error
        return path
