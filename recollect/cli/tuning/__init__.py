"""What `recollect tune` is made of: the study, the processes that run its trials, and what one sees of them.

Only the command imports from here, late, because Optuna is an extra.
"""
