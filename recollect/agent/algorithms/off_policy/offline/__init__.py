"""Algorithms that learn from given data, alone or beside new steps: IQL, TD3+BC and RLPD, one module for each.

The registry finds them by name; no other room imports them.
"""
