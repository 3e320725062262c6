"""What holds for all tests."""

import os

# Two processes of tests share the cores: threads of PyTorch would only wait for each other, here and in the
# processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from hypothesis import settings

torch.set_num_threads(1)
# The same examples in every run, and no limit to the time that one takes.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
