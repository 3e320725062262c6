"""Recollect's storages as replay buffers of Stable-Baselines3, sb3-contrib and SBX."""

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common import buffers
from stable_baselines3.common.vec_env import VecNormalize

from recollect import keys
from recollect.adapters.contents import contents_of, load_contents
from recollect.adapters.layout import StepLayout, make_memory
from recollect.adapters.sb3.arrays import EndFlags, StoredArrays
from recollect.adapters.sb3.callers import snapshot_folder
from recollect.adapters.sb3.owner import Owner
from recollect.adapters.sb3.samples import DictReplaySamples, ReplaySamples, to_samples
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.sampling.outputs import nest
from recollect.agent.storages.experience.store.ring import columns
from recollect.agent.storages.off_policy import ere_buffer, nstep_buffer, per_buffer, replay_buffer
from recollect.agent.storages.snapshots import load_storage, save_storage
from recollect.checks import check_count, check_number
from recollect.errors import ConfigError, RecollectWarning, StorageError
from recollect.roles import Batch, Numbers

_TRUNCATED: Final = "TimeLimit.truncated"
# SB3's names of our options.
_OURS: Final = {"n_steps": "n_step"}
_SIZE: Final = "size"

Samples = ReplaySamples | DictReplaySamples


class ReplayBuffer(buffers.ReplayBuffer):
    """Uniform replay for SB3's algorithms, of flat and dict observations alike.

    Every observation is stored once, whatever `optimize_memory_usage` says, and truncated episodes bootstrap
    from their true last observation.

    Parameters
    ----------
    buffer_size : int
        Transitions, over all environments together.
    observation_space, action_space : gymnasium.Space
        Those of one environment.
    device : torch.device or str
        Where batches are placed.
    n_envs : int
        Environments that are stepped together.
    optimize_memory_usage : bool
        Changes nothing: memory is always used well.
    handle_timeout_termination : bool
        Whether a truncated episode bootstraps; with False, it counts as terminated.
    gamma : float, optional
        Discount factor of n-step returns; none for that of the algorithm.
    seed : int, optional
        Seed of the draws; none to take one from NumPy's global generator, which SB3 seeds.
    **options
        Those of the storage: `n_step`, `frame_stack`, `backing`, ...

    Attributes
    ----------
    memory : recollect.ReplayBuffer
        The storage, for `save_storage`, `load_storage` and all else that it offers.

    Examples
    --------
    >>> from stable_baselines3 import SAC
    >>> model = SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=ReplayBuffer, replay_buffer_kwargs=dict(n_step=3))
    """

    storage_class: ClassVar[type[replay_buffer.ReplayBuffer]] = nstep_buffer.NStepReplayBuffer
    memory: replay_buffer.ReplayBuffer

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        gamma: float | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        buffers.BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.buffer_size = max(check_count("buffer_size", buffer_size) // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self._gamma = None if gamma is None else check_number("gamma", gamma, 0.0, 1.0)
        self._options = self._translated(options)
        self._layout = StepLayout(observation_space, action_space, n_envs)
        given = {_SIZE: self.buffer_size, **self._options}
        chosen = {**self._recommended(given), **self._options, "device": self.device}
        self.memory = make_memory(self.storage_class, self.buffer_size, n_envs, seed, chosen)
        # Now, so that one too large for this machine is refused before training.
        self.memory.init_tensors(self._layout.blank())
        self._arrays = StoredArrays(self.memory)
        self._owner = Owner()

    @property
    def gamma(self) -> float:
        """Discount factor of returns."""
        return self._owner.gamma if self._gamma is None else self._gamma

    @property
    def n_steps(self) -> int:
        """Most steps of a return."""
        return cast(nstep_buffer.NStepReplayBuffer, self.memory).n_step

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        """Store one step of every env, `[n_envs, ...]`; `infos` tell which episodes were truncated."""
        step = self._layout
        step.reward[:, 0], step.ended[:, 0] = reward, done
        step.terminated[:] = step.ended
        if self.handle_timeout_termination:
            for env, info in enumerate(infos):
                if info.get(_TRUNCATED):
                    step.ended[env], step.terminated[env] = 1, 0
        self.memory.insert_transition(step.sample(obs, next_obs, action))

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Samples:
        """Draw a batch; observations and rewards are normalised as `env` says now."""
        self._follow_gamma()
        if batch_size > self.buffer_size * self.n_envs:
            # SB3's users expect steps to repeat then, without a warning.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RecollectWarning)
                batch = self._draw(batch_size)
        else:
            batch = self._draw(batch_size)
        return to_samples(self.memory, batch, self.device, env)

    def update_priorities(self, samples: Samples, errors: Numbers) -> None:
        """Tell the storage the sizes of TD errors of a batch, `[batch]` or `[batch, 1]`."""
        self.memory.update_priorities(samples.batch, errors)

    def reset(self) -> None:
        """Remove what is stored."""
        self.memory.reset()
        self._counts_as_full = False

    @property
    def pos(self) -> int:
        """Ring position of the step to come."""
        return self.memory.step if "memory" in self.__dict__ else 0

    @pos.setter
    def pos(self, value: int) -> None:
        if value != self.pos:
            raise ConfigError(f"pos follows the steps that are added: it is {self.pos}, and cannot become {value}")

    @property
    def full(self) -> bool:
        """Whether the oldest steps are being overwritten."""
        return self._counts_as_full or self.memory.size == self.buffer_size

    @full.setter
    def full(self, value: bool) -> None:
        # SB3's arrays hold zeros from the start, and its users may say that these count.
        self._counts_as_full = value

    @property
    def observations(self) -> Any:
        """Copy of the observations by ring position, `[buffer_size, n_envs, ...]`, as all arrays below."""
        return self._arrays.read(keys.OBS)

    @property
    def next_observations(self) -> Any:
        """What the steps led to."""
        return self._arrays.read(keys.NEXT_OBS)

    @property
    def actions(self) -> np.ndarray:
        """What was done."""
        return cast(np.ndarray, self._arrays.read(keys.ACTION))

    @property
    def rewards(self) -> np.ndarray:
        """Rewards `[buffer_size, n_envs]`."""
        return cast(np.ndarray, self._arrays.read(keys.REWARD)[..., 0])

    @property
    def dones(self) -> np.ndarray:
        """Which steps ended an episode; to set that of the newest step ends its episode in the storage, too."""
        flags = self._arrays.ends()[0].view(EndFlags)
        flags.on_set = self._end_newest
        return flags

    @property
    def timeouts(self) -> np.ndarray:
        """Which steps ended an episode without a termination."""
        ended, terminated = self._arrays.ends()
        timeouts: np.ndarray = ended - terminated
        return timeouts

    def __getstate__(self) -> dict[str, Any]:
        """How to make the buffer again; its contents are no part of a pickled file, but a snapshot beside it.

        Where there is no file, as in a copy, they are the bytes of a snapshot.
        """
        folder = snapshot_folder()
        if folder is not None:
            save_storage(self.memory, folder)
        return {
            "arguments": (self.buffer_size * self.n_envs, self.observation_space, self.action_space, str(self.device)),
            "n_envs": self.n_envs,
            "flags": (self.optimize_memory_usage, self.handle_timeout_termination),
            "options": {**self._options, "gamma": self._gamma, "seed": 0},
            "files": contents_of(self.memory) if folder is None else None,
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(*state["arguments"], state["n_envs"], *state["flags"], **state["options"])  # type: ignore[misc]
        if state["files"] is not None:
            load_contents(self.memory, state["files"])
            return
        folder = snapshot_folder()
        if folder is None:
            raise StorageError("the steps of this buffer are in a snapshot beside its file: use load_replay_buffer")
        load_storage(self.memory, folder)

    def _get_samples(self, batch_inds: np.ndarray, env: VecNormalize | None = None) -> Samples:
        """Rows of the steps at ring positions, each of an env drawn at random."""
        self._follow_gamma()
        ages = (self.pos - 1 - np.asarray(batch_inds, np.int64)) % self.buffer_size
        lanes = np.random.randint(self.n_envs, size=len(ages))  # noqa: NPY002  # as SB3 draws them
        ids = (self.memory.store.ring.heads[lanes] - 1 - ages) | lanes << layout.ID_SHIFT
        rows = self.memory.store.access.gather(ids, np.array([self.n_steps]), self.gamma)
        rows[keys.IDXS] = torch.from_numpy(ids)
        return to_samples(self.memory, cast(Batch, nest(rows.items())), self.device, env)

    def _draw(self, batch_size: int) -> Batch:
        try:
            return self.memory.sample(batch_size)
        except StorageError:
            if not self._counts_as_full:
                raise
        blank = self._layout.blank()
        for _ in range(self.buffer_size):
            self.memory.insert_transition(blank)
        return self.memory.sample(batch_size)

    def _follow_gamma(self) -> None:
        gamma = self.gamma
        if gamma != self.memory.algorithm.gamma:
            self.memory.update_storage_parameter("gamma", gamma)

    def _end_newest(self, flags: np.ndarray) -> None:
        """End the episodes whose newest steps were flagged; other steps stay as they are."""
        changed = flags - self._arrays.ends()[0]
        newest = (self.pos - 1) % self.buffer_size
        envs = np.flatnonzero(changed[newest] > 0)
        if np.count_nonzero(changed) != len(envs):
            raise ConfigError("dones is a copy: only the flags of the newest step can be set, to end its episode")
        if len(envs):
            columns.end_newest(self.memory.store, envs, terminated=True)

    def _translated(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options by our names, where they were given by SB3's."""
        return {_OURS.get(name, name): value for name, value in options.items()}

    def _recommended(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values of options that were not given."""
        return {}


class NStepBuffer(ReplayBuffer):
    """Replay with multi-step returns, 3 steps unless something else is said."""

    def _recommended(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return self.storage_class.config_class.recommended(given, self.n_envs)


class PERBuffer(NStepBuffer):
    """Prioritised replay; it needs an algorithm that reports errors: `recollect.adapters.sb3.SAC` and others.

    Attributes
    ----------
    drawn : ReplaySamples or DictReplaySamples or None
        The last batch.
    """

    storage_class: ClassVar[type[per_buffer.PERBuffer]] = per_buffer.PERBuffer

    def __init__(self, *values: Any, **options: Any) -> None:
        super().__init__(*values, **options)
        self.drawn: Samples | None = None
        if self.has_priorities:
            self._owner.warn_without_errors(type(self).__name__)

    @property
    def has_priorities(self) -> bool:
        """Whether draws depend on errors."""
        return cast(per_buffer.PERBuffer, self.memory).alpha > 0

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Samples:
        """Draw a batch, and keep it at hand for the errors."""
        self.drawn = super().sample(batch_size, env)
        return self.drawn


class EREBuffer(PERBuffer):
    """Replay that emphasises recent experience; priorities on top need an alpha, and an algorithm as `PERBuffer`."""

    storage_class: ClassVar[type[ere_buffer.EREBuffer]] = ere_buffer.EREBuffer
