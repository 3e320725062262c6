import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.agent.actors.networks.normalise import ObservationNormaliser, RewardNormaliser, RunningMeanStd
from recollect.errors import StorageError

FLOATS = Box(-np.inf, np.inf, (2,), np.float32)


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(0, 7), min_size=1, max_size=8), seed=st.integers(0, 1000))
def test_mean_and_variance_are_those_of_all_rows(sizes: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = [random.normal(100.0, 3.0, (size, 2)) for size in sizes]
    running = RunningMeanStd((2,))
    for part in parts:
        running.update(torch.from_numpy(part))
    rows = np.concatenate(parts)
    assert running.count.item() == len(rows)
    if len(rows):
        np.testing.assert_allclose(running.mean, rows.mean(0), rtol=1e-10)
        np.testing.assert_allclose(running.variance, rows.var(0), rtol=1e-8, atol=1e-9)


def test_observations_get_mean_0_and_deviation_1() -> None:
    rows = torch.randn(1000, 2) * torch.tensor([5.0, 0.1]) + torch.tensor([3.0, -7.0])
    normaliser = ObservationNormaliser(FLOATS)
    normaliser.update(rows)
    scaled = normaliser(rows)
    assert scaled.dtype == torch.float32
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(scaled.std(0, unbiased=False), 1, atol=1e-4)


def test_far_observations_are_clipped() -> None:
    normaliser = ObservationNormaliser(FLOATS)
    normaliser.update(torch.randn(100, 2))
    assert normaliser(torch.tensor([[1e6, -1e6]])).tolist() == [[10.0, -10.0]]


def test_before_the_first_observation_nothing_changes() -> None:
    obs = torch.tensor([[1.0, -2.0]])
    torch.testing.assert_close(ObservationNormaliser(FLOATS)(obs), obs)


def test_sequences_are_scaled_as_rows_are() -> None:
    normaliser = ObservationNormaliser(FLOATS)
    rows = torch.randn(12, 2)
    normaliser.update(rows)
    assert torch.equal(normaliser(rows.view(3, 4, 2)).view(12, 2), normaliser(rows))


def test_each_part_of_a_dict_has_statistics_and_bytes_pass_unchanged() -> None:
    space = Dict({"image": Box(0, 255, (3,), np.uint8), "deep": Dict({"x": FLOATS, "n": Discrete(3)})})
    normaliser = ObservationNormaliser(space)
    obs = {
        "image": torch.randint(0, 256, (50, 3), dtype=torch.uint8),
        "deep": {"x": torch.randn(50, 2) * 9 + 4, "n": torch.randint(0, 3, (50,))},
    }
    normaliser.update(obs)
    scaled = normaliser(obs)
    assert torch.equal(scaled["image"], obs["image"])
    assert torch.equal(scaled["deep"]["n"], obs["deep"]["n"])
    np.testing.assert_allclose(scaled["deep"]["x"].mean(0), 0, atol=1e-4)
    assert {name.split(".")[-1] for name in normaliser.state_dict()} == {"count", "mean", "variance"}
    assert len(normaliser.state_dict()) == 3


def test_rewards_are_scaled_by_the_deviation_of_discounted_returns() -> None:
    random, gamma = np.random.default_rng(0), 0.9
    rewards, ends = random.normal(2.0, 5.0, (40, 3, 1)), random.random((40, 3, 1)) < 0.1
    normaliser = RewardNormaliser()
    returns, running = [], np.zeros((3, 1))
    for reward, end in zip(rewards, ends, strict=True):
        normaliser.update(torch.from_numpy(reward), torch.from_numpy(end), gamma)
        running = running * gamma + reward
        returns.append(running)
        running = np.where(end, 0.0, running)
    scaled = normaliser(torch.ones(4, 1))
    np.testing.assert_allclose(scaled, 1 / np.std(returns), rtol=1e-5)
    assert scaled.dtype == torch.float32


def test_returns_of_separate_sources_do_not_mix() -> None:
    ends = torch.zeros(1, 1)
    normaliser = RewardNormaliser()
    for _ in range(3):
        normaliser.update(torch.ones(1, 1), ends, 1.0, source="a")
        normaliser.update(torch.full((1, 1), 10.0), ends, 1.0, source="b")
    np.testing.assert_allclose(normaliser.running.mean, np.mean([1, 2, 3, 10, 20, 30]))


@pytest.mark.parametrize(
    "returns",
    [torch.zeros(2, 1), torch.zeros(3, 1, dtype=torch.float64), torch.full((2, 1), np.nan, dtype=torch.float64), "x"],
)
def test_returns_of_another_form_are_refused(returns: object) -> None:
    normaliser = RewardNormaliser()
    with pytest.raises((StorageError, TypeError)):
        normaliser.load_episodes({"returns": returns}, 2)
    assert normaliser.episodes_state() == {}


def test_new_episodes_begin_with_returns_of_0() -> None:
    normaliser, ends = RewardNormaliser(), torch.zeros(1, 1)
    normaliser.update(torch.full((1, 1), 10.0), ends, 1.0)
    normaliser.load_episodes({}, 1)
    normaliser.update(torch.full((1, 1), 2.0), ends, 1.0)
    np.testing.assert_allclose(normaliser.running.mean, 6.0)
