"""Runs: directories, checkpoints, metrics, progress and plots."""

from recollect.runs.directory import RunDirectory

__all__ = ["RunDirectory"]
