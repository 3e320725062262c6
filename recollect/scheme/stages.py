"""What an update stage means for experience, and which schemes suit an algorithm.

On-policy algorithms use experience once, off-policy ones keep it.
"""

from recollect import keys
from recollect.errors import ConfigError
from recollect.roles import Algorithm, AlgorithmFactory, ComponentFactory, Storage, StorageFactory
from recollect.scheme.config import SchemeConfig


class OffPolicyStages:
    """Experience is kept until the storage is full, whoever acted.

    Attributes
    ----------
    keeps_experience : bool
        Whether what was stored is of use in later stages: it is journalled, and may come in at any time.
    """

    keeps_experience = True

    def begin(self, storage: Storage) -> None:
        """Make a storage ready for the data of the next stage: all that is stored stays."""

    def num_messages(self, num_workers: int) -> int:
        """Messages that a stage of asynchronous collection waits for: whatever has come is learned from."""
        return 1

    def has_room(self, num_stored: int, num_more: int, storage: Storage) -> bool:
        """Whether a lane that stored `num_stored` steps in this stage can store more: the oldest make room."""
        return True

    def check_config(self, config: SchemeConfig) -> None:
        """Refuse options of a scheme that such an algorithm cannot learn with: there are none."""

    def check_asynchronous(self, storage_class: type) -> None:
        """Refuse a storage that workers which act with older policies cannot fill: all can be filled."""


class OnPolicyStages(OffPolicyStages):
    """Experience of the present policy, used in one stage and dropped before the next."""

    keeps_experience = False

    def begin(self, storage: Storage) -> None:
        """Let go of what was learned from, or is left of a stage that was interrupted."""
        storage.reset()

    def num_messages(self, num_workers: int) -> int:
        """One of each worker."""
        return num_workers

    def has_room(self, num_stored: int, num_more: int, storage: Storage) -> bool:
        """Whether it fits; what is larger than the whole storage is not kept back, so that the storage refuses it."""
        return num_stored == 0 or num_stored + num_more <= storage.max_size

    def check_config(self, config: SchemeConfig) -> None:
        """Refuse a replay ratio."""
        if config.replay_ratio is not None:
            raise ConfigError(
                "an on-policy algorithm learns from what was collected since the last update stage, num_epochs times; "
                "leave replay_ratio out, or use an off-policy algorithm"
            )

    def check_asynchronous(self, storage_class: type) -> None:
        """Refuse a storage that takes all data for those of the present policy."""
        if not getattr(storage_class, "takes_older_policies", False):
            raise ConfigError(
                f"{storage_class.__name__} treats all data as coming from the present policy, but asynchronous workers "
                "act with older ones; use the storage 'vtrace', or col_mode 'sync'"
            )


def stages_of(algorithm: Algorithm | type[Algorithm]) -> OffPolicyStages:
    """How the schemes treat the experience of an algorithm, or of a class of algorithms."""
    return OnPolicyStages() if algorithm.is_on_policy else OffPolicyStages()


def check_compatibility(config: SchemeConfig, algo_factory: AlgorithmFactory, storage_factory: StorageFactory) -> None:
    """Refuse a scheme that this algorithm or this storage cannot learn in, before any worker is built."""
    algorithm = getattr(algo_factory, "algorithm_class", None)
    # What factories of the user's own make is checked when it is made.
    if algorithm is not None:
        stages = stages_of(algorithm)
        stages.check_config(config)
        storage_class = getattr(storage_factory, "storage_class", None)
        if config.col_mode == keys.ASYNC and storage_class is not None:
            stages.check_asynchronous(storage_class)
    if config.num_grad_workers:
        check_own_storage(storage_factory)


def check_own_storage(storage_factory: ComponentFactory) -> None:
    """Refuse a storage that gradient workers, each of which has one, would have in common."""
    config = getattr(storage_factory, "config", None)
    if getattr(config, "path", None) is not None:
        raise ConfigError(
            "the gradient workers cannot share one file as their storage; leave path out, or use "
            "num_grad_workers 0, which has one storage for all that is collected"
        )
