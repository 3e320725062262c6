"""Records and cells for the tests of the learning benchmark."""

from typing import Any

from benchmarks.learn.experiments import Cell
from benchmarks.learn.records import Episodes, Record


def make_cell(**changes: Any) -> Cell:
    """Return a small cell of the peer, which needs no preset."""
    peer = {"class": "DQN", "env": "CartPole-v1", "hyperparameters": {"gamma": 0.9}}
    return Cell(**{"key": "small", "task": "Small-v0", "agent": "Agent", "steps": 100, "peer": peer} | changes)


def make_record(**changes: Any) -> Record:
    given = {
        "cell": "small",
        "seed": 1,
        "config_hash": "0" * 12,
        "config": {"steps": 100},
        "date": "2026-01-02",
        "elapsed_s": 12.5,
        "evaluation": Episodes([1.0, 3.0], [10, 20], [True, False]),
        "curve": [(50, 1.0), (100, 2.0)],
        "versions": {"recollect": "0.1.0"},
    }
    return Record(**given | changes)
