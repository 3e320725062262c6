"""Recollect's storages as replay buffers of TorchRL's losses, training loops and `Trainer`."""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from os import PathLike
from typing import Any, ClassVar, Final, cast

import torch

from recollect import keys
from recollect.adapters.contents import contents_of, load_contents
from recollect.adapters.layout import make_memory
from recollect.agent.storages.experience.kernels import ring_layout as layout
from recollect.agent.storages.experience.persistence.snapshot import Snapshot
from recollect.agent.storages.off_policy import ere_buffer, nstep_buffer, per_buffer, replay_buffer
from recollect.agent.storages.snapshots import load_storage, save_storage
from recollect.checks import check_count
from recollect.errors import ConfigError, SchemaError, StorageError
from recollect.extras import the_extra
from recollect.roles import Numbers

if find_spec("tensordict") is None:
    raise ConfigError(f"recollect.adapters.torchrl needs {the_extra('torchrl')}")

from tensordict import TensorDict, TensorDictBase

from recollect.adapters.tensordicts import INDEX, WEIGHT, by_env, to_sample, to_tensordict

# What a `state_dict` has beside the files of a snapshot.
_NUM_ENVS: Final = "num_envs"
_WRITE_COUNT: Final = "write_count"
_FILES: Final = "files"
# What a pickled buffer has in place of its storage.
_CONTENTS: Final = "contents"

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
    transform : callable, optional
        What batches go through first, as in `append_transform`.
    seed : int, optional
        Seed of the draws; none to take one from PyTorch's global generator.
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
        transform: Callable[[Any], Any] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        self._size = check_count("size", size)
        self.batch_size = batch_size
        self.num_envs = num_envs
        self.priority_key = priority_key
        self._seed = int(torch.randint(2**31, ())) if seed is None else seed
        self._options = {**self._recommended({"size": size, **options}), **options, "gamma": gamma, "device": device}
        self._transforms: list[Callable[[Any], Any]] = []
        if transform is not None:
            self.append_transform(transform)
        self.write_count = 0
        memory = self._make(num_envs or 1)  # always, so that wrong options are refused now
        self._memory: replay_buffer.ReplayBuffer | None = None if num_envs is None else memory

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
        """Store the steps of a tensordict `[time]` or `[..., time]`; returns their ids in its order, flat.

        TD errors that the steps bring under `priority_key` become priorities, unless `update_priority` is False. The
        padding of split trajectories is left out.
        """
        if data.shape.numel() == 0:
            return torch.empty(0, dtype=torch.int64)
        steps = by_env(data, self.num_envs)  # [num_envs, time]
        num_envs, num_steps = steps.shape
        memory = self._memory_of(num_envs)
        if num_envs != memory.num_envs:
            raise SchemaError(f"expected steps of {memory.num_envs} envs, as before, got those of {num_envs}")
        memory.insert_data_slice(to_sample(steps.exclude(self.priority_key).transpose(0, 1)))
        self._memory = memory
        self.write_count += num_envs * num_steps
        heads = torch.from_numpy(memory.store.ring.heads[:num_envs].copy())
        lanes = torch.arange(num_envs)[:, None]
        ids: torch.Tensor = heads[:, None] - num_steps + torch.arange(num_steps) | lanes << layout.ID_SHIFT
        if update_priority is not False:
            self.update_priority(ids.reshape(-1), steps.get(cast(str, self.priority_key), None))
        return ids.reshape(-1)

    def add(self, data: TensorDictBase) -> torch.Tensor:
        """Store one step."""
        return self.extend(data.unsqueeze(-1))

    def append_transform(self, transform: Callable[[Any], Any]) -> "ReplayBuffer":
        """Have batches go through a function or a transform of TorchRL, last of all; steps are stored as they come."""
        return self.insert_transform(len(self._transforms), transform)

    def insert_transform(self, index: int, transform: Callable[[Any], Any]) -> "ReplayBuffer":
        """Have batches go through a function or a transform of TorchRL before the one at an index."""
        if hasattr(transform, "n_steps"):
            raise ConfigError(f"{type(transform).__name__} works on what is stored: give the buffer n_step instead")
        self._transforms.insert(index, transform)
        return self

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """Draw a batch; with `return_info`, also a dict of its ids and weights."""
        num_rows = batch_size or self.batch_size
        if num_rows is None:
            raise ConfigError("batch_size is missing: give it to sample, or to the buffer")
        drawn = batch = to_tensordict(cast(Mapping[str, Any], self.memory.sample(num_rows)), self.memory.device)
        for transform in self._transforms:
            batch = transform(batch)
        return (batch, drawn.select(INDEX, WEIGHT, strict=False).to_dict()) if return_info else batch

    def __iter__(self) -> Iterator[TensorDict]:
        while True:
            yield self.sample()

    def update_priority(self, data: TensorDictBase | Numbers | int, priority: Numbers | float | None = None) -> None:
        """Tell the storage the TD errors of a batch: the batch with `priority_key`, or ids and errors, or one for all.

        A buffer without priorities, and a batch without errors, change nothing.
        """
        if isinstance(data, TensorDictBase):
            index, priority = data.get(INDEX), data.get(cast(str, self.priority_key), None)
        else:
            index = data
        if priority is None or not self._has_priorities():
            return
        ids = torch.as_tensor(index).reshape(-1)
        errors = torch.as_tensor(priority).detach().float()
        errors = errors.reshape(len(ids), -1).mean(1) if errors.ndim else errors.expand(len(ids))
        self.memory.update_priorities({keys.IDXS: ids}, errors.abs())

    def update_tensordict_priority(self, data: TensorDictBase) -> None:
        """Tell the storage the TD errors of a batch."""
        self.update_priority(data)

    def empty(self, empty_write_count: bool = True) -> None:
        """Remove what is stored."""
        if self._memory is not None:
            self._memory.reset()
        if empty_write_count:
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
        if not state_dict[_FILES]:
            self.empty()
            return
        memory = self._memory_of(int(state_dict[_NUM_ENVS]))
        load_contents(memory, {name: tensor.numpy().tobytes() for name, tensor in state_dict[_FILES].items()})
        self._memory, self.write_count = memory, int(state_dict[_WRITE_COUNT])

    def dumps(self, path: str | PathLike[str]) -> None:
        """Write a snapshot to a folder."""
        save_storage(self.memory, path)

    def loads(self, path: str | PathLike[str]) -> None:
        """Read a snapshot from a folder."""
        memory = self._memory_of(Snapshot(path).manifest().num_envs)
        load_storage(memory, path)
        self._memory, self.write_count = memory, int(memory.store.ring.heads.sum())

    save = dump = dumps
    load = loads

    def __getstate__(self) -> dict[str, Any]:
        """All that a copy needs: the contents as in `state_dict`."""
        return {**self.__dict__, "_memory": None, _CONTENTS: self.state_dict()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in state.items() if name != _CONTENTS})
        self.load_state_dict(state[_CONTENTS])

    def _memory_of(self, num_envs: int) -> replay_buffer.ReplayBuffer:
        """The storage, or a new one for as many environments."""
        return self._make(num_envs) if self._memory is None else self._memory

    def _make(self, num_envs: int) -> replay_buffer.ReplayBuffer:
        num_steps = max(self._size // check_count("num_envs", num_envs), 1)
        return make_memory(self.storage_class, num_steps, num_envs, self._seed, self._options)

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
