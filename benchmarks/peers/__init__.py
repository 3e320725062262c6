"""One adapter per competitor, all with the interface of `benchmarks.peers.base.Adapter`."""

from importlib import import_module

from benchmarks.peers.base import Adapter
from benchmarks.workloads import OURS

_MODULES = {OURS: "ours"}


def load(name: str) -> type[Adapter]:
    """Import a competitor's adapter and with it the competitor itself."""
    module = import_module(f"benchmarks.peers.{_MODULES.get(name, name)}")
    adapter: type[Adapter] = module.ADAPTER
    return adapter
