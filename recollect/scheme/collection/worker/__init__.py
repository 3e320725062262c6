"""What a collection worker is made of: acting, episode statistics, evaluation, its replaceable components.

Only `CWorker` and those who read its results import from here. Everything runs in the worker's own process.
"""
