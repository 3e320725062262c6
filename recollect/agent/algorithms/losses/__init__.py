"""Targets and losses: one pure function for each equation, and the regression of critics as one kernel.

Algorithms import from here; nothing here knows actors, storages or configs.
"""
