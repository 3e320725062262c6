"""Recollect's storages as replay buffers of TorchRL's losses, training loops and `Trainer`."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from os import PathLike
from typing import Any, ClassVar, Final, cast

import torch

from recollect import keys
from recollect.adapters.contents import contents_of, load_contents
from recollect.adapters.layout import make_memory
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.off_policy import ere_buffer, nstep_buffer, per_buffer, replay_buffer
from recollect.agent.storages.snapshots import load_storage, save_storage
from recollect.checks import check_count
from recollect.errors import ConfigError, SchemaError, StorageError
from recollect.extras import the_extra

if find_spec("tensordict") is None:
    raise ConfigError(f"recollect.adapters.torchrl needs {the_extra('torchrl')}")

from tensordict import TensorDict, TensorDictBase

# TorchRL's names.
_NEXT: Final = "next"
_REWARD: Final = "reward"
_DONE: Final = "done"
_TERMINATED: Final = "terminated"
_TRUNCATED: Final = "truncated"
_FLAGS: Final = (_DONE, _TERMINATED, _TRUNCATED)
_COLLECTOR: Final = "collector"
_STEPS: Final = "steps_to_next_obs"
_WEIGHT: Final = "priority_weight"
_INDEX: Final = "index"
# What a `state_dict` has beside the files of a snapshot.
_NUM_ENVS: Final = "num_envs"
_WRITE_COUNT: Final = "write_count"
_FILES: Final = "files"

Key = str | tuple[str, ...]


class ReplayBuffer:
    """Uniform replay of tensordicts, with n-step returns made when batches are drawn.

    What is in both a step and its `"next"` is an observation, and stored once; the rest of a step goes with its
    action. Batches have TorchRL's keys: `("next", "reward")` is the return of up to `n_step` steps and
    `steps_to_next_obs` their number, by which its value estimators raise gamma; `("next", "terminated")` tells
    terminations from truncations.

    Parameters
    ----------
    size : int
        Transitions, over all environments together.
    batch_size : int, optional
        Rows of a batch, where `sample` is not told.
    num_envs : int, optional
        Environments that flat tensordicts are of, one after another; none if they are of one, or have an axis
        of environments before that of time, `[num_envs, time]`.
    gamma : float
        Discount factor of n-step returns: that of the loss.
    device : torch.device or str
        Where batches are placed.
    priority_key : str or tuple
        Where losses leave TD errors.
    seed : int, optional
        Seed of the draws.
    **options
        Those of the storage: `n_step`, `backing`, ...

    Examples
    --------
    >>> import torch
    >>> step = TensorDict({"observation": torch.zeros(5, 3), "action": torch.zeros(5, 1)}, [5])
    >>> step["next"] = TensorDict({"observation": torch.zeros(5, 3), "reward": torch.ones(5, 1)}, [5])
    >>> step["next", "done"] = torch.zeros(5, 1, dtype=torch.bool)
    >>> rb = ReplayBuffer(1000, batch_size=4, n_step=3)
    >>> _ = rb.extend(step)
    >>> rb.sample()["next", "reward"].shape
    torch.Size([4, 1])
    """

    storage_class: ClassVar[type[replay_buffer.ReplayBuffer]] = nstep_buffer.NStepReplayBuffer

    def __init__(
        self,
        size: int,
        *,
        batch_size: int | None = None,
        num_envs: int | None = None,
        gamma: float = 0.99,
        device: torch.device | str = "cpu",
        priority_key: Key = "td_error",
        seed: int | None = None,
        **options: Any,
    ) -> None:
        self._size = check_count("size", size)
        self.batch_size = batch_size
        self.num_envs = num_envs
        self.priority_key = priority_key
        self._seed = seed
        self._options = {**self._recommended({"size": size, **options}), **options, "gamma": gamma, "device": device}
        self.write_count = 0
        self._memory: replay_buffer.ReplayBuffer | None = None if num_envs is None else self._make(num_envs)

    @property
    def memory(self) -> replay_buffer.ReplayBuffer:
        """The storage; it is there once the number of environments is known."""
        if self._memory is None:
            raise StorageError("the buffer is empty: extend it before sampling")
        return self._memory

    @property
    def storage(self) -> replay_buffer.ReplayBuffer | None:
        """The storage, or None; TorchRL asks for its device."""
        return self._memory

    def __len__(self) -> int:
        return 0 if self._memory is None else len(self._memory)

    def extend(self, data: TensorDictBase, *, update_priority: bool | None = None) -> torch.Tensor:
        """Store the steps of a tensordict `[time]` or `[..., time]`; returns their ids in its order, flat."""
        steps = self._by_env(data)  # [num_envs, time]
        memory = self._memory = self._memory or self._make(steps.shape[0])
        num_envs, num_steps = steps.shape
        if num_envs != memory.num_envs:
            raise SchemaError(f"expected steps of {memory.num_envs} envs, as before, got those of {num_envs}")
        memory.insert_data_slice(_to_sample(steps.transpose(0, 1)))
        self.write_count += num_envs * num_steps
        heads = torch.from_numpy(memory.store.ring.heads[:num_envs].copy())
        lanes = torch.arange(num_envs)[:, None]
        ids: torch.Tensor = heads[:, None] - num_steps + torch.arange(num_steps) | lanes << layout.ID_SHIFT
        return ids.reshape(-1)

    def add(self, data: TensorDictBase) -> torch.Tensor:
        """Store one step."""
        return self.extend(data.unsqueeze(-1))

    def sample(self, batch_size: int | None = None) -> TensorDict:
        """Draw a batch."""
        num_rows = batch_size or self.batch_size
        if num_rows is None:
            raise ConfigError("batch_size is missing: give it to sample, or to the buffer")
        batch: dict[str, Any] = dict(self.memory.sample(num_rows))
        done, terminated = batch[keys.NEXT_DONE], batch[keys.NEXT_TERMINATED]
        flags = {_DONE: done, _TERMINATED: terminated, _TRUNCATED: done & ~terminated}
        result = {name: torch.zeros_like(flag) for name, flag in flags.items()} | batch[keys.OBS] | batch[keys.ACTION]
        result[_NEXT] = {**flags, **batch[keys.NEXT_OBS], _REWARD: batch[keys.REWARD]}
        result[_STEPS], result[_INDEX] = batch[keys.N_STEP], batch[keys.IDXS]
        if keys.PER_WEIGHTS in batch:
            result[_WEIGHT] = batch[keys.PER_WEIGHTS].reshape(-1)
        return TensorDict(result, [num_rows], device=self.memory.device)

    def __iter__(self) -> Iterator[TensorDict]:
        while True:
            yield self.sample()

    def update_priority(self, data: TensorDictBase | torch.Tensor, priority: torch.Tensor | None = None) -> None:
        """Tell the storage the TD errors of a batch: the batch with `priority_key`, or ids and errors.

        A buffer without priorities, and a batch without errors, change nothing.
        """
        if isinstance(data, TensorDictBase):
            index, priority = data.get(_INDEX), data.get(cast(str, self.priority_key), None)
        else:
            index = data
        if priority is None or not self._has_priorities():
            return
        errors = priority.detach().reshape(len(index), -1).float().mean(1).abs()
        self.memory.update_priorities({keys.IDXS: index}, errors)

    def update_tensordict_priority(self, data: TensorDictBase) -> None:
        """Tell the storage the TD errors of a batch."""
        self.update_priority(data)

    def empty(self) -> None:
        """Remove what is stored."""
        self.memory.reset()
        self.write_count = 0

    def state_dict(self) -> dict[str, Any]:
        """What is stored, as tensors of bytes: a snapshot, with priorities and the state of the draws."""
        if self._memory is None:
            return {_NUM_ENVS: 0, _WRITE_COUNT: 0, _FILES: {}}
        files = {
            name: torch.frombuffer(bytearray(content), dtype=torch.uint8)
            for name, content in contents_of(self._memory).items()
        }
        return {_NUM_ENVS: self._memory.num_envs, _WRITE_COUNT: self.write_count, _FILES: files}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Hold what `state_dict` gave."""
        if state_dict[_FILES]:
            memory = self._memory or self._make(int(state_dict[_NUM_ENVS]))
            load_contents(memory, {name: tensor.numpy().tobytes() for name, tensor in state_dict[_FILES].items()})
            self._memory, self.write_count = memory, int(state_dict[_WRITE_COUNT])

    def dumps(self, path: str | PathLike[str]) -> None:
        """Write a snapshot to a folder."""
        save_storage(self.memory, path)

    def loads(self, path: str | PathLike[str]) -> None:
        """Read a snapshot from a folder; `num_envs` must be known."""
        load_storage(self.memory, path)

    def _make(self, num_envs: int) -> replay_buffer.ReplayBuffer:
        num_steps = max(self._size // check_count("num_envs", num_envs), 1)
        return make_memory(self.storage_class, num_steps, num_envs, self._seed, self._options)

    def _by_env(self, data: TensorDictBase) -> TensorDictBase:
        if data.ndim == 0:
            raise SchemaError("expected a tensordict [time] or [num_envs, time], got one step; use add")
        num_envs = (self.num_envs or 1) if data.ndim == 1 else data.shape[:-1].numel()
        return data.reshape(num_envs, -1)

    def _has_priorities(self) -> bool:
        return isinstance(self._memory, per_buffer.PERBuffer) and self._memory.alpha > 0

    def _recommended(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values of options that were not given."""
        return {}


class PERBuffer(ReplayBuffer):
    """Prioritised replay: batches have `priority_weight`, which TorchRL's losses use."""

    storage_class = per_buffer.PERBuffer

    def _recommended(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return self.storage_class.config_class.recommended(given, self.num_envs or 1)


class EREBuffer(PERBuffer):
    """Replay that emphasises recent experience."""

    storage_class = ere_buffer.EREBuffer


def _to_sample(steps: TensorDictBase) -> dict[str, Any]:
    """Steps `[time, num_envs]` as a storage takes them."""
    following = steps.get(_NEXT, None)
    if not isinstance(following, TensorDictBase) or not {_REWARD, _DONE} <= set(following.keys()):
        raise SchemaError(f"a step must have ({_NEXT!r}, {_REWARD!r}) and ({_NEXT!r}, {_DONE!r}), got {steps}")
    outcomes = following.select(_REWARD, *_FLAGS, strict=False)
    begin, following = steps.exclude(_NEXT, _COLLECTOR, *_FLAGS), following.exclude(_REWARD, *_FLAGS)
    after = set(following.keys(True, True))
    observed = [key for key in begin.keys(True, True) if key in after]
    others = [key for key in begin.keys(True, True) if key not in after]
    done = outcomes[_DONE]
    terminated = outcomes.get(_TERMINATED, done)
    return {
        keys.OBS: begin.select(*observed).contiguous().to_dict(),
        keys.ACTION: begin.select(*others).contiguous().to_dict(),
        keys.NEXT_OBS: following.select(*observed).contiguous().to_dict(),
        keys.REWARD: outcomes[_REWARD].float().contiguous(),
        keys.NEXT_DONE: (done | terminated | outcomes.get(_TRUNCATED, done)).contiguous(),
        keys.NEXT_TERMINATED: terminated.contiguous(),
    }
