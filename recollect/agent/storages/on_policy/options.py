"""Options that every on-policy storage takes by keyword."""

from typing import TypedDict

from recollect.agent.storages.experience.store.schema import FrameStacks


class RolloutOptions(TypedDict, total=False):
    """Options that every on-policy storage takes by keyword.

    seed : int, optional
        Seed of the storage's own generator.
    frame_stack : int, tuple or mapping, optional
        Depth of frame stacks in the observation: `4`, or `(4, -1)` with the stacking axis, of dict
        observations `{"pixels": 4}` or `{"pixels": (4, -1)}`. Frames are then stored once.
    sequence_length : int, optional
        Most steps of a recurrent actor's sequences, with the `actor.sequence_overlap` first ones that only
        warm the memory up. By default `algorithm.update_every`.
    """

    seed: int | None
    frame_stack: FrameStacks
    sequence_length: int | None
