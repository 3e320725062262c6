"""Where a run took place: hardware, versions and load."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("numpy", "torch", "numba", "gymnasium", "tensordict")


def describe(num_threads: int) -> dict[str, Any]:
    """Return what a reader needs to judge the times by."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_average": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "threads_per_competitor": num_threads,
    }


def summary(machine: dict[str, Any]) -> str:
    """Say it in one line."""
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items() if number)
    threads = machine["threads_per_competitor"]
    plural = "" if threads == 1 else "s"
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; "
        f"Python {machine['python']}, {packages}; "
        f"{threads} thread{plural} per competitor; load {machine['load_average']} at the start"
    )


def cpu_model() -> str:
    """Name the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
