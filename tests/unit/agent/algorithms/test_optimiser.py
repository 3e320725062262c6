from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from recollect.agent.actors import ActorPlan
from recollect.agent.algorithms.config import AlgorithmConfig
from recollect.agent.algorithms.optimiser import OPTIMISERS, GroupedOptimiser, ParameterGroup
from recollect.errors import ConfigError, StorageError


@dataclass(frozen=True, kw_only=True)
class TwoRates(AlgorithmConfig):
    fast: float = 1e-1
    slow: float = 1e-3

    def plan(self, action_space: object) -> ActorPlan:
        return ActorPlan(None, "q_values")


def make_parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 2), (2,), ())]


def make_optimiser(parameters: list[nn.Parameter], epsilon: float = 1e-8, **options: Any) -> GroupedOptimiser:
    groups = [
        ParameterGroup("weights", parameters[:2], "fast"),
        ParameterGroup("number", parameters[2:], "slow", decays=False),
    ]
    return GroupedOptimiser(groups, TwoRates(**options), epsilon)


def set_gradients(parameters: list[nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


KEYWORDS: list[tuple[str, dict[str, Any]]] = [
    ("adam", {"betas": [0.8, 0.99], "weight_decay": 0.1}),
    ("adam", {"maximize": True}),
    ("adamw", {"weight_decay": 0.1}),
    ("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
]
each_optimiser = pytest.mark.parametrize("name", OPTIMISERS)


@pytest.mark.parametrize(("name", "keywords"), [*((name, {}) for name in OPTIMISERS), *KEYWORDS])
def test_steps_are_those_of_pytorch(name: str, keywords: dict[str, Any]) -> None:
    ours, theirs = make_parameters(), make_parameters()
    optimiser = make_optimiser(ours, optimiser=name.upper(), optimiser_kwargs=keywords)
    # The defaults of PyTorch, but without decay of what has no zero to return to.
    no_decay = {} if name == "rprop" else {"weight_decay": 0.0}
    groups = [{"params": theirs[:2], "lr": 1e-1}, {"params": theirs[2:], "lr": 1e-3, **no_decay}]
    reference = OPTIMISERS[name](groups, **keywords)  # type: ignore[call-arg]
    for seed in range(5):
        set_gradients(ours, seed)
        set_gradients(theirs, seed)
        optimiser.step(TwoRates())
        reference.step()
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected)


def test_an_algorithm_may_have_an_epsilon_of_its_own() -> None:
    ours, theirs = make_parameters(), make_parameters()
    optimiser = make_optimiser(ours, epsilon=1e-1)
    reference = torch.optim.Adam([{"params": theirs[:2], "lr": 1e-1}, {"params": theirs[2:], "lr": 1e-3}], eps=1e-1)
    for seed in range(3):
        set_gradients(ours, seed)
        set_gradients(theirs, seed)
        optimiser.step(TwoRates())
        reference.step()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimiser": "adm"}, r"optimiser must be one of .*adamw.*sgd, got 'adm'; did you mean 'adam'"),
        ({"optimiser": 3}, "optimiser must be one of"),
        ({"optimiser": "lbfgs"}, "optimiser must be one of"),
        ({"optimiser": "sgd", "optimiser_kwargs": {"betas": 3}}, r"'sgd' refuses .* it takes momentum, dampening"),
        ({"optimiser_kwargs": {"weight_decay": -1}}, "'adam' refuses .*weight_decay"),
        ({"optimiser_kwargs": {"lr": 1.0}}, "without 'lr'"),
        ({"optimiser_kwargs": "fast"}, "must be keyword arguments"),
    ],
)
def test_what_no_optimiser_takes_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TwoRates(**options)


def test_a_share_of_the_rates() -> None:
    whole, half = make_parameters(), make_parameters()
    for parameters, share in ((whole, 1.0), (half, 0.5)):
        set_gradients(parameters, 0)
        make_optimiser(parameters).step(TwoRates(), share)
    for start, far, near in zip(make_parameters(), whole, half, strict=True):
        torch.testing.assert_close(far - start, 2.0 * (near - start), rtol=1e-4, atol=1e-6)


