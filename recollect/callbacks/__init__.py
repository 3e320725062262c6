"""User code in the training loop, and ready-made callbacks that stop, save and schedule.

Used by the learner, `Agent` and the command line; callbacks drive a learner and know its run's folder.
"""

from recollect.callbacks.callback import Callback, Callbacks, StepFunction
from recollect.callbacks.keeping import KeepBest, SaveEvery
from recollect.callbacks.named import named_callbacks
from recollect.callbacks.schedule import Schedule
from recollect.callbacks.stopping import StopAt, StopWithoutImprovement
from recollect.callbacks.video import RecordVideo

__all__ = [
    "Callback",
    "Callbacks",
    "KeepBest",
    "RecordVideo",
    "SaveEvery",
    "Schedule",
    "StepFunction",
    "StopAt",
    "StopWithoutImprovement",
    "named_callbacks",
]
