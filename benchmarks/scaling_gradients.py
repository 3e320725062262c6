"""What an update costs where gradients are computed elsewhere."""

import time
from typing import Any

from benchmarks.sleepers import make_parts
from recollect.scheme import Scheme
from recollect.scheme.gradients.flat import FlatGradients

NUM_WORKERS = 2
HIDDEN_SIZES = (256, 256)
SCHEMES: dict[str, dict[str, Any]] = {
    "local": {},
    "sync": {"num_grad_workers": NUM_WORKERS},
    "async": {"num_grad_workers": NUM_WORKERS, "grad_mode": "async"},
    "decentralised": {"num_grad_workers": NUM_WORKERS, "update_mode": "decentralised"},
}
# Many updates for few steps in an env that takes no time, so that it is updates that are measured.
NUMBERS = {"num_mini_batch": 50, "mini_batch_size": 64}


def measure_gradients(seconds: float) -> dict[str, float]:
    """Milliseconds of an update in each scheme, and the bytes of a gradient."""
    found: dict[str, float] = {}
    for name, options in SCHEMES.items():
        parts = make_parts(0.0, 4, hidden_sizes=HIDDEN_SIZES, **NUMBERS)
        scheme = Scheme(**parts, device="cpu", **options)
        try:
            found[name] = _milliseconds(scheme, seconds)
            found["bytes"] = FlatGradients(scheme.algo.optimiser.parameters).num_bytes
        finally:
            scheme.stop()
    return found


def _milliseconds(scheme: Scheme, seconds: float) -> float:
    """Time between updates; the first stages, in which workers are built, do not count."""
    while scheme.num_updates == 0 or not all(worker.is_alive for worker in scheme.gradients.report().reports):
        scheme.update_worker.step()
    begin, num_before = time.perf_counter(), scheme.num_updates
    while time.perf_counter() - begin < seconds:
        scheme.update_worker.step()
    return 1e3 * (time.perf_counter() - begin) / (scheme.num_updates - num_before)
