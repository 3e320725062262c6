"""Which combinations of collection, gradients, updates, algorithm and storage make sense."""

from recollect import keys
from recollect.errors import ConfigError
from recollect.roles import AlgorithmFactory, ComponentFactory, StorageFactory
from recollect.scheme.config import SchemeConfig
from recollect.scheme.stages import stages_of


def check_compatibility(config: SchemeConfig, algo_factory: AlgorithmFactory, storage_factory: StorageFactory) -> None:
    """Refuse a scheme that this algorithm or this storage cannot learn in, before any worker is built."""
    _check_lag(config)
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


def _check_lag(config: SchemeConfig) -> None:
    """Gradients of workers that begin together are applied one after the other."""
    smallest = config.num_grad_workers - 1
    if config.grad_mode == keys.ASYNC and config.max_policy_lag is not None and config.max_policy_lag < smallest:
        raise ConfigError(
            f"gradients of {config.num_grad_workers} asynchronous workers are up to {smallest} updates behind, "
            f"got max_policy_lag {config.max_policy_lag}; use at least {smallest}, or grad_mode 'sync'"
        )
