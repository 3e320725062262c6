import numpy as np
import pytest

from recollect.agent.storages.experience.kernels.power_kernels import raise_all


@pytest.mark.parametrize("exponent", [0.1, 0.4, 0.6, 1.0, 2.0])
def test_powers_are_right_to_some_units_of_the_last_place(exponent: float) -> None:
    """The more digits of the logarithm stand before the point, the fewer are left behind it."""
    magnitudes = np.random.default_rng(0).uniform(-80.0, 80.0, 10_000)
    numbers = np.concatenate([np.exp(magnitudes), [np.sqrt(0.5), np.sqrt(2.0), 1.0, 2.0, 1e6, 1e-38, 1e38]])
    expected = np.power(numbers.astype(np.longdouble), np.longdouble(exponent))
    raise_all(numbers, exponent)
    units = np.finfo(np.float64).eps * (3.0 + np.abs(np.log2(expected)))
    assert (np.abs(numbers / expected - 1.0) <= units).all()


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0, 3.0])
def test_0_stays_0_and_1_stays_1(exponent: float) -> None:
    numbers = np.array([0.0, 1.0])
    raise_all(numbers, exponent)
    assert numbers.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("exponent", [20.0, 100.0, 1e6])
def test_sums_and_ratios_of_results_are_normal_numbers(exponent: float) -> None:
    numbers = np.array([3e38, 1e-45])
    raise_all(numbers, exponent)
    assert np.isfinite(numbers[0] * 2.0**60)
    assert numbers[1] / numbers[0] >= np.finfo(np.float64).tiny


def test_powers_ascend_with_their_numbers() -> None:
    numbers = np.sort(np.random.default_rng(1).random(10_000))
    raise_all(numbers, 0.6)
    assert (np.diff(numbers) >= 0.0).all()
