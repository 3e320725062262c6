"""What holds for all tests."""

import logging
import multiprocessing
import os
import signal
from collections.abc import Iterator

# Two processes of tests share the cores: threads of PyTorch would only wait for each other, here and in the
# processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

from recollect import keys

torch.set_num_threads(1)

# Asking fixes the answer. Importing TorchRL would have the processes of all later tests import everything anew, seconds
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
