"""Recollect's storages and their peers on the same work, side by side in one run."""
