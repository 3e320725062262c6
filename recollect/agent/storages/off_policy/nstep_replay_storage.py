"""`NStepReplayStorage`: n-step replay for vector environments, loaded in the background."""

import logging
import threading
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple, Self

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from recollect import keys
from recollect.agent.storages.experience.persistence.snapshot import Snapshot
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.experience.sampling.outputs import map_arrays, nest
from recollect.agent.storages.experience.sampling.prefetch import Prefetcher
from recollect.agent.storages.experience.store.allocator import Allocator, Backing, NoRoomError
from recollect.agent.storages.experience.store.experience_store import ExperienceStore
from recollect.agent.storages.experience.store.schema.planning import FrameStacks
from recollect.agent.storages.off_policy.loops.autoreset import ResetSteps
from recollect.agent.storages.off_policy.loops.final_obs_check import FinalObsCheck
from recollect.agent.storages.off_policy.loops.vector_steps import VectorSteps
from recollect.checks import check_count, check_device, check_number, check_whole, seeded_generator
from recollect.errors import ConfigError, RecollectWarning, StorageError
from recollect.roles import Numbers, Observation

_log = logging.getLogger(__name__)
_KEYS: Final = (keys.OBS, keys.ACTION, keys.REWARD, keys.NEXT_OBS, keys.DONE, keys.NEXT_DONE)
_MAX_PREFETCHED: Final = 16
_GENERATOR: Final = "generator"
_RESETS: Final = "resets"
_ADVICE: Final = (
    f"Either the envs are reset in the step after an end: say autoreset_mode={AutoresetMode.NEXT_STEP.value!r}. Or the "
    f"true last observations are missing: give them in infos[{keys.FINAL_OBS!r}] or next_observations."
)


class NStepReplayBatch(NamedTuple):
    """Tensors `[batch, ...]`, of dict spaces dicts of them; learn `rewards + discounts * value(next)`.

    Attributes
    ----------
    rewards : float32 [batch, 1]
        Discounted sum over the window's steps.
    discounts : float32 [batch, 1]
        0 where the window ends in a termination, else the discount to the power of its steps.
    next_observations
        What the window's last step led to.
    """

    observations: Observation
    actions: Observation
    rewards: torch.Tensor
    discounts: torch.Tensor
    next_observations: Observation


