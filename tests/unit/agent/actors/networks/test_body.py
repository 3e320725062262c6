from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.body import Body
from recollect.errors import ConfigError

FLAT = Box(-1, 1, (3,))
NESTED = Dict({"x": FLAT, "deep": Dict({"y": Box(-1, 1, (2, 2))})})
NUM_SEQ, LENGTH = 2, 4


class _Doubled(nn.Module):
    def __init__(self, space: Any) -> None:
        super().__init__()
        self.out_features = space.shape[0]
        self.factor = nn.Parameter(torch.tensor(2.0))

    def forward(self, obs: Tensor) -> Tensor:
        return obs * self.factor


def _sequences(space: Any) -> Any:
    if isinstance(space, Dict):
        return {name: _sequences(part) for name, part in space.spaces.items()}
    return torch.randn(NUM_SEQ, LENGTH, *space.shape)


def _at(obs: Any, step: int) -> Any:
    return {name: _at(part, step) for name, part in obs.items()} if isinstance(obs, dict) else obs[:, step]


def test_a_body_of_flat_observations_has_no_weights() -> None:
    body, obs, state = Body(FLAT, ActorConfig()), torch.randn(5, 3), torch.zeros(5, 1)
    features, after = body(obs, state, torch.ones(5, 1))
    assert list(body.parameters()) == []
    assert torch.equal(features, obs)
    assert after is state


class Trace(torch.nn.Module):
    """A memory of the user's own: a decaying sum of what it has seen, three times as wide as its output."""

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__()
        self.take = torch.nn.Linear(num_features, 3 * size)
        self.out_features, self.state_size = size, 3 * size

    def forward(self, features: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = 0.5 * state + self.take(features).tanh()
        return state[:, : self.out_features], state


@pytest.mark.parametrize(
    "options", [{}, {"feature_sizes": (6,)}, {"memory": "gru"}, {"memory": "lstm"}, {"memory": Trace}]
)
@pytest.mark.parametrize("space", [FLAT, NESTED])
def test_sequences_give_what_single_steps_give(space: Any, options: dict[str, Any]) -> None:
    config = ActorConfig(memory_size=5, **options)
    body, obs = Body(space, config), _sequences(space)
    state = torch.randn(NUM_SEQ, 1 if body.memory is None else body.memory.state_size)
    done = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0]]).unsqueeze(-1)
    features, states = body.unroll(obs, state, done)
    assert features.shape == (NUM_SEQ, LENGTH, body.out_features)
    for step in range(LENGTH):
        expected, state = body(_at(obs, step), state, done[:, step])
        torch.testing.assert_close(features[:, step], expected)
        torch.testing.assert_close(states[:, step], state)


def test_shared_layers_stand_before_the_memory() -> None:
    body = Body(FLAT, ActorConfig(feature_sizes=(7, 6), memory="gru", memory_size=5))
    assert body.memory is not None
    assert body.memory.net.input_size == 6
    assert body.out_features == 5


def test_a_user_may_build_the_features() -> None:
    body = Body(FLAT, ActorConfig(features=_Doubled))
    features, _ = body(torch.ones(2, 3), torch.zeros(2, 1), torch.ones(2, 1))
    assert features.tolist() == [[2.0] * 3] * 2


def test_features_have_to_say_how_many_they_are() -> None:
    with pytest.raises(ConfigError, match="out_features"):
        Body(FLAT, ActorConfig(features=lambda space: nn.Identity()))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.Linear(3, 5),
            r"out_features=4, and make \(2, 5\) of two observations, expected \(2, 4\); set out_features",
        ),
        (nn.Flatten(0), r"out_features=4, and make \(6,\) of two observations, expected \(2, 4\)"),
    ],
)
def test_features_have_to_be_as_many_as_they_say(module: nn.Module, message: str) -> None:
    module.out_features = 4  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=message):
        Body(FLAT, ActorConfig(features=lambda space: module))


def test_the_trial_of_features_draws_no_numbers_that_weights_are_drawn_from() -> None:
    class Noisy(_Doubled):
        def forward(self, obs: Any) -> Any:
            return super().forward(obs) + torch.rand(())

    before = torch.random.get_rng_state()
    Body(FLAT, ActorConfig(features=Noisy))
    assert torch.equal(torch.random.get_rng_state(), before)
