"""Options that every off-policy storage takes by keyword."""

from collections.abc import Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any, Final, TypedDict

from recollect.agent.storages.experience.store.allocator import Backing
from recollect.agent.storages.experience.store.experience_store import SequenceShape
from recollect.agent.storages.experience.store.schema import FrameStacks
from recollect.checks import check_count, check_whole
from recollect.errors import ConfigError

# What an option by keyword is where it is not given, for those that are not None then.
KEYWORD_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({"backing": "ram", "strategy": "future", "share": 0.8})


class StoreOptions(TypedDict, total=False):
    """Options that every off-policy storage takes by keyword.

    seed : int, optional
        Seed of the storage's own generator.
    frame_stack : int, tuple or mapping, optional
        Depth of frame stacks in the observation: `4`, or `(4, -1)` with the stacking axis, of dict
        observations `{"pixels": 4}` or `{"pixels": (4, -1)}`. Frames are then stored once.
    backing : {"ram", "shared", "file"}
        Where the data live, by default "ram".
    path : path-like, optional
        Folder of a storage whose backing is "file", which needs one; it is made if it is not there.
    sequence_length, sequence_overlap : int, optional
        Shape of the sequences of recurrent actors. By default `algorithm.update_every` and
        `actor.sequence_overlap`.
    """

    seed: int | None
    frame_stack: FrameStacks
    backing: Backing
    path: str | PathLike[str] | None
    sequence_length: int | None
    sequence_overlap: int | None


def sequence_shape(actor: Any, algorithm: Any, options: StoreOptions) -> SequenceShape | None:
    """Shape of the sequences that a recurrent actor, or the options, ask for; None for single steps."""
    length, overlap = options.get("sequence_length"), options.get("sequence_overlap")
    if length is None and not getattr(actor, "is_recurrent", False):
        if overlap is not None:
            raise ConfigError(
                f"sequence_overlap={overlap!r} needs sequence_length=, or a recurrent actor: there are no sequences "
                "that could overlap"
            )
        return None
    if length is None:
        length = algorithm.update_every
    if overlap is None:
        overlap = getattr(actor, "sequence_overlap", 0)
    return SequenceShape(check_count("sequence_length", length), check_whole("sequence_overlap", overlap))
