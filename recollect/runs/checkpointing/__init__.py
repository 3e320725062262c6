"""Checkpoints: what a training saves, when, in which files, and how it resumes from them.

The learner, run folders, callbacks and the command line import from here.
"""
