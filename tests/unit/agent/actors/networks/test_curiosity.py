"""Random network distillation: what it finds new, and the scale of its rewards."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from torch.nn import functional

from recollect import keys
from recollect.agent.actors.networks.curiosity import RandomDistillation

SPACE = Box(-5.0, 5.0, (3,), np.float32)


def draw(num: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(num, 3, generator=torch.Generator().manual_seed(seed))


def by_hand(curiosity: RandomDistillation, obs: torch.Tensor) -> torch.Tensor:
    """Novelty, one layer after the other."""
    running = curiosity.normaliser.running
    assert running is not None
    seen = ((obs - running.mean) / (running.variance + 1e-8).sqrt()).float().clip(-10.0, 10.0)
    outputs = []
    for network in (curiosity.target, curiosity.predictor):
        hidden, layers = seen, [part for part in network if isinstance(part, torch.nn.Linear)]
        for layer in layers[:-1]:
            hidden = functional.relu(functional.linear(hidden, layer.weight, layer.bias))
        outputs.append(functional.linear(hidden, layers[-1].weight, layers[-1].bias))
    return ((outputs[1] - outputs[0]) ** 2).mean(-1, keepdim=True)


def test_novelty_is_the_error_of_the_prediction_of_normalised_observations() -> None:
    curiosity = RandomDistillation(SPACE)
    curiosity.update(3.0 + 2.0 * draw(50))
    obs = draw(7, seed=1)
    torch.testing.assert_close(curiosity.novelty(obs), by_hand(curiosity, obs))


def test_rewards_are_relative_to_the_root_mean_square_of_all_novelties() -> None:
    curiosity = RandomDistillation(SPACE)
    obs = draw(5, seed=1)
    torch.testing.assert_close(curiosity(obs), curiosity.novelty(obs))
    novelties = []
    for seed in (2, 3):
        curiosity.update(draw(20, seed))
        novelties.append(curiosity.novelty(draw(20, seed)).detach())
    size = torch.cat(novelties).square().mean().sqrt()
    torch.testing.assert_close(curiosity(obs), by_hand(curiosity, obs) / size, rtol=1e-4, atol=1e-6)


def test_a_single_first_step_is_worth_one() -> None:
    curiosity = RandomDistillation(SPACE)
    first = draw(1)
    curiosity.update(first)
    assert curiosity(first).item() == pytest.approx(1.0, rel=1e-4)


def test_what_is_learned_is_less_new_than_the_rest() -> None:
    curiosity = RandomDistillation(SPACE)
    known, other = draw(64), draw(64, seed=1) + 4.0
    optimiser = torch.optim.Adam(curiosity.predictor.parameters(), 1e-3)
    fixed = [weight.clone() for weight in curiosity.target.parameters()]
    assert not any(weight.requires_grad for weight in curiosity.target.parameters())
    for _ in range(50):
        optimiser.zero_grad()
        curiosity.novelty(known).mean().backward()
        optimiser.step()
    assert curiosity.novelty(known).mean() < 0.5 * curiosity.novelty(other).mean()
    assert all(torch.equal(*pair) for pair in zip(fixed, curiosity.target.parameters(), strict=True))


def test_desired_goals_are_not_looked_at() -> None:
    parts = {"observation": SPACE, keys.ACHIEVED_GOAL: SPACE, keys.DESIRED_GOAL: SPACE}
    curiosity = RandomDistillation(Dict(parts))
    obs = {name: draw(4, seed) for seed, name in enumerate(parts)}
    moved = {**obs, keys.DESIRED_GOAL: draw(4, seed=9)}
    assert torch.equal(curiosity.novelty(obs), curiosity.novelty(moved))
    moved = {**obs, keys.ACHIEVED_GOAL: draw(4, seed=9)}
    assert not torch.equal(curiosity.novelty(obs), curiosity.novelty(moved))
