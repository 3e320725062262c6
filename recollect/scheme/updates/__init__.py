"""Updates: workers that apply gradients, in one process or each in its own.

The scheme imports from here.
"""
