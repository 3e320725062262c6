"""The settings that a run is made of, and that its record is tied to."""

import json
from typing import Any

from benchmarks.learn.experiments import Cell
from benchmarks.learn.records import NUM_EPISODES
from recollect.config import RunConfig, parse_overrides, resolve, settings


def config_of(cell: Cell, seed: int) -> dict[str, Any]:
    """Return everything that decides a run's outcome, as plain data."""
    given = _without_defaults(run_config(cell, seed)) if cell.peer is None else {"sb3": cell.peer}
    plain: dict[str, Any] = json.loads(json.dumps(given))
    return plain | {"steps": cell.steps, "seed": seed, "evaluation_episodes": NUM_EPISODES}


def _without_defaults(config: RunConfig) -> dict[str, Any]:
    """Leave out defaults and what is empty: a setting that is new must not disown the records of before."""
    defaults = {name: entry.default for name, entry in settings().items()}
    document = config.to_document()
    return {name: value for name, value in document.items() if value not in (defaults.get(name), {}, [])}


def run_config(cell: Cell, seed: int) -> RunConfig:
    """Find the config of one of our runs: the cell's preset with what the cell changes.

    Evaluations during training are the benchmark's own, so those of the preset are left out.
    """
    given = {"steps": cell.steps, "seed": seed, "threads": 1, "algo.test_every": 0}
    return resolve(preset=cell.preset, overrides=parse_overrides(cell.settings) | given)
