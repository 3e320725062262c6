"""What policy and critics share: features of the observation, and the memory."""

from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.features.augment import RandomShift
from recollect.agent.actors.networks.features.builders import FlatFeatures
from recollect.agent.actors.networks.memory import Memory, StepwiseMemory, build_memory
from recollect.agent.actors.networks.mlp.dense import MLP
from recollect.agent.actors.spaces import first_observations, map_observation
from recollect.agent.registry import FEATURES
from recollect.errors import ConfigError, OwnPart
from recollect.roles import Observation


class Body(nn.Module):
    """Observations to features, through shared layers and a memory where the config asks for them."""

    memory: Memory | StepwiseMemory | None

    def __init__(self, space: gym.Space[Any], config: ActorConfig) -> None:
        super().__init__()
        self.features = _features_of(space, config)
        self.shift = RandomShift(space, config.random_shift) if config.random_shift else None
        sizes = (self.features.out_features, *config.feature_sizes)
        self.layers = MLP(sizes, activation=config.activation, activate_output=True) if config.feature_sizes else None
        self.memory = build_memory(config, sizes[-1])
        self.out_features: int = sizes[-1] if self.memory is None else self.memory.out_features
        has_parts = any(part is not None for part in (self.shift, self.layers, self.memory))
        # Whether rows of numbers are features as they are.
        self.is_bare = type(self.features) is FlatFeatures and not has_parts

    def passes_through(self, obs: Observation) -> bool:
        """Whether observations are features as they are, so that nothing needs to be called."""
        return self.is_bare and type(obs) is Tensor and obs.dtype is torch.float32 and obs.dim() == 2

    def forward(self, obs: Observation, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """One step: features `[batch, out_features]`, and the state after it."""
        features = self._encode(obs if self.shift is None else self.shift(obs))
        return (features, state) if self.memory is None else self.memory(features, state, done)

    def unroll(self, obs: Observation, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """All steps of sequences: features `[num_seq, length, out_features]`, and the state after each."""
        num_seq, length = done.shape[:2]
        shifted = obs if self.shift is None else self.shift.shift_sequences(obs)
        flat = self._encode(map_observation(lambda part: part.flatten(0, 1), shifted))
        features = flat.view(num_seq, length, -1)
        if self.memory is None:
            return features, state.unsqueeze(1).expand(-1, length, -1)
        return self.memory.unroll(features, state, done)

    def _encode(self, obs: Observation) -> Tensor:
        features: Tensor = self.features(obs)
        if self.layers is not None:
            features = self.layers(features)
        return features


def _features_of(space: gym.Space[Any], config: ActorConfig) -> Any:
    build = FEATURES.find(config.features) if isinstance(config.features, str) else config.features
    with OwnPart("features must be made of an observation space"):
        features = build(space)
    if not isinstance(features, nn.Module) or not isinstance(getattr(features, "out_features", None), int):
        raise ConfigError(
            f"features must return a module with `out_features`, how many numbers it gives per row, got {features!r}"
        )
    _check_width(features.eval(), space)
    return features


@torch.no_grad()
def _check_width(features: Any, space: gym.Space[Any]) -> None:
    """Refuse features of the user's own that do not give what they say, by two observations of zeros."""
    obs = first_observations(space, 2)
    with torch.random.fork_rng(devices=[]), OwnPart(f"features must take observations of {space}"):
        given = features(obs)
    expected = (2, features.out_features)
    if not isinstance(given, Tensor) or given.shape != expected:
        found = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise ConfigError(
            f"features say out_features={features.out_features}, and make {found} of two observations, expected "
            f"{expected}; set out_features to the width of what `forward` returns, one row for each observation"
        )
