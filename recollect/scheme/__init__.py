"""Schemes: which worker collects, computes gradients and applies updates."""

from recollect.scheme.scheme import Scheme

__all__ = ["Scheme"]
