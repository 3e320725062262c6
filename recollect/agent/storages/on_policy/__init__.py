"""Storages for on-policy algorithms: one module for each buffer, and what they share."""
