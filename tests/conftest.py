"""What holds for all tests."""

import os

# Two processes of tests share the cores: threads of PyTorch would only wait for each other, here and in the
# processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
