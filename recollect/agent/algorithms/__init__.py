"""Algorithms: how to act, and what to learn from a batch.

The registry, configs and schemes import from here; `classes.py` lists what `ALGORITHMS` knows by name.
"""

from recollect.agent.algorithms.base import Algorithm
from recollect.agent.registry import ALGORITHMS

__all__ = ["ALGORITHMS", "Algorithm"]
