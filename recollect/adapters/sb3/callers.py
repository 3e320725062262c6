"""Who calls a buffer: Stable-Baselines3 tells it neither the algorithm that it works for nor the file it is kept in."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl

# Functions between here and SB3's, ours among them, at most.
_DEPTH: Final = 16
_KEEPERS: Final = (save_to_pkl.__code__, load_from_pkl.__code__)
_SUFFIX: Final = ".snapshot"


def calling_algorithm() -> OffPolicyAlgorithm | None:
    """The algorithm among the callers."""
    owners = (frame.f_locals.get("self") for frame in _callers())
    return next((owner for owner in owners if isinstance(owner, OffPolicyAlgorithm)), None)


def snapshot_folder() -> Path | None:
    """The folder beside the file that SB3 is writing a buffer to or reading it from; None if there is no such file."""
    for frame in _callers():
        if frame.f_code in _KEEPERS:
            name = getattr(frame.f_locals["file"], "name", None)  # a stream may have none, or a number
            return Path(name + _SUFFIX) if isinstance(name, str) else None
    return None


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return
        yield frame
        frame = frame.f_back
