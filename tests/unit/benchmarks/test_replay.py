"""The benchmark of the buffers times what it says, and its targets are about rows that exist."""

from itertools import pairwise

from benchmarks import peers
from benchmarks.targets import TARGETS
from benchmarks.workloads import FULL, OURS, QUICK, Sizes, footprints, workloads


def test_targets_are_about_rows_that_exist() -> None:
    rows = {row.key for row in (*workloads(FULL), *footprints(FULL))}
    assert {target.workload for target in TARGETS} <= rows


def test_groups_are_neighbours() -> None:
    groups = [workload.group for workload in workloads(QUICK)]
    assert sum(one != other for one, other in pairwise(groups)) == len(set(groups)) - 1


def test_the_loops_on_cartpole_run_with_ours() -> None:
    for workload in workloads(Sizes(small_steps=300)):
        if workload.store.is_small:
            adapter = peers.load(OURS)(workload.store)
            adapter.fill()
            call = adapter.operation(workload)
            batches = [call() for _ in range(20)]
            assert len(adapter.buffer) == 300
            if workload.operation == "train":
                assert {adapter.num_rows(batch) for batch in batches} == {workload.batch_size}
