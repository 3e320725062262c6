"""`BaseBuffer`: what all storages over a `ExperienceStore` share, from taking steps in to reading them back."""

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, cast

from recollect import keys
from recollect.agent.storages.configured import ConfiguredStorage
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.experience.sampling.staging import Staging
from recollect.agent.storages.experience.store.allocator import Allocator
from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.experience.store.outbox import Outbox
from recollect.agent.storages.experience.store.ring import columns
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_builder import SequenceShape
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.checks import check_count, check_number, seeded_generator
from recollect.errors import RecollectWarning, SchemaError, closest
from recollect.roles import Actor, Algorithm, Batch, Device, Sample, VectorEnvs

# What every storage may keep of a step.
STEP_KEYS: Final = (
    keys.OBS,
    keys.RHS,
    keys.DONE,
    keys.ACTION,
    keys.REWARD,
    keys.IREWARD,
    keys.NEXT_OBS,
    keys.NEXT_RHS,
    keys.NEXT_DONE,
)
# What a sample may have beside the keys of `storage_tensors`: how its rows are to be taken.
_MARKS: Final = (keys.NEXT_TERMINATED, keys.CUT, keys.SKIP, keys.START)
_GENERATOR: Final = "generator"
# Parameters that change while running and are no options.
_MAX_SIZE: Final = "max_size"
_GAMMA: Final = "gamma"
# Who feeds a storage that is filled in its own process.
_LOCAL_SOURCE: Final = 0


