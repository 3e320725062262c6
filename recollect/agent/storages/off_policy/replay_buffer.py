"""`ReplayBuffer`: uniform replay over lanes of steps."""

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, Unpack, cast

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.base import Batch, Info, Storage, StorageFactory
from recollect.agent.storages.experience import columns
from recollect.agent.storages.experience.lane_ring import LaneRing
from recollect.agent.storages.experience.lane_store import ONE_STEP, LaneStore
from recollect.agent.storages.experience.memory import Memory
from recollect.agent.storages.experience.outputs import Drawn, Name, name_of, nest
from recollect.agent.storages.experience.sequences import Sequences
from recollect.agent.storages.off_policy.options import StoreOptions, check_options, sequence_shape
from recollect.checks import check_count, check_number
from recollect.errors import RecollectWarning, SchemaError, closest


class Rows(NamedTuple):
    """Rows of a batch by name, and which sequences must start from a zero hidden state."""

    tensors: dict[Name, torch.Tensor]
    without_state: np.ndarray | None = None


@dataclass
class _OwnLoop:
    """Stands in for algorithm and envs where people keep their own training loop."""

    gamma: float
    num_envs: int


class ReplayBuffer(Storage):
    """Storage for off-policy algorithms that draws every stored step with the same chance.

    Parameters
    ----------
    size : int
        Capacity along the time axis; the storage holds `size * num_envs` transitions.
    device : torch.device or str
        Where batches are placed.
    actor : Actor
        If it `is_recurrent`, batches are sequences.
    algorithm : Algorithm
        Owner of `gamma`, which is read at each draw.
    envs : VecEnv
        Tells the number of environments.
    **options
        See `StoreOptions`.

    Attributes
    ----------
    max_size, size, step : int
        Capacity, steps stored and write position along the time axis.

    Examples
    --------
    >>> import numpy as np
    >>> memory = ReplayBuffer.standalone(size=100, num_envs=1, seed=0)
    >>> obs, flag = np.zeros((1, 3), np.float32), np.zeros(1, bool)
    >>> memory.add(obs, np.zeros((1, 2), np.float32), np.ones(1), obs + 1, flag, flag)
    >>> memory.sample(4)["NextObservation"].shape
    torch.Size([4, 3])
    """

    storage_tensors = (
        keys.OBS,
        keys.RHS,
        keys.DONE,
        keys.ACTION,
        keys.REWARD,
        keys.IREWARD,
        keys.NEXT_OBS,
        keys.NEXT_RHS,
        keys.NEXT_DONE,
        keys.ACTION_PROBS,
    )
    # Columns of a batch that come from its draw.
    drawn_keys: tuple[str, ...] = ()

    def __init__(
        self,
        size: int,
        device: torch.device | str,
        actor: Any,
        algorithm: Any,
        envs: Any,
        **options: Unpack[StoreOptions],
    ) -> None:
        super().__init__(check_count("size", size), device, actor, algorithm)
        check_options(type(self).__name__, options)
        self._on_cpu = self.device.type == "cpu"
        self.envs = envs
        self.num_envs = check_count("envs.num_envs", getattr(envs, "num_envs", None))
        self._rng = np.random.default_rng(options.get("seed"))
        self._store = LaneStore(
            size,
            self.num_envs,
            self.storage_tensors,
            Memory(options.get("backing", "ram"), options.get("path")),
            frame_stack=options.get("frame_stack"),
            sequence=sequence_shape(actor, algorithm, options),
            drawn_keys=self.drawn_keys,
            on_relayout=self._on_relayout,
            bytes_beside=self._bytes_beside,
        )
        self._was_done = np.ones((self.num_envs, 1), np.float32)

    @classmethod
    def create_factory(cls, size: int, **options: Unpack[StoreOptions]) -> StorageFactory:
        """Return a function that creates `ReplayBuffer` instances."""
        return StorageFactory(cls, {"size": size, **options})

    @classmethod
    def standalone(
        cls,
        size: int,
        *,
        num_envs: int = 1,
        gamma: float = 0.99,
        device: torch.device | str = "cpu",
        **options: Any,
    ) -> Self:
        """Create a storage for one's own training loop, without actor, algorithm or envs.

        Parameters
        ----------
        size : int
            Capacity along the time axis; the storage holds `size * num_envs` transitions.
        num_envs : int
            Environments that are stepped together.
        gamma : float
            Discount factor of returns.
        **options
            The class's own parameters and the `StoreOptions`.
        """
        stand_in = _OwnLoop(check_number("gamma", gamma, 0.0, 1.0), num_envs)
        storage: Self = cls.create_factory(size, **options)(device, None, stand_in, stand_in)
        return storage

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
        """Position along the time axis where the next step is written."""
        return int(self._store.ring.heads[0]) % self.max_size if self._store.is_built else 0

    @property
    def num_cuts(self) -> int:
        """Steps that led to another observation than the next one started from, without an end."""
        return self._store.ring.num_cuts if self._store.is_built else 0

    @property
    def num_bytes(self) -> int:
        """Bytes that the stored steps take."""
        return self._store.ring.num_bytes_used if self._store.is_built else 0

    def __len__(self) -> int:
        """Transitions stored, of all envs and sources together."""
        return len(self._store)

    def init_tensors(self, sample: Mapping[str, Any]) -> None:
        """Plan the storage from a first sample `[num_envs, ...]`, without storing it."""
        with self._store.lock:
            self._store.build(sample)

    def insert_transition(self, sample: Mapping[str, Any]) -> None:
        """Store one step of every env, arrays or tensors `[num_envs, ...]`, but for rows marked `Skip`."""
        with self._store.lock:
            self._store.insert(sample)
            self._on_append()

    def insert_data_slice(
        self, new_data: Mapping[str, Any], *, source: Hashable = 0, first_step: int | None = None
    ) -> None:
        """Store several steps of every env, `[time, num_envs, ...]`.

        Parameters
        ----------
        new_data : mapping
            The steps, keyed as in `insert_transition`.
        source : hashable
            Who saw them; every source has lanes of its own.
        first_step : int, optional
            Running number of the first step in the source's stream: steps received before are
            dropped, and a gap breaks the stream.
        """
        if not isinstance(new_data, Mapping) or keys.REWARD not in new_data:
            raise SchemaError(f"a slice must be a dict of arrays with {keys.REWARD}")
        with self._store.lock:
            self._store.insert_slice(new_data, source, len(new_data[keys.REWARD]), first_step)
            self._on_append()

    def insert_single_tensor_slice(self, tensor_storage: Mapping[str, Any], tensor_key: str, tensor_values: Any) -> int:
        """Write the next steps of one stored column, without moving the cursor; returns how many.

        Parameters
        ----------
        tensor_storage : mapping
            The storage's `data`.
        tensor_key : str
            A stored, not a derived, key.
        tensor_values : array `[time, num_envs, ...]`
            Values of the steps to come.
        """
        with self._store.lock:
            num_steps = columns.write_ahead(self._store, tensor_key, tensor_values)
            self._on_append()
            return num_steps

    def release_source(self, source: Hashable) -> None:
        """Say that a source has left; the next one that joins takes its lanes."""
        with self._store.lock:
            self._store.release(source)

    def get_all_buffer_data(self, data_to_cpu: bool = False, *, source: Hashable = 0) -> Batch:
        """Return all that is stored from a source, oldest first, `[time, num_envs, ...]`.

        Data live in CPU memory, so `data_to_cpu` changes nothing.
        """
        with self._store.lock:
            return columns.export(self._store, source, 0, None)

    def get_data_slice(self, start_pos: int, end_pos: int, *, source: Hashable = 0) -> Batch:
        """Return a copy of the steps between two positions, 0 being the oldest, `[time, num_envs, ...]`."""
        with self._store.lock:
            return columns.export(self._store, source, start_pos, end_pos)

    def before_gradients(self) -> None:
        """Do nothing: batches are drawn when they are asked for."""

    def after_gradients(self, batch: Batch, info: Info) -> Info:
        """Return `info` as it is: uniform draws do not depend on errors."""
        return info

    def generate_batches(self, num_mini_batch: int, mini_batch_size: int, num_epochs: int = 1) -> Iterator[Batch]:
        """Yield `num_epochs * num_mini_batch` batches, each drawn when it is asked for.

        Parameters
        ----------
        num_mini_batch : int
            Batches of an epoch.
        mini_batch_size : int
            Steps of a batch.
        num_epochs : int
            Number of epochs.

        Yields
        ------
        dict
            Tensors `[batch, ...]` by key, with `Discount`, `n_step` and `idxs`; of recurrent actors
            `[num_seq, length + n_step, ...]`.
        """
        num_batches = check_count("num_mini_batch", num_mini_batch) * check_count("num_epochs", num_epochs)
        num_rows = check_count("mini_batch_size", mini_batch_size)
        if self._store.sequence is not None:
            num_rows = max(1, num_rows // self._store.sequence.length)
        return (self._batch(num_rows, k, num_batches) for k in range(1, num_batches + 1))

    def reset(self) -> None:
        """Empty the storage; with a recurrent actor, the last `overlap` steps stay as context."""
        with self._store.lock:
            self._store.clear()

    def update_storage_parameter(self, parameter_name: str, new_parameter_value: Any) -> None:
        """Change a parameter; it takes effect on the next batch and on data already stored."""
        setters = self._parameter_setters()
        if parameter_name not in setters:
            warnings.warn(
                f"{type(self).__name__} has no parameter {parameter_name!r}, nothing was changed; "
                f"{closest(parameter_name, setters)}",
                RecollectWarning,
                stacklevel=2,
            )
            return
        with self._store.lock:
            setters[parameter_name](new_parameter_value)

    def add(self, obs: Any, action: Any, reward: Any, next_obs: Any, terminated: Any, truncated: Any) -> None:
        """Store one step of one's own training loop, arrays or tensors `[num_envs, ...]`."""
        terminated, truncated = self._column(terminated), self._column(truncated)
        ended = np.maximum(terminated, truncated)
        self.insert_transition(
            {
                keys.OBS: _as_arrays(obs),
                keys.ACTION: _as_arrays(action),
                keys.REWARD: self._column(reward),
                keys.NEXT_OBS: _as_arrays(next_obs),
                keys.DONE: self._was_done,
                keys.NEXT_DONE: ended,
                keys.NEXT_TERMINATED: terminated,
            }
        )
        self._was_done = ended

    def sample(self, batch_size: int) -> Batch:
        """Draw one batch."""
        return next(self.generate_batches(1, batch_size))

    def update_priorities(self, batch: Batch, errors: Any) -> None:
        """Tell the storage the TD errors of a batch; without priorities nothing happens."""
        self.after_gradients(batch, {keys.ALGORITHM: {keys.ERRORS: errors}})

    def _batch(self, num_rows: int, k: int, num_batches: int) -> Batch:
        with self._store.lock:
            self._store.check_drawable()
            drawn = self._draw(num_rows, k, num_batches)
            rows = self._windows(drawn, 1).tensors if self._store.sequence is None else self._sequence_rows(drawn)
        if not self._on_cpu:
            rows = {name: tensor.to(self.device, non_blocking=True) for name, tensor in rows.items()}
        return nest(rows.items()) if self._store.is_nested else cast(Batch, rows)

    def _draw(self, num_rows: int, k: int, num_batches: int) -> Drawn:
        """Choose the starts of the `k`-th of `num_batches` batches."""
        return Drawn(self._store.draw(self._rng.random(num_rows)))

    def _sequence_rows(self, drawn: Drawn) -> dict[Name, torch.Tensor]:
        """Rows `[num_seq, length + n_step, ...]` of the sequences that were drawn."""
        starts, ids = self._store.starts, drawn.ids
        assert isinstance(starts, Sequences)
        num_steps = starts.length + int(self._limits()[0])
        windows = self._windows(Drawn(starts.expand(self._store.ring, ids, num_steps)), num_steps)
        rows = {
            name: tensor.reshape(len(ids), num_steps, *tensor.shape[1:]) for name, tensor in windows.tensors.items()
        }
        mask = torch.zeros(len(ids), num_steps, 1)
        mask[:, starts.overlap : starts.length] = 1.0
        rows[keys.MASK] = mask
        rows[keys.IDXS] = torch.from_numpy(ids)
        for path, states in starts.states(ids).items():
            if windows.without_state is not None:
                states[windows.without_state] = 0
            rows[name_of(path)] = torch.from_numpy(states)
        return rows | drawn.columns(self.drawn_keys)

    def _windows(self, drawn: Drawn, length: int) -> Rows:
        """Rows of the windows that start where `drawn` says, `length` of which make a sequence."""
        return Rows(self._store.gather(drawn, self._limits(), self._gamma()))

    def _limits(self) -> np.ndarray:
        """Most steps of a window, int64 [1]."""
        return ONE_STEP

    def _gamma(self) -> float:
        return float(self.algorithm.gamma)

    def _on_append(self) -> None:
        """Follow the cursors: parts that keep something for each slot bring it up to date."""

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        """Follow steps that have moved to other slots, or been forgotten where `old` is `new`."""

    def _bytes_beside(self) -> float:
        """Bytes kept for each step beside the store."""
        return 0.0

    def _parameter_setters(self) -> dict[str, Callable[[Any], None]]:
        """What `update_storage_parameter` can change, and how."""
        return {"max_size": self._set_max_size, "gamma": self._set_gamma}

    def _set_max_size(self, value: Any) -> None:
        size = check_count("max_size", value)
        self._store.resize(size)
        self.max_size = size

    def _set_gamma(self, value: Any) -> None:
        gamma = check_number("gamma", value, 0.0, 1.0)
        if hasattr(self.algorithm, "update_algorithm_parameter"):
            self.algorithm.update_algorithm_parameter("gamma", gamma)
        else:
            self.algorithm.gamma = gamma

    def _column(self, values: Any) -> np.ndarray:
        """One number for each env as float32 `[num_envs, 1]`."""
        array = np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values, np.float32)
        if array.size != self.num_envs:
            raise SchemaError(f"expected one number for each of {self.num_envs} envs, got shape {array.shape}")
        return array.reshape(self.num_envs, 1)


def _as_arrays(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_arrays(inner) for key, inner in value.items()}
    return value if isinstance(value, torch.Tensor) else np.asarray(value)
