"""Actors for the two families of algorithms."""

import math
from typing import ClassVar

from torch import nn

from recollect.agent.actors.base import Actor
from recollect.agent.actors.networks.features.images import ConvolutionalFeatures
from recollect.agent.actors.networks.mlp.composed import ComposedNetwork
from recollect.agent.actors.networks.mlp.dense import EnsembleMLP


class OffPolicyActor(Actor):
    """Actor for algorithms that learn from a replay storage. Policies act in [-1, 1].

    Examples
    --------
    >>> from gymnasium.spaces import Box
    >>> from recollect.agent.actors import ActorPlan
    >>> plan = ActorPlan(policy="deterministic", critic="q_action", num_critics=2, target_policy=True)
    >>> factory = OffPolicyActor.create_factory(Box(-1, 1, (3,)), Box(-2, 2, (1,)), plan, hidden_sizes=(64, 64))
    >>> actor = factory("cpu")
    >>> actor.to_env(actor.random_actions(5)).shape
    torch.Size([5, 1])
    """

    rescale_actions: ClassVar[bool] = True


class OnPolicyActor(Actor):
    """Actor for algorithms that learn from what they just did. Policies act in the environment's units.

    Weights are orthogonal at first, and those of the policy's output small: Andrychowicz et al. (2020),
    arXiv 2006.05990.

    Examples
    --------
    >>> from gymnasium.spaces import Box, Discrete
    >>> from recollect.agent.actors import ActorPlan
    >>> plan = ActorPlan(policy="categorical", critic="value", target_critics=False)
    >>> OnPolicyActor.create_factory(Box(-1, 1, (4,)), Discrete(2), plan)("cpu").is_recurrent
    False
    """

    rescale_actions: ClassVar[bool] = False

    def _initialise(self) -> None:
        for network, output_gain in ((self.body, math.sqrt(2)), (self.critics, 1.0), (self.policy, 0.01)):
            _orthogonalise(network, output_gain)


def _orthogonalise(network: nn.Module | None, output_gain: float) -> None:
    """Have our own networks in a module drawn orthogonally; those of the user stay as they were made."""
    for part in network.modules() if network is not None else ():
        if isinstance(part, (EnsembleMLP, ComposedNetwork)):
            part.orthogonalise(output_gain)
        elif isinstance(part, ConvolutionalFeatures):
            part.orthogonalise()
