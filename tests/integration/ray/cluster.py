"""A Ray cluster in this machine, for tests."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray

ROOT = Path(__file__).parents[3]


@contextmanager
def running_cluster(num_threads: int = 1) -> Iterator[Any]:
    """A cluster whose node says that it has more cores than there are, because its workers mostly wait.

    Ray makes workers give way to all other processes, so that beside other tests they would hardly ever run.
    """
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        # Inherited by all workers. As a runtime environment, processes that Ray keeps ready could not be used.
        patch.setenv("OMP_NUM_THREADS", str(num_threads))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
        patch.setenv("RAY_worker_niceness", "0")
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 8, "include_dashboard": False, "object_store_memory": 256 * 1024**2},
        )
        ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        yield cluster
        ray.shutdown()
        cluster.shutdown()
