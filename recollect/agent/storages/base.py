"""What every storage offers, and the object that builds one where it is needed."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from recollect.agent.storages.config import StorageConfig
from recollect.checks import check_device
from recollect.roles import Actor, Algorithm, Batch, Device, Info, Sample, VectorEnvs
from recollect.roles import Storage as StorageRole


class Storage(ABC):
    """Base class of all storages: experience in, batches out.

    A class may be written after this one alone. Its methods may have more parameters, as they take any here. One that
    counts what it stores, in `__len__`, has it shown beside the training.

    Parameters
    ----------
    size : int
        Capacity along the time axis.
    device : torch.device or str
        Where batches are placed.
    actor : Actor
        The actor that acts, which says whether it is recurrent.
    algorithm : Algorithm
        The algorithm that learns, which owns gamma.
    """

    storage_tensors: tuple[str, ...] = ()

    def __init__(self, size: int, device: Device, actor: Actor, algorithm: Algorithm, *args: object) -> None:
        self.max_size = size
        self.device = check_device(device)
        self.actor = actor
        self.algorithm = algorithm

    @property
    def capacity(self) -> int:
        """Transitions that there is room for, of all environments and sources together."""
        return self.max_size * self.algorithm.envs.num_envs

    @property
    def num_bytes(self) -> int:
        """Bytes that the stored steps take; 0 of a storage that does not count them."""
        return 0

    def __len__(self) -> int:
        """Transitions stored, of all environments and sources together; 0 of a storage that does not count them."""
        return 0

    def __reduce__(self) -> Any:
        """Refuse to be pickled or copied."""
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: send what create_factory returns to other processes, "
            "and write contents to a folder with save_storage"
        )

    @classmethod
    @abstractmethod
    def create_factory(cls, size: int, *args: Any, **options: Any) -> "StorageFactory[Self]":
        """Return a function that creates storages of this class."""

    @abstractmethod
    def init_tensors(self, sample: Sample, *args: Any, **options: Any) -> None:
        """Plan the storage from a first sample `[num_envs, ...]`, without storing it."""

    @abstractmethod
    def insert_transition(self, sample: Sample, *args: Any, **options: Any) -> None:
        """Store one step of every env, `[num_envs, ...]`."""

    @abstractmethod
    def insert_data_slice(self, new_data: Sample, *args: Any, **options: Any) -> None:
        """Store several steps of every env, `[time, num_envs, ...]`."""

    @abstractmethod
    def get_all_buffer_data(self, data_to_cpu: bool = False, *args: Any, **options: Any) -> Batch:
        """Return all that is stored, oldest first, `[time, num_envs, ...]`."""

    # Two forms of each are documented: this class's own, and that of the storages of the library.
    if TYPE_CHECKING:

        @abstractmethod
        def before_gradients(self, *args: Any, **options: Any) -> None: ...

        @abstractmethod
        def after_gradients(self, *args: Any, **options: Any) -> Info: ...

    else:

        @abstractmethod
        def before_gradients(self, actor: Actor, algo: Algorithm, *args: Any, **options: Any) -> None:
            """Do what has to be done before gradients are computed; may also be written without parameters."""

        @abstractmethod
        def after_gradients(self, actor: Actor, algo: Algorithm, info: Info, *args: Any, **options: Any) -> Info:
            """Learn from the gradients of a batch, which follows `info`; returns `info`, extended.

            May also be written as `after_gradients(batch, info)`.
            """

    @abstractmethod
    def generate_batches(
        self, num_mini_batch: int, mini_batch_size: int, num_epochs: int = 1, *args: Any, **options: Any
    ) -> Iterator[Batch]:
        """Yield `num_epochs * num_mini_batch` batches, each made when it is asked for."""

    @abstractmethod
    def reset(self, *args: Any, **options: Any) -> None:
        """Remove what is stored."""

    @abstractmethod
    def update_storage_parameter(
        self, parameter_name: str, new_parameter_value: object, *args: Any, **options: Any
    ) -> None:
        """Change a parameter while running; an unknown name changes nothing and warns."""


def gradient_hooks(storage: StorageRole) -> tuple[Callable[[], object], Callable[[Batch, Info], Info]]:
    """What to call before the gradients of a stage, and after those of each batch.

    Both may have the parameters of `Storage`, or those of the library's storages, `()` and `(batch, info)`.
    """
    own: Any = storage  # of either form
    before, after = storage.before_gradients, storage.after_gradients
    if _takes_actor(type(own).before_gradients):
        before = partial(own.before_gradients, own.actor, own.algorithm)
    if _takes_actor(type(own).after_gradients):
        after = lambda batch, info: own.after_gradients(own.actor, own.algorithm, info, batch)  # noqa: E731
    return before, after


@cache
def _takes_actor(method: Callable[..., object]) -> bool:
    return [*inspect.signature(method).parameters][1:3] == ["actor", "algo"]


P = ParamSpec("P")
StorageT = TypeVar("StorageT", bound=Storage)


@dataclass(frozen=True)
class StorageFactory(Generic[StorageT]):
    """Creates storages of one class and configuration, here or in a worker that it was sent to.

    Examples
    --------
    >>> from recollect.agent.storages import PERBuffer
    >>> PERBuffer.create_factory(1000, n_step=3)
    StorageFactory(PERBuffer, size=1000, n_step=3)
    """

    storage_class: type[StorageT]
    config: StorageConfig

    def __call__(self, device: Device, actor: Actor, algorithm: Algorithm, envs: VectorEnvs) -> StorageT:
        """Create a storage for this actor, algorithm and these envs."""
        make: type[Any] = self.storage_class  # each class has a signature of its own
        options = {entry.name: getattr(self.config, entry.name) for entry in fields(self.config)}
        storage: StorageT = make(device=device, actor=actor, algorithm=algorithm, envs=envs, **options)
        return storage

    def __repr__(self) -> str:
        return f"StorageFactory({self.storage_class.__name__}, {self.config.summary()})"


class Creates(Generic[P]):
    """Makes a class method `create_factory` that takes the fields of a config, with their names, types and defaults.

    The config becomes the `config_class` of the storage class.
    """

    def __init__(self, config_class: Callable[P, StorageConfig]) -> None:
        self._config_class = config_class

    def __set_name__(self, owner: type[Any], name: str) -> None:
        def create_factory(cls: Any, /, *values: object, **given: object) -> StorageFactory[Any]:
            """Return a function that creates storages of this class."""
            return StorageFactory(cls, cls.config_class.of(cls.__name__, given, *values))

        first, *_ = inspect.signature(create_factory).parameters.values()
        options = inspect.signature(self._config_class).parameters.values()
        create_factory.__signature__ = inspect.Signature([first, *options])  # type: ignore[attr-defined]
        owner.config_class = self._config_class
        setattr(owner, name, classmethod(create_factory))

    def __get__(self, instance: object, owner: type[StorageT]) -> Callable[P, StorageFactory[StorageT]]:
        raise NotImplementedError  # for type checkers: the class method has taken its place
