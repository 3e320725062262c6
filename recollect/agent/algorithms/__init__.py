"""Algorithms: how to act, and what to learn from a batch."""

from recollect.agent.algorithms.base import Algorithm
from recollect.agent.registry import ALGORITHMS

__all__ = ["ALGORITHMS", "Algorithm"]
