"""One Ray cluster for all tests of this folder: it takes its time to start."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ray.cluster import running_cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder in one process, where processes share the tests."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    with running_cluster() as cluster:
        yield cluster
