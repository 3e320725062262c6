"""What holds for all tests."""

import logging
import multiprocessing
import os
import signal
from collections import defaultdict
from collections.abc import Iterator

# Two processes of tests share the cores: threads of PyTorch would only wait for each other, here and in the
# processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

from recollect import keys

torch.set_num_threads(1)

# Asking fixes the answer. Importing TorchRL would have the processes of all later tests import all of it again, seconds
# for each env.
multiprocessing.get_start_method()

# What runs in the background (`make test &`) is started with Ctrl-C ignored, and so would be the processes that tests
# interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples everywhere, and no verdict that depends on how fast the machine is.
settings.register_profile(
    "recollect", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("recollect")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", type=int, metavar="N", help="run only N cases of a test that has more, spread over all of them"
    )


@pytest.hookimpl(trylast=True)  # after those that markers leave out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the asked number of cases of each test."""
    wanted = config.getoption("--cases")
    if wanted is None:
        return
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = [case for of_test in cases.values() for case in _spread(of_test, wanted)]
    names = {case.nodeid for case in kept}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
    items[:] = kept


def _spread(cases: list[pytest.Item], wanted: int) -> list[pytest.Item]:
    """Choose as many cases as wanted, evenly over all."""
    n = min(wanted, len(cases))
    return [cases[len(cases) * i // n] for i in range(n)]


@pytest.fixture(autouse=True)
def _commands_leave_logging_as_it_was() -> Iterator[None]:
    """Commands and benchmarks let more be logged; a later test of the same process counts what is logged."""
    loggers = [logging.getLogger(name) for name in (None, keys.KERNEL_LOGGER, keys.PRESET_LOGGER, keys.RESUME_LOGGER)]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    root = loggers[0]
    for handler in root.handlers[:]:
        # Those of pytest itself are of derived classes.
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)
