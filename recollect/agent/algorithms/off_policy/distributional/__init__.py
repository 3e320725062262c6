"""Algorithms that learn the distribution of returns: C51, QR-DQN, Rainbow and TQC, one module for each.

The registry finds them by name; no other room imports them.
"""
