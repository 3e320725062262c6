"""Storages for on-policy algorithms: one module for each buffer, and what they share.

The registry finds them by name.
"""
