"""A process starts quickly: compiled kernels come from the disk, and nothing heavy is loaded in passing."""

import json
import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import pytest

from recollect.agent.storages.experience import kernels
from tests.waiting import PATIENCE_S

# In one process, so that what they share is made once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("start-up")]

# Builds a store, uses it, and tells which modules were loaded and where each kernel came from.
REPORT = """
import json
import sys

import recollect

imported = sorted(sys.modules)

import numpy as np
from numba.core.dispatcher import Dispatcher

memory = recollect.PERBuffer.standalone(100, num_envs=1, n_step=2, alpha=0.6, seed=1)
obs = np.zeros((1, 3), np.float32)
memory.add(obs, obs, [1.0], obs + 1, [False], [False])
batch = memory.sample(4)
memory.update_priorities(batch, np.ones(4))

kernels = {
    f"{module}.{name}": value.stats
    for module in list(sys.modules)
    if module.startswith("recollect.")
    for name, value in vars(sys.modules[module]).items()
    if isinstance(value, Dispatcher) and value.__module__ == module
}
print(
    json.dumps(
        {
            "imported": imported,
            "used": sorted(sys.modules),
            "hits": {name: sum(stats.cache_hits.values()) for name, stats in kernels.items()},
            "misses": {name: sum(stats.cache_misses.values()) for name, stats in kernels.items()},
            "cache_paths": sorted({str(stats.cache_path) for stats in kernels.values() if stats.cache_path}),
            "drawn": batch["idxs"].tolist(),
        }
    )
)
"""


def start() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", REPORT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    result: dict[str, Any] = json.loads(output)
    return result


def kernel_modules() -> list[ModuleType]:
    """All modules of kernels; importing them compiles what is not in the cache yet."""
    return [
        import_module(f"{kernels.__name__}.{module.name}")
        for module in iter_modules(kernels.__path__)
        if module.name.endswith("_kernels")
    ]


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    """What two processes tell that start at the same time, after this one has filled the cache."""
    assert len(kernel_modules()) >= 5
    processes = [start(), start()]
    return [read(process) for process in processes]


def test_a_second_process_compiles_nothing(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert {name: count for name, count in report["misses"].items() if count} == {}
        assert sum(count > 0 for count in report["hits"].values()) >= 5


def test_processes_share_one_cache(reports: list[dict[str, Any]]) -> None:
    first, second = reports
    assert first["cache_paths"] == second["cache_paths"]
    assert first["cache_paths"]
    assert first["hits"] == second["hits"]
    assert first["drawn"] == second["drawn"]


@pytest.mark.parametrize("name", ["ray", "gymnasium", "matplotlib"])
def test_what_a_store_does_not_need_is_not_loaded(name: str, reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert name not in report["imported"]
        assert name not in report["used"]


@pytest.mark.parametrize("name", ["torch", "numba", "numpy"])
def test_importing_the_package_alone_loads_next_to_nothing(name: str, reports: list[dict[str, Any]]) -> None:
    assert name not in reports[0]["imported"]
    assert name in reports[0]["used"]
