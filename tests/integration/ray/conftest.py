"""One Ray cluster for all tests of this folder: it takes its time to start."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder in one process, where processes share the tests."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A cluster whose node says that it has more cores than there are, because its workers mostly wait.

    Ray makes workers give way to all other processes, so that beside other tests they would hardly ever run.
    """
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        # Inherited by all workers. As a runtime environment, processes that Ray keeps ready could not be used.
        patch.setenv("OMP_NUM_THREADS", "1")
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
