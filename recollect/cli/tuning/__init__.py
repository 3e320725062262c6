"""Parts of `recollect tune`: the study, the processes that run its trials, and their display.

Only the command imports from here, late, because Optuna is an extra.
"""
