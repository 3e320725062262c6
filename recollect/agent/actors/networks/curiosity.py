"""`RandomDistillation`: the novelty of observations, by random network distillation."""

from collections.abc import Mapping
from typing import Any, Final

import gymnasium as gym
import torch
from torch import Tensor, nn

from recollect import keys
from recollect.agent.actors.networks.features.builders import build_features
from recollect.agent.actors.networks.normalise import ObservationNormaliser, RunningMeanStd
from recollect.roles import Observation

_WIDTH: Final = 128
_NUM_OUTPUTS: Final = 64
_SMALL: Final = 1e-8


class RandomDistillation(nn.Module):
    """Novelty of observations: how badly a network predicts what a fixed random one makes of them.

    Burda et al. (2018), https://arxiv.org/abs/1810.12894. Rewards are scaled by the root mean square of all novelties
    so far instead of the deviation of their returns, so that they begin at about 1 and need nothing beside the
    weights to resume. They are added to the task's and end with the episode, where the paper has a critic of their own
    that looks beyond it. Observations are normalised from the first step on and clipped at 10 instead of 5; images are
    not normalised beyond their scale. Desired goals are not looked at: what counts is what was reached.

    Parameters
    ----------
    space : gymnasium.Space
        Observations without action masks.
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__()
        if isinstance(space, gym.spaces.Dict):
            space = gym.spaces.Dict(_without_goal(space.spaces))
        self.normaliser = ObservationNormaliser(space)
        self.novelties = RunningMeanStd((1,))
        self.target = _network(space, num_hidden=1).requires_grad_(False)
        self.predictor = _network(space, num_hidden=2)

    def novelty(self, obs: Observation) -> Tensor:
        """Mean squared error of the prediction, of observations `[rows, …]` -> `[rows, 1]`."""
        seen = self.normaliser(_without_goal(obs) if isinstance(obs, Mapping) else obs)
        with torch.no_grad():
            wanted = self.target(seen)
        errors: Tensor = self.predictor(seen) - wanted
        return errors.square().mean(-1, keepdim=True)

    @torch.no_grad()
    def forward(self, obs: Observation) -> Tensor:
        """Intrinsic rewards of having reached observations `[rows, …]` -> `[rows, 1]`."""
        running = self.novelties
        size = (running.variance * (running.count > 0) + running.mean.square()).sqrt()
        return self.novelty(obs) / torch.where(running.count > 0, size + _SMALL, 1.0).float()

    @torch.no_grad()
    def update(self, obs: Observation) -> None:
        """Take in observations `[rows, …]` that were seen in training."""
        self.normaliser.update(_without_goal(obs) if isinstance(obs, Mapping) else obs)
        self.novelties.update(self.novelty(obs))


def _without_goal(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if name != keys.DESIRED_GOAL}


def _network(space: gym.Space[Any], num_hidden: int) -> nn.Sequential:
    """A network from observations to `[rows, 64]`, with features of its own."""
    features = build_features(space)
    layers: list[nn.Module] = [features, nn.Linear(features.out_features, _WIDTH), nn.ReLU()]
    for _ in range(num_hidden - 1):
        layers += [nn.Linear(_WIDTH, _WIDTH), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(_WIDTH, _NUM_OUTPUTS))
