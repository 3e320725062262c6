"""What a run leaves behind: one small JSON file, tied to the configuration that made it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

NUM_EPISODES: Final = 100
"""Episodes of the evaluation after training."""
CURVE_POINTS: Final = 10
"""Evaluations during training."""
CURVE_EPISODES: Final = 10
"""Episodes of each of them."""


@dataclass(frozen=True)
class Episodes:
    """Episodes of one evaluation."""

    returns: list[float]
    lengths: list[int]
    successes: list[bool] | None
    """None where the task does not tell."""

    @property
    def mean_return(self) -> float:
        return float(np.mean(self.returns))

    @property
    def success_rate(self) -> float:
        if self.successes is None:
            raise ValueError("the task tells no success; score the cell by its return")
        return float(np.mean(self.successes))


@dataclass(frozen=True)
class Trained:
    """What training one agent gave."""

    evaluation: Episodes
    curve: list[tuple[int, float]]
    """Steps and the mean return of an evaluation then."""
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One finished run."""

    cell: str
    seed: int
    config_hash: str
    config: dict[str, Any]
    date: str
    elapsed_s: float
    evaluation: Episodes
    curve: list[tuple[int, float]]
    versions: dict[str, str]

    def write(self, folder: Path) -> Path:
        """Write the file through a neighbour, so that a run that is stopped leaves no half of one."""
        folder.mkdir(parents=True, exist_ok=True)
        path = path_of(folder, self.cell, self.seed)
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(_rounded(asdict(self)), ensure_ascii=False) + "\n")
        beside.replace(path)
        return path


def path_of(folder: Path, cell: str, seed: int) -> Path:
    """Say where a run's record lies."""
    return folder / f"{cell}-{seed}.json"


def read(folder: Path, cell: str, seed: int) -> Record | None:
    """Read a run's record; None where there is none yet."""
    path = path_of(folder, cell, seed)
    if not path.exists():
        return None
    data = json.loads(path.read_text())
    evaluation = Episodes(**data.pop("evaluation"))
    curve = [(int(steps), float(score)) for steps, score in data.pop("curve")]
    return Record(evaluation=evaluation, curve=curve, **data)


def hash_of(config: Mapping[str, Any]) -> str:
    """Return a short name of a configuration: equal for equal settings in any order."""
    text = json.dumps(config, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _rounded(value: Any) -> Any:
    """Shorten measured numbers to what a reader can use; settings are left as they are."""
    measured = {"evaluation", "curve", "elapsed_s"}
    return {name: _round(entry) if name in measured else entry for name, entry in value.items()}


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: _round(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_round(entry) for entry in value]
    return value
