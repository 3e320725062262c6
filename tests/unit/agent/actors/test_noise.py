import pytest
import torch
from torch import Generator

from recollect.agent.actors import GaussianNoise, OUNoise
from recollect.errors import ConfigError, StorageError

MIDWAY = torch.zeros(1, 1)


def test_gaussian_noise_has_its_deviation() -> None:
    noisy = GaussianNoise(0.1).add_to(torch.zeros(50_000, 2), MIDWAY, Generator().manual_seed(0))
    assert noisy.std().item() == pytest.approx(0.1, rel=0.02)
    assert abs(noisy.mean().item()) < 0.002


@pytest.mark.parametrize("noise", [GaussianNoise(5.0), OUNoise(5.0)])
def test_noisy_actions_stay_in_policy_units(noise: GaussianNoise | OUNoise) -> None:
    noisy = noise.add_to(torch.zeros(1000, 2), MIDWAY, Generator().manual_seed(0))
    assert noisy.abs().max() == 1.0


def test_drifting_noise_follows_its_equation() -> None:
    noise, action = OUNoise(std=0.1, theta=0.2), torch.zeros(3, 2)
    generator, pushes = Generator().manual_seed(0), Generator().manual_seed(0)
    drift = torch.zeros(3, 2)
    for _ in range(5):
        drift = 0.8 * drift + 0.1 * torch.empty(3, 2).normal_(generator=pushes)
        torch.testing.assert_close(noise.add_to(action, MIDWAY, generator), drift)


def test_drifting_noise_restarts_with_an_episode() -> None:
    noise, action = OUNoise(std=0.1), torch.zeros(2, 1)
    noise.add_to(action, torch.ones(2, 1), Generator().manual_seed(0))
    second = noise.add_to(action, torch.tensor([[1.0], [0.0]]), Generator().manual_seed(1))
    fresh = OUNoise(std=0.1).add_to(action, torch.ones(2, 1), Generator().manual_seed(1))
    assert second[0] == fresh[0]
    assert second[1] != fresh[1]


def test_noise_takes_any_number_of_envs() -> None:
    noise = OUNoise()
    for num_envs in (2, 5):
        done = torch.ones(num_envs, 1)
        assert noise.add_to(torch.zeros(num_envs, 3), done, Generator()).shape == (num_envs, 3)


@pytest.mark.parametrize(("maker", "options"), [(GaussianNoise, {"std": -0.1}), (OUNoise, {"theta": 1.5})])
def test_noise_that_cannot_be_is_refused(maker: type, options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        maker(**options)


@pytest.mark.parametrize(
    "drift", [torch.zeros(2), torch.zeros(2, 1, dtype=torch.float64), torch.full((2, 1), torch.nan), [[1, 2]]]
)
def test_what_no_noise_can_have_been_is_refused(drift: object) -> None:
    noise = OUNoise()
    with pytest.raises(StorageError, match="drifting noise"):
        noise.load_drift(drift, torch.device("cpu"))
    assert noise.drift is None
