"""Vector environments of every kind, in this process or in others, and the drivers that hide how each resets.

Only `VecEnv` and its factory import from here.
"""
