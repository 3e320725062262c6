"""What holds for all tests."""

import os

# Two processes of tests share the cores: threads of PyTorch would only wait for each other, here and in the
# processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

# The same examples everywhere, and no verdict that depends on how fast the machine is.
settings.register_profile(
    "recollect", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("recollect")
