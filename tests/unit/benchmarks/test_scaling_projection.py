"""Projections follow from the cost of a message and of a byte."""

import pytest

from benchmarks.scaling_projection import ASYNC, SYNC, Costs, Load, efficiency, most_steps_per_s, most_workers

COSTS = Costs(message_s=0.002, byte_s=1e-9)
LOAD = Load(steps_per_message=100, bytes_per_step=10_000, step_s=0.01)  # 1 MB, so 3 ms, for every second of steps


def test_a_message_costs_its_own_and_that_of_its_bytes() -> None:
    assert COSTS.intake_s(0) == 0.002
    assert COSTS.intake_s(LOAD.num_bytes) == pytest.approx(0.003)
    assert most_steps_per_s(COSTS, LOAD) == pytest.approx(100 / 0.003)


def test_synchronous_workers_wait_for_what_all_have_sent() -> None:
    assert efficiency(COSTS, LOAD, 100, SYNC) == pytest.approx(1 / 1.3)


def test_asynchronous_workers_wait_once_the_storage_is_busy_all_the_time() -> None:
    assert efficiency(COSTS, LOAD, 100, ASYNC) == 1.0
    assert efficiency(COSTS, LOAD, 666, ASYNC) == pytest.approx(1 / 1.998)


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
@pytest.mark.parametrize("least", [0.5, 0.85, 0.99])
def test_the_most_workers_are_efficient_and_one_more_is_not(mode: str, least: float) -> None:
    most = most_workers(COSTS, LOAD, mode, least)
    assert efficiency(COSTS, LOAD, most, mode) >= least > efficiency(COSTS, LOAD, most + 1, mode)


def test_longer_messages_carry_more() -> None:
    longer = Load(1000, LOAD.bytes_per_step, LOAD.step_s)
    assert most_steps_per_s(COSTS, longer) > most_steps_per_s(COSTS, LOAD)