class NStepReplayStorage:
    """N-step replay as in DrQ-v2 (Yarats et al., 2021, https://arxiv.org/abs/2107.09645).

    Steps of any number of environments, each observation stored once, sampleable as soon as they are
    added, with the shorter window where an episode ends or has come no further yet.

    Batches are prefetched: those of the next `fetch_every` rows are drawn at once from all that is stored
    at that moment, and threads gather them while the caller learns. What is prefetched depends on the
    calls and on the seed, never on the threads: `add` waits for what is still being gathered.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
        Those of one environment: Box, Discrete, MultiDiscrete, MultiBinary or a Dict of them.
    device : str
        Where batches are placed.
    storage_size : int
        Transitions, over all environments together.
    num_envs : int
        Environments that are stepped together.
    batch_size : int
        Rows of a batch.
    num_workers : int
        Threads that gather batches; 0 gathers them in the caller's.
    pin_memory : bool
        Hand batches out in, or through, pinned memory, where there is CUDA.
    n_step : int
        Most steps of a return.
    discount : float
        Discount factor of returns.
    fetch_every : int
        Rows to prefetch, rounded up to whole batches, at most 16 of them. Data added since then are seen by
        the next prefetch; with 0 or 1, each batch sees them all.
    save_snapshot : bool
        Write the storage to `snapshot_path` in `update` and `close`.
    snapshot_path : path-like, optional
        Folder of the snapshot. If there is one, the storage resumes from it. Where a snapshot is to be saved
        and no folder is given, it is a new one among the temporary files, which the log names.
    seed : int, optional
        Seed of the storage's own generator; a snapshot brings its own.
    autoreset_mode : gymnasium.vector.AutoresetMode or str
        When the environments are reset. With "NextStep" the step after an end is no step of an
        episode, and is never drawn. The other modes need nothing of the storage.
    frame_stack : int, tuple or mapping, optional
        Depth of frame stacks in the observations, which are then stored as single frames.
    backing, path
        Where the data live, as in `ReplayConfig`. What does not fit into RAM lives in temporary files, and where
        their disk is too small, fewer steps are kept; each with a warning.

    Examples
    --------
    >>> import gymnasium as gym
    >>> envs = gym.make_vec("CartPole-v1", num_envs=2)
    >>> spaces, mode = (envs.single_observation_space, envs.single_action_space), envs.metadata["autoreset_mode"]
    >>> with NStepReplayStorage(*spaces, num_envs=2, batch_size=4, autoreset_mode=mode) as storage:
    ...     observations, _ = envs.reset(seed=1)
    ...     actions = envs.action_space.sample()
    ...     after, rewards, terminateds, truncateds, infos = envs.step(actions)
    ...     storage.add(observations, actions, rewards, terminateds, truncateds, infos, after)
    ...     storage.sample().next_observations.shape
    torch.Size([4, 4])
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        device: str = "cpu",
        storage_size: int = 1000000,
        num_envs: int = 1,
        batch_size: int = 256,
        num_workers: int = 4,
        pin_memory: bool = True,
        n_step: int = 3,
        discount: float = 0.99,
        fetch_every: int = 1000,
        save_snapshot: bool = False,
        *,
        snapshot_path: str | PathLike[str] | None = None,
        seed: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        frame_stack: FrameStacks = None,
        backing: Backing = "ram",
        path: str | PathLike[str] | None = None,
    ) -> None:
        self.device = check_device(device)
        self.storage_size = check_count("storage_size", storage_size)
        self.num_envs = check_count("num_envs", num_envs)
        self.batch_size = check_count("batch_size", batch_size)
        self.num_workers = check_whole("num_workers", num_workers)
        self.pin_memory = bool(pin_memory) and torch.cuda.is_available()
        self.n_step = check_count("n_step", n_step)
        self.discount = check_number("discount", discount, 0.0, 1.0)
        self.fetch_every = check_whole("fetch_every", fetch_every)
        self.save_snapshot = save_snapshot
        if save_snapshot and snapshot_path is None:
            snapshot_path = mkdtemp(prefix="recollect-replay-")
            _log.info("snapshots of this storage are written to %s; snapshot_path= names another folder", snapshot_path)
        self.snapshot_path = None if snapshot_path is None else Path(snapshot_path)
        if self.storage_size < self.num_envs:
            raise ConfigError(
                f"storage_size counts all envs together: {storage_size} is less than a step for each of {num_envs}"
            )
        self._steps = VectorSteps(observation_space, action_space, self.num_envs)
        self._rng = seeded_generator(seed)
        self._max_steps = np.array([self.n_step], np.int64)
        num_batches = -(-self.fetch_every // self.batch_size)
        self._num_prefetched = min(max(1, num_batches), _MAX_PREFETCHED)
        self._prefetcher: Prefetcher[NStepReplayBatch] = Prefetcher(self.num_workers if self._num_prefetched > 1 else 0)
        try:
            self._store = self._build(frame_stack, backing, path)
        except NoRoomError as error:
            self.storage_size = max(self.num_envs, error.num_fitting)
            advice = f"it keeps {self.storage_size:,}; name a folder on a larger disk with backing='file' and path="
            warnings.warn(f"{error}: {advice}", RecollectWarning, stacklevel=2)
            self._store = self._build(frame_stack, backing, path)
        self._resets = ResetSteps(self._store, autoreset_mode)
        self._final_obs_check = FinalObsCheck(_ADVICE)
        self._is_closed = False
        self._snapshot = None if self.snapshot_path is None else Snapshot(self.snapshot_path)
        self._is_saved = self._load()
        # Plans reuse their tensors, so each thread has its own; the ring that they read is the storage's for good.
        self._thread = threading.local()

    def _build(self, frame_stack: FrameStacks, backing: Backing, path: str | PathLike[str] | None) -> ExperienceStore:
        """Make a store of `storage_size` steps."""
        store = ExperienceStore(
            self.storage_size // self.num_envs,
            self.num_envs,
            _KEYS,
            Allocator(backing, path, may_overflow=backing == "ram"),
            frame_stack=frame_stack,
            on_relayout=lambda old, new: None,
            extra_bytes=lambda: 0.0,
        )
        store.build(self._steps.blank())
        return store

    def __len__(self) -> int:
        """Transitions that may be drawn, of all envs together."""
        return len(self._store) - self._resets.count()

    def __repr__(self) -> str:
        fill = f"{len(self):,}/{self.storage_size:,} transitions"
        return f"NStepReplayStorage({fill}, num_envs={self.num_envs}, n_step={self.n_step})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def num_bytes(self) -> int:
        """Bytes that the stored steps take."""
        return self._store.ring.num_bytes_used

    def reset(self) -> None:
        """Reset the storage: forget all steps, and the batches drawn from them."""
        with self._store.lock:
            self._check_open()
            self._prefetcher.drop()
            self._store.clear()
            self._is_saved = False

    def add(
        self,
        observations: Observation,
        actions: Observation,
        rewards: Numbers,
        terminateds: Numbers,
        truncateds: Numbers,
        infos: Mapping[str, Any],
        next_observations: Observation,
    ) -> None:
        """Add one step of every env, arrays or tensors `[num_envs, ...]`.

        Parameters
        ----------
        observations, actions : array or dict of arrays
            As the spaces say; observations stay in their own dtype.
        rewards, terminateds, truncateds : array `[num_envs]` or `[num_envs, 1]`
            What the step brought, and whether it ended an episode.
        infos : dict
            The vector env's. Where it reset envs in the same step, their last observations are here, as
            `final_obs` or, from Gymnasium before version 1, `final_observation`.
        next_observations : array or dict of arrays
            What the step led to.
        """
        sample = self._steps.read(observations, actions, rewards, terminateds, truncateds, infos, next_observations)
        with self._store.lock:
            self._check_open()
            sample[keys.DONE] = self._resets.find(sample[keys.OBS])
            # Batches already drawn are those of the store as it was.
            self._prefetcher.settle()
            self._store.insert(sample)
            self._resets.follow(sample)
            self._is_saved = False
        if not self._resets.are_expected:
            self._final_obs_check.follow(sample)

    def replay_iter(self) -> Iterator[NStepReplayBatch]:
        """Create an iterator over batches that does not end, also if there was nothing to draw at first."""
        return iter(self.sample, None)

    def sample(self) -> NStepReplayBatch:
        """Sample from the storage: the next batch."""
        with self._store.lock:
            self._check_open()
            self._is_saved = False
            return self._prefetcher.take() if len(self._prefetcher) else self._prefetch()

    def update(self, *args: object) -> None:
        """Update the storage if necessary: write a snapshot, if one is wanted and something has changed."""
        with self._store.lock:
            self._check_open()
            if self.save_snapshot and not self._is_saved:
                self._save()

    def close(self) -> None:
        """Write a snapshot, if one is wanted, and end the threads."""
        with self._store.lock:
            if not self._is_closed:
                try:
                    self.update()
                finally:
                    self._is_closed = True
                    self._prefetcher.close()

    def _prefetch(self) -> NStepReplayBatch:
        """Draw the next batches from all that is stored now; return the first, have the others gathered."""
        self._store.access.check_drawable()
        ids = self._resets.replace(self._draw(self._num_prefetched * self.batch_size), self._draw)
        first, *others = ids.reshape(-1, self.batch_size)
        for other in others:
            self._prefetcher.start(partial(self._gather, other))
        return self._gather(first)

    def _draw(self, num_rows: int) -> np.ndarray:
        return self._store.access.draw(self._rng.random(num_rows))

    def _gather(self, ids: np.ndarray) -> NStepReplayBatch:
        """Make the batch of the windows that start at `ids`; any thread may."""
        if not hasattr(self._thread, "plan"):
            self._thread.plan = self._store.plan()
        rows = self._thread.plan.gather(ids, self._max_steps, self.discount)
        batch = nest(rows.items())
        names = (keys.OBS, keys.ACTION, keys.REWARD, keys.DISCOUNT, keys.NEXT_OBS)
        return NStepReplayBatch(*(map_arrays(self._deliver, batch[name]) for name in names))

    def _deliver(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.pin_memory:
            tensor = tensor.pin_memory()
        return tensor if self.device.type == "cpu" else tensor.to(self.device, non_blocking=True)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageError("the storage is closed; build another")

    def _load(self) -> bool:
        """Resume from the snapshot, if there is one."""
        if self._snapshot is None or not self._snapshot.exists():
            return False
        state = self._snapshot.read(self._store).state
        try:
            self._rng.bit_generator.state = state[_GENERATOR]
            self._resets.load_state(state[_RESETS])
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"the snapshot in {self._snapshot.folder} is of another storage") from error
        return True

    def _save(self) -> None:
        """Write a snapshot; prefetched batches are not part of it, so they are dropped here as well."""
        assert self._snapshot is not None
        self._prefetcher.drop()
        own = {_GENERATOR: self._rng.bit_generator.state, _RESETS: self._resets.state()}
        self._snapshot.write(self._store, Extras(own))
        self._is_saved = True
