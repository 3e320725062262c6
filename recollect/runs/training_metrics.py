"""Metrics of a training: what its workers, gradients, updates and evaluations report, by the names in `metrics`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recollect import keys, metrics
from recollect.scheme.collection.collectors.reports import gradient_worker_metrics, worker_metrics
from recollect.scheme.collection.worker.evaluation import Evaluation
from recollect.scheme.gradients.status import GradientReport
from recollect.scheme.scheme import Scheme


def scheme_metrics(scheme: Scheme) -> dict[str, float | None]:
    """Metrics of episodes, the storage, workers, gradients and updates; None where nothing is known yet."""
    status = scheme.status()
    episodes = status.episodes
    return {
        metrics.EPISODES: episodes.num_episodes,
        metrics.TRAIN_RETURN: episodes.mean_return,
        metrics.TRAIN_LENGTH: episodes.mean_length,
        metrics.TRAIN_SUCCESS: episodes.success_rate,
        metrics.STORAGE_SIZE: status.num_stored,
        metrics.STORAGE_CAPACITY: status.capacity,
        metrics.STORAGE_BYTES: status.num_bytes,
        metrics.ENV_FAILURES: status.num_env_failures,
        **worker_metrics(status.reports),
        **_gradient_metrics(scheme.gradients.report()),
        **_update_metrics(scheme.update_worker.recent_updates),
    }


def evaluation_metrics(evaluation: Evaluation | None) -> dict[str, float | None]:
    """Metrics of an evaluation; empty before the first one."""
    if evaluation is None:
        return {}
    return {
        metrics.EVAL_RETURN: evaluation.mean,
        metrics.EVAL_STANDARD_ERROR: evaluation.standard_error,
        metrics.EVAL_LENGTH: float(np.mean(evaluation.lengths)),
        metrics.EVAL_SUCCESS: evaluation.success_rate,
        metrics.EVAL_EPISODES: len(evaluation.returns),
    }


def _gradient_metrics(report: GradientReport) -> dict[str, float | None]:
    """Metrics of remote gradient workers; empty without any."""
    if not report.num_workers:
        return {}
    return {
        metrics.GRADIENT_WORKERS: report.num_workers,
        metrics.GRADIENT_WORKERS_ALIVE: sum(worker.is_alive for worker in report.reports),
        metrics.GRADIENT_RESTARTS: report.num_restarts,
        metrics.ASYNCHRONY: float(np.mean(report.lags)) if report.lags else None,
        metrics.ASYNCHRONY_MAX: max(report.lags, default=None),
        **gradient_worker_metrics(report.reports),
    }


def _update_metrics(updates: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Means over recent updates of the numbers that algorithm and storage report."""
    values: dict[str, list[float]] = {}
    for info in updates:
        for part, prefix in ((keys.ALGORITHM, metrics.ALGORITHM_PREFIX), (keys.STORAGE, metrics.STORAGE_PREFIX)):
            for name, value in info.get(part, {}).items():
                if name != keys.ERRORS:
                    values.setdefault(prefix + name, []).append(float(value))
    return {name: float(np.mean(numbers)) for name, numbers in values.items()}
