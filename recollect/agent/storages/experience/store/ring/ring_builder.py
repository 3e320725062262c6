"""`RingBuilder`: plans the schema of a store's steps, and makes the rings that hold them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from recollect import keys
from recollect.agent.storages.experience.sampling.sequences import Sequences, Starts, check_sequence
from recollect.agent.storages.experience.sampling.tensor_pool import MakeTensor
from recollect.agent.storages.experience.store.allocator import Allocator, Need
from recollect.agent.storages.experience.store.intake import Intake
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_access import RingAccess
from recollect.agent.storages.experience.store.schema.planning import (
    FrameStacks,
    check_frame_stacks,
    check_keys,
    check_num_envs,
    parse_frame_stacks,
    plan_schema,
)
from recollect.agent.storages.experience.store.schema.schema import Schema
from recollect.errors import ConfigError, StorageError


class SequenceShape(NamedTuple):
    """Length and overlap of a recurrent actor's sequences."""

    length: int
    overlap: int


class RingBuilder:
    """What a store is made for, and the rings that suit it.

    Parameters
    ----------
    num_envs : int
        Lanes of one source.
    allowed_keys : tuple of str
        Keys that a sample may have.
    allocator : Allocator
        Where the bytes live.
    frame_stack : int, tuple or mapping, optional
        Depth of stacked frames, for each observation key that has them.
    sequence : SequenceShape or None
        Rows are sequences of this shape.
    extra_bytes : callable
        Tells the bytes that are kept for each step outside the store, for the estimate of its size.
    make_tensor : callable
        Makes the tensors that batches are gathered into.
    """

    def __init__(
        self,
        num_envs: int,
        allowed_keys: tuple[str, ...],
        allocator: Allocator,
        frame_stack: FrameStacks,
        sequence: SequenceShape | None,
        extra_bytes: Callable[[], float],
        make_tensor: MakeTensor,
    ) -> None:
        check_frame_stacks(frame_stack)
        self.allowed_keys = allowed_keys
        self.frame_stack = frame_stack
        self._num_envs = num_envs
        self._allocator = allocator
        self._sequence = sequence
        self._extra_bytes = extra_bytes
        self._make_tensor = make_tensor

    def plan(self, sample: Mapping[str, Any], num_lead: int) -> Schema:
        """Plan the schema from a first sample, whose arrays have `num_lead` axes of time and envs."""
        is_recurrent = self._sequence is not None
        check_keys(sample, self.allowed_keys, recurrent=is_recurrent)
        schema = plan_schema(sample, num_lead=num_lead, recurrent=is_recurrent, frame_stack=self.frame_stack)
        check_num_envs(sample, num_lead, self._num_envs)
        return schema

    def check_stacks(self, schema: Schema) -> None:
        """Refuse steps from elsewhere that have other frame stacks."""
        observation = [place.leaf for place in schema.carried if place.leaf.path[0] == keys.OBS]
        stacks = {place.leaf.path: (place.depth, place.axis) for place in schema.carried if place.depth > 1}
        if stacks != parse_frame_stacks(self.frame_stack, observation):
            raise StorageError(f"the steps have the frame stacks {stacks}, this storage {self.frame_stack}")

    def check_size(self, size: int, num_groups: int = 1) -> None:
        """Refuse a store of `size` steps along time that is too small for this number of sources."""
        if size // num_groups < 1:
            raise ConfigError(
                f"{num_groups} sources cannot share a storage of size {size}; give it at least {num_groups}"
            )
        if self._sequence is not None:
            check_sequence(*self._sequence, size // num_groups)

    def make_ring(self, schema: Schema, size: int, num_groups: int, old: LaneRing | None = None) -> LaneRing:
        """Make a ring of `size` steps along time for `num_groups` sources; the steps of `old`, if any, move there."""
        self.check_size(size, num_groups)
        num_lanes, capacity = num_groups * self._num_envs, size // num_groups
        num_steps = num_lanes * capacity
        num_held = 0 if old is None else old.num_bytes_used + int(self._extra_bytes() * old.sizes.sum())
        need = Need(
            LaneRing.estimate_bytes(schema, num_lanes, capacity),
            schema.tail_bytes,
            int(self._extra_bytes() * num_steps),
            num_held,
            self._num_envs,
        )
        self._allocator.check(num_steps, need)
        return LaneRing(schema, num_lanes, capacity, self._allocator)

    def access_to(self, ring: LaneRing) -> RingAccess:
        """The parts that go in and out of a ring."""
        starts, shape = Starts(ring.num_lanes), self._sequence
        if shape is not None:
            starts = Sequences(ring.num_lanes, ring.num_slots, *shape, ring.schema.hidden)
        return RingAccess(ring, Intake(ring.schema, self._num_envs), starts, self._make_tensor)
