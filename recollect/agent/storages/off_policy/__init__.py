"""Storages for off-policy algorithms: one module for each buffer, and what they share.

The registry finds them by name; adapters and `data` import them.
"""
