"""`SchemeConfig`: which workers there are, where they run and how they work together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recollect import keys
from recollect.errors import ConfigError
from recollect.options import Options, count, count_or_zero, flag, number, one_of, option, optional
from recollect.scheme.base.resources import DEFAULT, PLACEMENTS
from recollect.scheme.base.supervision import Supervision


def _resources(name: str, value: object) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a dict such as {{'num_cpus': 1}}, got {value!r}")
    return dict(value)


@dataclass(frozen=True, kw_only=True)
class SchemeConfig(Options):
    """Options of a scheme. Without remote workers everything runs in this process, and Ray is not imported."""

    num_col_workers: int = option(
        0, "Remote workers that collect, for each worker that computes gradients; 0 collects there", count_or_zero
    )
    col_mode: str = option(
        keys.SYNC,
        "Whether collecting workers wait for each other and for updates: sync or async",
        one_of(keys.SYNC, keys.ASYNC),
    )
    num_grad_workers: int = option(
        0, "Remote workers that compute gradients; 0 computes them in this process", count_or_zero
    )
    grad_mode: str = option(
        keys.SYNC,
        "Whether gradients of all workers are averaged, or applied as they come: sync or async",
        one_of(keys.SYNC, keys.ASYNC),
    )
    update_mode: str = option(
        keys.CENTRAL,
        "Where updates are applied: central, or decentralised in every gradient worker after an all-reduce",
        one_of(keys.CENTRAL, keys.DECENTRALISED),
    )
    fraction_samples: float = option(
        1.0, "Share of its steps that a slow collecting worker must have before it may be stopped", number(0.0, 1.0)
    )
    fraction_workers: float = option(
        1.0,
        "Share of collecting workers that must have finished before the slow ones are stopped",
        number(0.0, 1.0, above_low=True),
    )
    compress: bool = option(False, "Compress what collecting workers send; pays between machines", flag)
    col_resources: Mapping[str, Any] | None = option(
        None, "Ray resources of a collecting worker; by default what the cluster has", _resources
    )
    grad_resources: Mapping[str, Any] | None = option(
        None, "Ray resources of a gradient worker; by default what the cluster has", _resources
    )
    ray_address: str | None = option(None, "Address of a Ray cluster to join, or 'auto'; by default one is started")
    runtime_env: Mapping[str, Any] | None = option(
        None, "Ray runtime environment of the workers: your own modules, packages, variables", _resources
    )
    placement: str = option(
        DEFAULT,
        "Where workers go: Ray's own choice (DEFAULT), or as many nodes as there are (SPREAD)",
        one_of(*PLACEMENTS),
    )
    journal_folder: str | None = option(
        None, "Where gradient workers note what they store, in case they are killed; best a folder that all nodes share"
    )
    max_policy_lag: int | None = option(
        None,
        "Most versions, one per update stage, that the acting policy may be behind the learned one, and most updates "
        "that the weights of an asynchronous gradient may be; the learner waits",
        optional(count),
    )
    replay_ratio: float | None = option(
        None,
        "Updates of the weights per step that any worker collects; by default the algorithm's own after each stage",
        optional(number(0.0, above_low=True)),
    )
    overlap: bool | None = option(
        None,
        "Whether one process steps its environments beside off-policy updates, in a thread; the results are the same, "
        "and by default it does where that is faster",
        optional(flag),
    )
    elastic: bool | None = option(
        None,
        "Whether synchronous collecting workers act as one, so that the same environments give the same run however "
        "many workers hold them; by default with vectors as observations and up to 256 environments",
        optional(flag),
    )
    worker_timeout_s: float = option(
        Supervision.timeout_s,
        "Seconds without a step after which a worker counts as hung and is restarted",
        number(0.0, above_low=True),
    )
    max_restarts: int = option(
        Supervision.max_restarts,
        "Restarts of workers allowed within restart_window_s before the run ends",
        count_or_zero,
    )
    restart_window_s: float = option(
        Supervision.window_s, "Seconds over which restarts are counted", number(0.0, above_low=True)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update_mode == keys.DECENTRALISED:
            self._check_decentralised()
        if self.col_mode == keys.ASYNC and self.num_col_workers == 0:
            raise ConfigError("asynchronous collection needs remote workers; use num_col_workers, or col_mode 'sync'")
        if self.grad_mode == keys.ASYNC and self.num_grad_workers == 0:
            raise ConfigError("asynchronous gradients need remote workers; use num_grad_workers, or grad_mode 'sync'")
        # Gradients of workers that begin together are applied one after the other.
        least = self.num_grad_workers - 1
        if self.grad_mode == keys.ASYNC and self.max_policy_lag is not None and self.max_policy_lag < least:
            raise ConfigError(
                f"gradients of {self.num_grad_workers} asynchronous workers are up to {least} updates behind, "
                f"got max_policy_lag {self.max_policy_lag}; use at least {least}, or grad_mode 'sync'"
            )

    @property
    def is_remote(self) -> bool:
        """Whether there are remote workers."""
        return bool(self.num_col_workers or self.num_grad_workers)

    @property
    def supervision(self) -> Supervision:
        """When workers count as hung, and how often they may be restarted."""
        return Supervision(
            timeout_s=self.worker_timeout_s, max_restarts=self.max_restarts, window_s=self.restart_window_s
        )

    def _check_decentralised(self) -> None:
        if self.num_grad_workers < 2:
            raise ConfigError(
                f"decentralised updates need at least 2 gradient workers, got {self.num_grad_workers}; "
                "use update_mode 'central'"
            )
        if self.grad_mode == keys.ASYNC:
            raise ConfigError(
                "decentralised updates average the gradients of all workers, so they cannot be asynchronous; "
                "use grad_mode 'sync', or update_mode 'central'"
            )
