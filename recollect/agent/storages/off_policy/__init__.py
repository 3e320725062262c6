"""Storages for off-policy algorithms: one module for each buffer, and what they share."""