class BaseBuffer(ConfiguredStorage):
    """A storage that keeps steps in lanes; how batches are made of them is left to subclasses.

    Parameters
    ----------
    size, device, actor, algorithm
        As in `Storage`.
    envs : VecEnv
        Tells the number of environments.
    *values, **given
        The options of `config_class` beside `size`; their names are spelled out in each class's signature.

    Attributes
    ----------
    max_size, size, step : int
        Capacity, steps stored and position of the step to come, along the time axis.
    """

    def __init__(
        self,
        size: int,
        device: Device,
        actor: Actor,
        algorithm: Algorithm,
        envs: VectorEnvs,
        *values: object,
        **given: object,
    ) -> None:
        self.config = self.config_class.of(type(self).__name__, given, size, *values)
        super().__init__(self.config.size, device, actor, algorithm)
        self._staging = Staging(self.device)
        self.envs = envs
        self.num_envs = check_count("envs.num_envs", getattr(envs, "num_envs", None))
        self.changed_parameters: dict[str, Any] = {}
        self._warnings_given: set[str] = set()
        self._num_keys = 0
        self._check_config(self.config)
        self._rng = seeded_generator(self.config.seed)
        self._store = ExperienceStore(
            self.max_size,
            self.num_envs,
            self.storage_tensors,
            self._allocator(),
            frame_stack=self.config.frame_stack,
            sequence=self._sequence(),
            on_relayout=self._on_relayout,
            extra_bytes=self._extra_bytes,
            make_tensor=self._staging.make_tensor,
        )
        self._make_parts()

    def __repr__(self) -> str:
        fill = f"{len(self):,}/{self.max_size * self.num_envs:,} transitions, num_envs={self.num_envs}"
        return f"{type(self).__name__}({', '.join(filter(None, (fill, self.config.summary('size'))))})"

    @property
    def store(self) -> ExperienceStore:
        """The lanes of steps, for those who write them elsewhere."""
        return self._store

    @property
    def data(self) -> dict[str, Any]:
        """Views of the stored columns by key, `[num_lanes, num_slots, ...]`; derived keys have none."""
        return columns.views(self._store) if self._store.is_built else {}

    @property
    def size(self) -> int:
        """Steps stored along the time axis."""
        return len(self) // self.num_envs

    @property
    def step(self) -> int:
        """Position of the step to come along the time axis: 0 after a reset, and again after `max_size` steps.

        Positions are logical; `data` shows the slots that steps really lie in, which are others.
        """
        return self._store.num_since_clear % self.max_size

    @property
    def num_cuts(self) -> int:
        """Steps that led to another observation than the next one started from, without an end."""
        return self._store.ring.num_cuts if self._store.is_built else 0

    @property
    def num_repeated(self) -> int:
        """Steps of slices that were dropped because their source had sent them before."""
        return self._store.num_repeated

    @property
    def num_bytes(self) -> int:
        """Bytes that the stored steps take, with what is kept beside them."""
        if not self._store.is_built:
            return 0
        num_beside = self._store.starts.num_bytes + int(self._extra_bytes() * len(self))
        return self._store.ring.num_bytes_used + num_beside

    @property
    def capacity(self) -> int:
        if not self._store.is_built:
            return self.max_size * self.num_envs
        return self._store.ring.num_lanes * self._store.ring.capacity

    def __len__(self) -> int:
        """Transitions stored, of all envs and sources together."""
        return len(self._store)

    def init_tensors(self, sample: Sample) -> None:
        """Plan the storage from a first sample `[num_envs, ...]`, without storing it.

        A storage that is planned already refuses a sample that it could not store.
        """
        with self._store.lock:
            sample = self._kept(sample)
            self._store.build(sample)
            self._store.access.intake.read(sample)

    def insert_transition(self, sample: Sample) -> None:
        """Store one step of every env, arrays or tensors `[num_envs, ...]`, but for rows marked `Skip`.

        A key whose value is None is left out, and so is, with a warning, one that `storage_tensors` does not have.
        """
        with self._store.lock:
            # Samples with as many keys as one that was kept whole need no other look, unless the store refuses them.
            is_whole = type(sample) is dict and len(sample) == self._num_keys
            try:
                self._store.insert(sample if is_whole else self._kept(sample))
            except SchemaError:
                if not is_whole or len(kept := self._kept(sample)) == len(sample):
                    raise
                self._store.insert(kept)
            self._on_append()

    def insert_data_slice(self, new_data: Sample, *, source: Hashable = 0, first_step: int | None = None) -> None:
        """Store several steps of every env, `[time, num_envs, ...]`.

        Parameters
        ----------
        new_data : mapping
            The steps, keyed as in `insert_transition`.
        source : hashable
            Who saw them; every source has lanes of its own.
        first_step : int, optional
            Running number of the first step in the source's stream: steps received before are dropped and
            counted by `num_repeated`, and a gap breaks the stream. A source that starts numbering again is
            released first.
        """
        new_data = self._kept(new_data)
        if not isinstance(new_data, Mapping) or keys.REWARD not in new_data:
            raise SchemaError(f"a slice must be a dict of arrays with {keys.REWARD}")
        rewards = new_data[keys.REWARD]
        if not getattr(rewards, "shape", ()):
            raise SchemaError(
                f"{keys.REWARD} of a slice must be an array or tensor [time, num_envs, 1], got {type(rewards).__name__}"
            )
        with self._store.lock:
            self._store.insert_slice(new_data, source, int(rewards.shape[0]), first_step)
            self._on_append()

    def append_piece(self, piece: RingPiece, *, source: Hashable) -> int:
        """Store the steps of a piece that were not received before; returns how many they were.

        What cannot be of this storage's kind is refused with a `SchemaError`, and nothing has changed.
        """
        with self._store.lock:
            num_new = self._store.append_piece(piece, source)
            self._on_append()
            return num_new

    def make_outbox(self, num_steps: int, before: Outbox | None = None) -> Outbox:
        """A small store of steps that are to be sent to a storage like this one, `num_steps` at a time.

        It continues the streams of the one `before` it, if there was one.
        """
        return Outbox(self._store.make_outbox_store(num_steps + 1), before)

    @property
    def sources(self) -> list[Hashable]:
        """Who has stored something and has not left."""
        return self._store.sources

    @property
    def data_source(self) -> Hashable:
        """The source under which given data are stored."""
        return _LOCAL_SOURCE

    @property
    def lasting_sources(self) -> tuple[Hashable, ...]:
        """Sources that outlive the process: whoever collects in it, and what was given. The others are its workers."""
        return (_LOCAL_SOURCE,)

    @property
    def num_lanes(self) -> int:
        """Streams of steps that the storage is divided into: those of each source, and those left by others."""
        return self._store.ring.num_lanes

    def release_source(self, source: Hashable) -> None:
        """Say that a source has left; the next one that joins takes its lanes."""
        with self._store.lock:
            self._store.release(source)

    def get_all_buffer_data(self, data_to_cpu: bool = False, *, source: Hashable = 0) -> Batch:
        """Return all that is stored from a source, oldest first, `[time, num_envs, ...]`.

        Data live in CPU memory, so `data_to_cpu` changes nothing.
        """
        with self._store.lock:
            return cast(Batch, columns.export(self._store, source, 0, None))

    def get_data_slice(self, start_pos: int, end_pos: int, *, source: Hashable = 0) -> Batch:
        """Return a copy of the steps between two positions, 0 being the oldest, `[time, num_envs, ...]`."""
        with self._store.lock:
            return cast(Batch, columns.export(self._store, source, start_pos, end_pos))

    @property
    def num_episodes(self) -> int:
        """Episodes that `episodes` gives."""
        with self._store.lock:
            return sum(1 for _ in columns.episode_ids(self._store)) if self._store.is_built else 0

    def episodes(self) -> Iterator[Batch]:
        """Yield copies of the stored episodes, `[time, ...]`, lane by lane, oldest first.

        The last one of a lane may be unfinished, and the first lack the steps that were overwritten.
        """
        with self._store.lock:
            found = list(columns.episode_ids(self._store)) if self._store.is_built else []
        for ids in found:
            with self._store.lock:
                yield cast(Batch, columns.export_ids(self._store, ids))

    def reset(self) -> None:
        """Empty the storage; where sequences overlap, the last `overlap` steps stay as context."""
        with self._store.lock:
            self._store.clear()

    def state(self) -> Extras:
        """What a snapshot needs beside the steps. A subclass adds its own, `super().state() | Extras(...)`.

        A storage that holds nothing yet is asked too: what it names, a snapshot must have to be read into it.
        """
        return Extras({_GENERATOR: self._rng.bit_generator.state})

    def load_state(self, extras: Extras) -> None:
        """Resume from what `state` gave; the steps are there already, and parameters stay as they are."""
        self._rng.bit_generator.state = extras.state[_GENERATOR]

    def _kept(self, sample: object) -> Any:
        """A sample without keys that have no value, or that no storage of this class keeps; all else is left alone."""
        if not isinstance(sample, Mapping):
            return sample
        known = (*self.storage_tensors, *_MARKS)
        for key in sample.keys() - set(known):
            self._warn_once(
                f"{type(self).__name__} does not store {key!r} and leaves it out; {closest(str(key), known)}"
            )
        kept = {key: sample[key] for key in sample if key in known and sample[key] is not None}
        if len(kept) == len(sample):
            self._num_keys = len(kept)
        return kept

    def _warn_once(self, message: str) -> None:
        """Warn whoever called a method of this storage."""
        if message not in self._warnings_given:
            self._warnings_given.add(message)
            warnings.warn(message, RecollectWarning, stacklevel=4)

    def _on_append(self) -> None:
        """Follow the cursors: parts that keep something for each slot bring it up to date."""

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        """Follow steps that have moved to other slots, or been forgotten where `old` is `new`."""

    def _extra_bytes(self) -> float:
        """Bytes kept for each step beside the store."""
        return 0.0

    def _allocator(self) -> Allocator:
        """Where the bytes of the steps live."""
        return Allocator("ram", None)

    def _sequence(self) -> SequenceShape | None:
        """Shape of sequences that overlap in the store; None for single steps."""
        return None

    def _make_parts(self) -> None:
        """Make what a subclass has beside the store, from `config`."""

    def _locked(self) -> AbstractContextManager[object]:
        return self._store.lock

    def _setters(self) -> Mapping[str, Callable[[object], None]]:
        return {_MAX_SIZE: self._set_max_size, _GAMMA: self._set_gamma}

    def _set_max_size(self, value: object) -> None:
        size = check_count(_MAX_SIZE, value)
        self._store.resize(size * self._num_shares())
        self.config = replace(self.config, size=size)
        self.max_size = size

    def _num_shares(self) -> int:
        """How many times `max_size` steps the store holds along time."""
        return 1

    def _set_gamma(self, value: object) -> None:
        gamma = check_number(_GAMMA, value, 0.0, 1.0)
        self.algorithm.update_algorithm_parameter(_GAMMA, gamma)
