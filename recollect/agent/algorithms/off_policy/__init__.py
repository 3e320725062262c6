"""Off-policy algorithms, which learn from replayed steps: one module for each, and their common bases.

The registry finds them by name; no other room imports them.
"""
