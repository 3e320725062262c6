"""Collection: workers that act in environments, and the learner's worker that receives what they send.

Gradient workers and the scheme import from here; runs and callbacks know its evaluations.
"""
