"""Gradients: workers that turn stored experience into gradients.

The scheme, `updates`, `data` and the learner import from here.
"""
