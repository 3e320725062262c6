"""Stores on disk: snapshots, which are written incrementally, and journals, which grow step by step.

Storages and gradient workers import from here; nothing in the other rooms does.
"""
