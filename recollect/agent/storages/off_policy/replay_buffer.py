"""`ReplayBuffer`: uniform replay over lanes of steps."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self, cast

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.base import Creates, Storage, StorageFactory
from recollect.agent.storages.base_buffer import STEP_KEYS, BaseBuffer
from recollect.agent.storages.experience.sampling.outputs import Name, name_of, nest
from recollect.agent.storages.experience.store.allocator import Allocator
from recollect.agent.storages.experience.store.experience_store import ONE_STEP
from recollect.agent.storages.experience.store.ring import columns
from recollect.agent.storages.experience.store.ring.lane_ring import LaneRing
from recollect.agent.storages.experience.store.ring.ring_builder import SequenceShape
from recollect.agent.storages.off_policy.config import ReplayConfig
from recollect.agent.storages.off_policy.loops.final_obs_check import FinalObsCheck
from recollect.agent.storages.off_policy.loops.own_loop import OwnLoop, OwnLoopSteps
from recollect.agent.storages.off_policy.loops.plain_steps import PlainSteps
from recollect.checks import check_count, check_number
from recollect.errors import SchemaError
from recollect.roles import Batch, Device, Info, Numbers, Observation, RewardsNovelty

# Rows of a batch by name, and which sequences must start from a zero hidden state.
Rows = tuple[dict[Name, torch.Tensor], np.ndarray | None]

_ADVICE: Final = (
    "Either the envs are reset in the step after an end, as Gymnasium's vector envs are by default: that step is no "
    f"transition; let them reset in the same step, or mark its rows {keys.SKIP!r} in insert_transition. Or next_obs is "
    f"the first observation of the next episode: give the true last one, which is in infos[{keys.FINAL_OBS!r}]."
)


class Drawn(NamedTuple):
    """Where the rows of a batch start, and what the draw says of each of them.

    Attributes
    ----------
    ids : int64 [rows]
        The starts.
    columns : arrays `[rows]`
        The values of the class's `drawn_keys`, in their order.
    """

    ids: np.ndarray
    columns: tuple[np.ndarray, ...] = ()


# `Storage` is named as the base that the contract promises; its methods come from `BaseBuffer`.
class ReplayBuffer(BaseBuffer, Storage):
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
    *values, **given
        See `ReplayConfig`.

    Examples
    --------
    >>> import numpy as np
    >>> memory = ReplayBuffer.standalone(size=100, num_envs=1, seed=0)
    >>> obs, flag = np.zeros((1, 3), np.float32), np.zeros(1, bool)
    >>> memory.add(obs, np.zeros((1, 2), np.float32), np.ones(1), obs + 1, flag, flag)
    >>> memory.sample(4)["NextObservation"].shape
    torch.Size([4, 3])
    """

    storage_tensors = (*STEP_KEYS, keys.ACTION_PROBS)
    create_factory = Creates(ReplayConfig)
    title = "uniform replay"
    config: ReplayConfig
    # Columns that a batch has because of how it was drawn, beside the ids.
    drawn_keys: ClassVar[tuple[str, ...]] = ()

    def _make_parts(self) -> None:
        self._own_steps = OwnLoopSteps(self.num_envs)
        self._final_obs_check = FinalObsCheck(_ADVICE)
        # What reads steps that need no second look; looked for once in each ring.
        self._plain_steps: PlainSteps | None = None
        self._has_looked = False

    @classmethod
    def standalone(
        cls,
        size: int,
        *,
        num_envs: int = 1,
        gamma: float = 0.99,
        device: Device = "cpu",
        **options: Any,
    ) -> Self:
        """Create a storage for a custom training loop, without actor, algorithm or envs.

        Parameters
        ----------
        size : int
            Capacity along the time axis; the storage holds `size * num_envs` transitions.
        num_envs : int
            Environments that are stepped together.
        gamma : float
            Discount factor of returns.
        **options
            Those of `create_factory`.
        """
        config = cls.config_class.of(cls.__name__, options, size, others=("num_envs", "gamma", "device"))
        stand_in: Any = OwnLoop(check_number("gamma", gamma, 0.0, 1.0), num_envs)
        return StorageFactory(cls, config)(device, stand_in, stand_in, stand_in)

    def insert_single_tensor_slice(
        self, tensor_storage: Mapping[str, Any], tensor_key: str, tensor_values: Observation
    ) -> int:
        """Write the next steps of one stored column, without moving the cursor; returns how many.

        The oldest steps of a full storage lie in the slots of these, and are forgotten.

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
        num_rows = self._num_rows(mini_batch_size)
        return (self._batch(num_rows, k, num_batches) for k in range(1, num_batches + 1))

    def _num_rows(self, mini_batch_size: int) -> int:
        """Rows of a batch of `mini_batch_size` steps."""
        num_rows = check_count("mini_batch_size", mini_batch_size)
        num_held = self.max_size * self.num_envs
        if num_rows > num_held:
            self._warn_once(
                f"a batch of {num_rows} steps is larger than the storage, which holds {num_held}: its steps repeat; "
                "use a larger size or a smaller mini_batch_size"
            )
        sequence = self._store.sequence
        return num_rows if sequence is None else max(1, num_rows // sequence.length)

    def add(
        self,
        obs: Observation,
        action: Observation,
        reward: Numbers,
        next_obs: Observation,
        terminated: Numbers,
        truncated: Numbers,
    ) -> None:
        """Store one step of a custom training loop, as arrays or tensors.

        Parameters
        ----------
        obs, next_obs : array `[num_envs, ...]` or nested dict of them
            What was seen and what the step led to, also where it ended the episode. Dtypes are kept.
        action : array `[num_envs, ...]`
            What was done. Its dtype is kept.
        reward : array `[num_envs]` or `[num_envs, 1]`
            Stored as float32.
        terminated, truncated : array `[num_envs]` or `[num_envs, 1]`
            Whether the step ended the episode for good, or cut it.
        """
        sample = self._own_steps.read(obs, action, reward, next_obs, terminated, truncated)
        with self._store.lock:
            if not self._insert_plain(obs, action, next_obs):
                self.insert_transition(sample)
                self._look_for_plain_steps()
        self._own_steps.advance()
        self._final_obs_check.follow(sample, has_ended=self._own_steps.has_ended)

    def _insert_plain(self, obs: Observation, action: Observation, next_obs: Observation) -> bool:
        """Store a step of `add` without a second look, if it needs none; returns whether it is stored."""
        steps = self._plain_steps
        if steps is None or not steps.read(obs, action, next_obs):
            return False
        try:
            is_stored = self._store.insert_at(steps.addresses)
        except SchemaError:
            return False  # who looks closer says what is wrong
        self._on_append()
        return is_stored

    def _look_for_plain_steps(self) -> None:
        has_own = type(self).insert_transition is not BaseBuffer.insert_transition
        if not (self._has_looked or has_own or self._store.sequence is not None):
            self._plain_steps = PlainSteps.of(self._store.access.intake, self._own_steps.columns)
        self._has_looked = True

    def _on_relayout(self, old: LaneRing | None, new: LaneRing) -> None:
        super()._on_relayout(old, new)
        self._plain_steps, self._has_looked = None, False

    def sample(self, batch_size: int) -> Batch:
        """Draw one batch."""
        return self._batch(self._num_rows(batch_size), 1, 1)

    def update_priorities(self, batch: Batch, errors: Numbers) -> None:
        """Tell the storage the TD errors of a batch; one that draws uniformly warns that they change nothing."""
        if not isinstance(batch, Mapping):
            raise SchemaError(
                f"update_priorities takes a batch as it was drawn, which knows its ids, got {type(batch).__name__}; "
                f"give the batch, not its {keys.IDXS}"
            )
        if not self._has_priorities():
            self._warn_once(
                f"this {type(self).__name__} draws uniformly, so priorities have no effect; use a PERBuffer with "
                "an alpha, e.g. alpha=0.6"
            )
        self.after_gradients(batch, {keys.ALGORITHM: {keys.ERRORS: errors}})

    def _has_priorities(self) -> bool:
        """Whether draws depend on errors."""
        return False

    def _allocator(self) -> Allocator:
        return Allocator(self.config.backing, self.config.path)

    def _sequence(self) -> SequenceShape | None:
        return self.config.sequence_shape(self.actor, self.algorithm)

    def _batch(self, num_rows: int, k: int, num_batches: int) -> Batch:
        store = self._store
        with store.lock:
            store.access.check_drawable()
            drawn = self._draw(num_rows, k, num_batches)
            rows = self._rewarded_windows(drawn.ids, 1)[0] if store.sequence is None else self._sequence_rows(drawn.ids)
        for key, values in zip(self.drawn_keys, drawn.columns, strict=True):
            rows[key] = torch.from_numpy(values.reshape(-1, 1))
        rows = self._staging.send(rows)
        # Only the store reads them, which would wait for a device.
        rows[keys.IDXS] = torch.from_numpy(drawn.ids)
        return cast(Batch, nest(rows.items()) if store.is_nested else rows)

    def _draw(self, num_rows: int, k: int, num_batches: int) -> Drawn:
        """Choose the starts of the `k`-th of `num_batches` batches."""
        return Drawn(self._store.access.draw(self._rng.random(num_rows)))

    def _sequence_rows(self, ids: np.ndarray) -> dict[Name, torch.Tensor]:
        """Rows `[num_seq, length + n_step, ...]` of the sequences that start at `ids`."""
        starts = self._store.starts
        num_steps = starts.length + int(self._limits()[0])
        windows, without_state = self._rewarded_windows(starts.expand(self._store.ring, ids, num_steps), num_steps)
        rows = {name: tensor.reshape(len(ids), num_steps, *tensor.shape[1:]) for name, tensor in windows.items()}
        mask = torch.zeros(len(ids), num_steps, 1)
        mask[:, starts.overlap : starts.length] = 1.0
        rows[keys.MASK] = mask
        for path, states in starts.states(ids).items():
            if without_state is not None:
                states[without_state] = 0
            rows[name_of(path)] = torch.from_numpy(states)
        return rows

    def _rewarded_windows(self, ids: np.ndarray, length: int) -> Rows:
        """Rows of windows, with the intrinsic rewards of now where the algorithm says so."""
        rows, without_state = self._windows(ids, length)
        if keys.IREWARD in rows and getattr(self.algorithm, "recomputes_intrinsic", False):
            rows[keys.IREWARD] = self._intrinsic_returns(ids, rows[keys.N_STEP][:, 0].numpy())
        return rows, without_state

    def _intrinsic_returns(self, ids: np.ndarray, num_steps: np.ndarray) -> torch.Tensor:
        """Intrinsic rewards of now, folded over windows of `num_steps` from `ids` on, float32 `[rows, 1]`."""
        returns = torch.zeros(len(ids), 1)
        for step in range(int(num_steps.max())):
            is_inside = num_steps > step
            reached = nest(self._store.access.gather(ids[is_inside] + step, ONE_STEP, self._gamma()).items())
            rewards = cast(RewardsNovelty, self.algorithm).intrinsic_reward(reached[keys.NEXT_OBS])
            if rewards is not None:
                returns[torch.from_numpy(is_inside)] += self._gamma() ** step * rewards.float().cpu()
        return returns

    def _windows(self, ids: np.ndarray, length: int) -> Rows:
        """Rows of the windows that start at `ids`, `length` of which make a sequence."""
        return self._store.access.gather(ids, self._limits(), self._gamma()), None

    def _limits(self) -> np.ndarray:
        """Most steps of a window, int64 [1]."""
        return ONE_STEP

    def _gamma(self) -> float:
        return float(self.algorithm.gamma)
