"""Collection: workers that act in environments, and the worker that takes in what they send.

Gradient workers and the scheme import from here; runs and callbacks know its evaluations.
"""