def test_a_group_without_gradients_stays_with_its_running_means() -> None:
    often, seldom = make_parameters(), make_parameters()
    optimisers = [make_optimiser(parameters) for parameters in (often, seldom)]
    for seed in range(4):
        for parameters, optimiser in zip((often, seldom), optimisers, strict=True):
            set_gradients(parameters, seed)
            if parameters is seldom and seed % 2:
                parameters[2].grad = None
            optimiser.step(TwoRates())
    torch.testing.assert_close(often[0], seldom[0])
    alone = make_parameters()
    optimiser = make_optimiser(alone)
    for seed in (0, 2):
        set_gradients(alone, seed)
        optimiser.step(TwoRates())
    torch.testing.assert_close(alone[2], seldom[2])


def test_gradients_that_someone_holds_survive_zero_grad() -> None:
    parameters = make_parameters()
    optimiser = make_optimiser(parameters)
    set_gradients(parameters, 0)
    held = parameters[0].grad
    assert held is not None
    copy = held.clone()
    optimiser.zero_grad()
    assert [parameter.grad for parameter in parameters] == [None, None, None]
    assert torch.equal(held, copy)


def test_each_group_is_clipped_by_itself() -> None:
    parameters = make_parameters()
    parameters[0].grad = torch.full((3, 2), 2.0)
    parameters[1].grad = torch.zeros(2)
    parameters[2].grad = torch.tensor(0.5)
    norms = make_optimiser(parameters).clip_gradients(1.0)
    assert {name: float(norm) for name, norm in norms.items()} == pytest.approx({"weights": 24**0.5, "number": 0.5})
    assert float(parameters[0].grad.norm()) == pytest.approx(1.0, rel=1e-4)
    assert float(parameters[2].grad) == 0.5


def test_groups_without_gradients_have_no_norm() -> None:
    parameters = make_parameters()
    parameters[2].grad = torch.tensor(0.5)
    assert list(make_optimiser(parameters).clip_gradients(1.0)) == ["number"]


@each_optimiser
def test_a_loaded_state_resumes_alike(name: str) -> None:
    first = make_parameters()
    optimiser = make_optimiser(first, optimiser=name)
    for seed in range(3):
        set_gradients(first, seed)
        optimiser.step(TwoRates())
    second = [nn.Parameter(parameter.detach().clone()) for parameter in first]
    resumed = make_optimiser(second, optimiser=name)
    resumed.load_state(optimiser.state())
    assert resumed.state().keys() == optimiser.state().keys()
    for parameters, each in ((first, optimiser), (second, resumed)):
        set_gradients(parameters, 9)
        each.step(TwoRates())
    for found, expected in zip(second, first, strict=True):
        assert torch.equal(found, expected)


def test_a_state_is_a_copy() -> None:
    parameters = make_parameters()
    optimiser = make_optimiser(parameters)
    state = optimiser.state()
    set_gradients(parameters, 0)
    optimiser.step(TwoRates())
    assert all(not tensor.any() for tensor in state.values())


@each_optimiser
@pytest.mark.parametrize("value", [torch.ones(1), torch.ones(3, 3), torch.tensor(float("nan")), 2.0, "x"])
def test_what_an_optimiser_cannot_have_kept_is_refused(name: str, value: Any) -> None:
    parameters = make_parameters()
    optimiser = make_optimiser(parameters, optimiser=name)
    set_gradients(parameters, 1)
    optimiser.step(TwoRates())
    for entry, kept in optimiser.state().items():
        if not isinstance(value, str) and torch.as_tensor(value).shape == torch.as_tensor(kept).shape:
            continue
        with pytest.raises((StorageError, TypeError), match=r"a state has|an optimiser keeps|'x'|str"):
            optimiser.load_state({**optimiser.state(), entry: value})
