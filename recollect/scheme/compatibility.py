"""Which combinations of collection, gradients, updates, algorithm and storage make sense."""

from collections.abc import Callable
from typing import Any

from recollect import keys
from recollect.errors import ConfigError
from recollect.scheme.config import SchemeConfig

Factory = Callable[..., Any]


def check_compatibility(config: SchemeConfig, algo_factory: Factory, storage_factory: Factory) -> None:
    """Refuse a scheme that this algorithm or this storage cannot learn in, before any worker is built."""
    algorithm = getattr(algo_factory, "algorithm_class", None)
    is_on_policy = bool(getattr(algorithm, "is_on_policy", False))
    _check_lag(config)
    if is_on_policy:
        _check_on_policy(config, getattr(storage_factory, "storage_class", None))
    if config.num_grad_workers:
        check_own_storage(storage_factory)


def check_own_storage(storage_factory: Factory) -> None:
    """Refuse a storage that gradient workers, each of which has one, would have in common."""
    if getattr(storage_factory, "parameters", {}).get("path") is not None:
        raise ConfigError(
            "the gradient workers cannot share one file as their storage; leave path out, or use "
            "num_grad_workers 0, which has one storage for all that is collected"
        )


def check_older_policies(storage_class: Any) -> None:
    """Refuse an on-policy storage that asynchronous workers, which act with older policies, cannot fill."""
    if not getattr(storage_class, "takes_older_policies", False):
        raise ConfigError(
            f"{storage_class.__name__} treats all data as coming from the present policy, but asynchronous workers act "
            "with older ones; use the storage 'vtrace', or col_mode 'sync'"
        )


def _check_lag(config: SchemeConfig) -> None:
    """Gradients of workers that begin together are applied one after the other."""
    smallest = config.num_grad_workers - 1
    if config.grad_mode == keys.ASYNC and config.max_policy_lag is not None and config.max_policy_lag < smallest:
        raise ConfigError(
            f"gradients of {config.num_grad_workers} asynchronous workers are up to {smallest} updates behind, "
            f"got max_policy_lag {config.max_policy_lag}; use at least {smallest}, or grad_mode 'sync'"
        )


def _check_on_policy(config: SchemeConfig, storage_class: Any) -> None:
    # What a factory of the user's own makes is looked at when it is made.
    if config.col_mode == keys.ASYNC and storage_class is not None:
        check_older_policies(storage_class)
    if config.replay_ratio is not None:
        raise ConfigError(
            "an on-policy algorithm learns from what was collected since the last update stage, num_epochs times; "
            "leave replay_ratio out, or use an off-policy algorithm"
        )
