"""Runs on disk and on screen: folders, checkpoints, metrics, progress and plots.

Used by the learner, `Agent` and the command line; what trains agents does not import it.
"""

from recollect.runs.directory import RunDirectory

__all__ = ["RunDirectory"]
