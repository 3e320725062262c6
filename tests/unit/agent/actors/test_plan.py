import pickle
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete
from torch import Tensor, nn

from recollect.agent.actors import ActorPlan, OffPolicyActor
from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.mlp.dense import EnsembleMLP
from recollect.errors import ConfigError
from tests.unit.agent.actors.actors import FLAT


@pytest.mark.parametrize(
    ("target_policy", "target_critics", "has_targets"),
    [(False, False, False), (True, False, True), (False, True, True)],
)
def test_any_target_network_counts(target_policy: bool, target_critics: bool, has_targets: bool) -> None:
    plan = ActorPlan("deterministic", "q_action", target_policy=target_policy, target_critics=target_critics)
    assert plan.has_targets is has_targets


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"policy": "gausian", "critic": "value"}, "gaussian"),
        ({"policy": "gaussian", "critic": "q_value"}, "q_values"),
        ({"policy": "gaussian", "critic": "value", "num_critics": 0}, "num_critics"),
        ({"policy": None, "critic": "value"}, "without a policy"),
        ({"policy": None, "critic": "q_values", "target_policy": True}, "without a policy"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(fields: dict[str, object], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        ActorPlan(**fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class QuantileCritics:
    """Critics that an algorithm brings: quantiles of the return of each action."""

    num_critics: int
    num_quantiles: int

    def __call__(self, num_features: int, space: Any, config: ActorConfig) -> nn.Module:
        sizes = (num_features, *config.hidden_sizes, int(space.n) * self.num_quantiles)
        return Quantiles(EnsembleMLP(self.num_critics, sizes), self.num_quantiles)


class Quantiles(nn.Module):
    def __init__(self, network: EnsembleMLP, num_quantiles: int) -> None:
        super().__init__()
        self.network, self.num_quantiles = network, num_quantiles

    def forward(self, features: Tensor) -> Tensor:
        return self.network(features).unflatten(-1, (-1, self.num_quantiles))


def test_an_algorithm_brings_networks_of_its_own() -> None:
    plan = ActorPlan(policy=None, critic=QuantileCritics(2, 25))
    sent = pickle.loads(pickle.dumps(plan))
    assert sent == plan != ActorPlan(policy=None, critic=QuantileCritics(2, 50))
    actor = OffPolicyActor.create_factory(FLAT, Discrete(4), sent, hidden_sizes=(8,))("cpu")
    for critics in (actor.critics, actor.target_critics):
        assert critics is not None
        assert critics(torch.zeros(3, 3)).shape == (2, 3, 4, 25)
    assert sum(weight.numel() for weight in actor.critic_parameters()) == 2 * (4 * 8 + 9 * 100)


def test_an_algorithm_brings_a_policy_of_its_own() -> None:
    plan = ActorPlan(policy=lambda num_features, space, config: nn.Linear(num_features, space.n), critic="q_values")
    actor = OffPolicyActor.create_factory(FLAT, Discrete(4), plan)("cpu")
    assert isinstance(actor.policy, nn.Linear)
    assert actor.policy.weight.shape == (4, 3)
