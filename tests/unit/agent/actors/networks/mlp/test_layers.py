"""Layers that behave differently in learning, and the networks that are made of them."""

from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Generator, Tensor

from recollect.agent.actors import ActorPlan, OffPolicyActor, OnPolicyActor
from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.mlp import layers as layers_module
from recollect.agent.actors.networks.mlp.composed import build_ensemble, build_single
from recollect.agent.actors.networks.mlp.layers import BatchRenorm, Dropout, NoisyLinear
from recollect.agent.actors.plan import PLAIN, Layers
from recollect.errors import ConfigError

NUM, ROWS = 2, 64
OBS, ACTIONS = Box(-1, 1, (3,)), Box(-1, 1, (2,))
PLAN = ActorPlan(policy="squashed_gaussian", critic="q_action", num_critics=NUM)


def _seeded() -> Generator:
    return Generator().manual_seed(1)


def _rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=_seeded())


def test_noise_is_factorised_on_top_of_mean_weights() -> None:
    layer = NoisyLinear(NUM, 4, 3, 0.5)
    inputs = _rows(NUM, ROWS, 4)
    quiet = layer(inputs)
    torch.testing.assert_close(quiet, inputs @ layer.weight + layer.bias)
    layer.begin(_seeded())
    chance = _seeded()
    rows, columns = (torch.empty(shape).normal_(generator=chance) for shape in ((NUM, 4, 1), (NUM, 1, 3)))
    rows, columns = (values.sign() * values.abs() ** 0.5 for values in (rows, columns))
    # The first deviation is 0.5 / sqrt(in_features).
    weight, bias = layer.weight + 0.25 * rows * columns, layer.bias + 0.25 * columns
    torch.testing.assert_close(layer(inputs), inputs @ weight + bias)
    layer.end()
    assert torch.equal(layer(inputs), quiet)


def test_noise_is_learned() -> None:
    layer = NoisyLinear(1, 4, 3, 0.5)
    layer.begin(_seeded())
    layer(_rows(1, ROWS, 4)).square().sum().backward()
    for part in (layer.flat, layer.flat_std):
        assert part.grad is not None
        assert part.grad.abs().min() > 0


def test_dropout_drops_a_share_while_learning_and_keeps_the_mean() -> None:
    dropout, ones = Dropout(0.25), torch.ones(NUM, 1000, 10)
    assert dropout(ones) is ones
    dropout.begin(_seeded())
    dropped = dropout(ones)
    assert dropped.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert (dropped == 0).float().mean() == pytest.approx(0.25, abs=0.02)
    dropout.end()
    assert dropout(ones) is ones


def test_batches_are_normalised_by_their_own_statistics_and_acting_by_running_ones() -> None:
    norm, inputs = BatchRenorm(NUM, 5), 3.0 + 2.0 * _rows(NUM, ROWS, 5)
    norm.begin(_seeded())
    scaled = norm(inputs)
    torch.testing.assert_close(scaled.mean(1), torch.zeros(NUM, 5), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(1, unbiased=False), torch.ones(NUM, 5), atol=1e-3, rtol=0)
    for _ in range(1000):
        norm(inputs)
    norm.end()
    torch.testing.assert_close(norm.mean, inputs.mean(1, keepdim=True), atol=1e-3, rtol=0)
    before = norm.mean.clone()
    torch.testing.assert_close(norm(inputs), scaled, atol=1e-2, rtol=0)
    assert torch.equal(norm.mean, before)


def test_after_the_warm_up_batches_are_corrected_towards_running_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers_module, "_WARM_UP", 0)
    norm = BatchRenorm(1, 1)
    norm.mean.fill_(1.0)
    norm.variance.fill_(4.0 - 1e-3)
    norm.begin(_seeded())
    inputs = torch.tensor([1.0, 5.0])[None, :, None]  # mean 3, deviation 2
    # Within the bounds of the correction a batch is normalised as by the running statistics, (x - 1) / 2.
    torch.testing.assert_close(norm(inputs).flatten(), torch.tensor([0.0, 2.0]), atol=1e-3, rtol=0)
    norm.mean.fill_(100.0)  # d is clipped at -5
    norm.variance.fill_(0.01 - 1e-3)  # r is clipped at 3
    torch.testing.assert_close(norm(inputs).flatten(), torch.tensor([-8.0, -2.0]), atol=2e-2, rtol=0)


@pytest.mark.parametrize("warm_up", [0, 2, 9])
def test_renormalisation_its_gradients_and_statistics_are_those_of_the_definition(
    warm_up: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Algorithm 1 of Ioffe (2017), whose corrections pass no gradient on; before the warm-up there are none."""
    monkeypatch.setattr(layers_module, "_WARM_UP", warm_up)
    norm, chance = BatchRenorm(NUM, 3), _seeded()
    with torch.no_grad():
        for weight in norm.parameters():
            weight.add_(torch.randn(weight.shape, generator=chance))
    running_mean, running_variance = torch.zeros(NUM, 1, 3), torch.ones(NUM, 1, 3)
    norm.begin(chance)
    for number in range(4):
        # Batches of a scale and a place that reach the bounds of both corrections.
        inputs = 8.0 ** (number - 1) * (torch.randn(NUM, 7, 3, generator=chance) + 2.0 * number)
        slopes = torch.randn(NUM, 7, 3, generator=chance)
        inputs.requires_grad_()
        mean = inputs.sum(1, keepdim=True) / 7
        variance = ((inputs - mean) ** 2).sum(1, keepdim=True) / 7
        std, running_std = (variance + 1e-3) ** 0.5, (running_variance + 1e-3) ** 0.5
        r, d = torch.ones(NUM, 1, 3), torch.zeros(NUM, 1, 3)
        if number >= warm_up:
            r = (std / running_std).clip(1 / 3, 3).detach()
            d = ((mean - running_mean) / running_std).clip(-5, 5).detach()
        expected = norm.weight * ((inputs - mean) / std * r + d) + norm.bias
        found = norm(inputs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        leaves = (inputs, norm.weight, norm.bias)
        wanted = torch.autograd.grad(expected, leaves, slopes, retain_graph=True)
        torch.testing.assert_close(torch.autograd.grad(found, leaves, slopes), wanted, rtol=1e-3, atol=1e-4)
        running_mean = 0.99 * running_mean + 0.01 * mean.detach()
        running_variance = 0.99 * running_variance + 0.01 * variance.detach()
        torch.testing.assert_close(norm.mean, running_mean)
        torch.testing.assert_close(norm.variance, running_variance)


def test_a_simba_network_is_as_in_the_paper() -> None:
    network = build_single((3, 8, 8, 2), ActorConfig(network="simba"), PLAIN)
    embed, first, second, _, output = network.network.layers  # type: ignore[union-attr]
    inputs = _rows(ROWS, 3)
    hidden = inputs @ embed.weight[0] + embed.bias[0]
    for block in (first, second):
        assert block.wide.weight.shape == (1, 8, 32)
        normed = torch.nn.functional.layer_norm(hidden, (8,))
        hidden = hidden + (normed @ block.wide.weight[0]).relu() @ block.back.weight[0]
    expected = torch.nn.functional.layer_norm(hidden, (8,)) @ output.weight[0]
    torch.testing.assert_close(network(inputs), expected, atol=1e-5, rtol=1e-5)


def test_a_perceptron_has_its_layers_in_the_order_of_the_papers() -> None:
    network = build_ensemble(NUM, (3, 8, 1), ActorConfig(), Layers(layer_norm=True, dropout=0.1, batch_renorm=True))
    names = [type(layer).__name__ for layer in network.layers]  # type: ignore[union-attr]
    hidden = ["BatchRenorm", "EnsembleLinear", "Dropout", "EnsembleNorm", "ReLU"]
    assert names == [*hidden, "BatchRenorm", "EnsembleLinear"]


@pytest.mark.parametrize("network", ["mlp", "simba"])
def test_networks_of_an_ensemble_are_separate(network: Any) -> None:
    ensemble = build_ensemble(NUM, (3, 8, 1), ActorConfig(network=network), Layers(noisy=0.5))
    inputs = _rows(ROWS, 3)
    both = ensemble(inputs)
    assert both.shape == (NUM, ROWS, 1)
    assert not torch.allclose(both[0], both[1])
    torch.testing.assert_close(ensemble.first(inputs), both[0])
    weights = [weight for name, weight in ensemble.named_parameters() if "std" not in name]
    first, second = (torch.autograd.grad(rows.sum(), weights, retain_graph=True) for rows in both)
    for mine, other in zip(first, second, strict=True):
        assert mine.any()
        assert other.any()
        assert not (mine * other).any()


@pytest.mark.parametrize(
    "options", [{"hidden_sizes": (8, 6)}, {"hidden_sizes": ()}, {"critic_dropout": 0.1}, {"batch_renorm": True}]
)
def test_simba_refuses_what_it_cannot_be_made_of(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="simba"):
        OffPolicyActor.create_factory(OBS, ACTIONS, PLAN, **({"network": "simba"} | options))("cpu")


def test_simba_normalises_observations() -> None:
    assert OffPolicyActor.create_factory(OBS, ACTIONS, PLAN, network="simba", hidden_sizes=8)("cpu").normaliser


def test_critics_have_sizes_and_layers_of_their_own() -> None:
    options: dict[str, Any] = {"hidden_sizes": 8, "critic_hidden_sizes": (6, 6), "critic_layer_norm": True}
    actor = OffPolicyActor.create_factory(OBS, ACTIONS, PLAN, critic_dropout=0.1, **options)("cpu")
    names = [type(part).__name__ for part in actor.modules()]
    assert names.count("EnsembleNorm") == names.count("Dropout") == 4  # of two layers, and of the targets'
    assert type(actor.policy.network).__name__ == "MLP"  # type: ignore[union-attr]


def test_an_algorithms_layers_are_added_to_the_users() -> None:
    assert Layers(dropout=0.1) | Layers(layer_norm=True, dropout=0.05) == Layers(layer_norm=True, dropout=0.1)
    plan = ActorPlan(None, "q_values", critic_layers=Layers(noisy=0.5))
    actor = OffPolicyActor.create_factory(OBS, Discrete(2), plan, layer_norm=True)("cpu")
    assert {"NoisyLinear", "EnsembleNorm"} <= {type(part).__name__ for part in actor.critics.modules()}


@pytest.mark.parametrize("options", [{"noisy": 0.5}, {"network": "simba"}, {"batch_renorm": True}])
def test_on_policy_actors_begin_almost_indifferent(options: dict[str, Any]) -> None:
    plan = ActorPlan(policy="categorical", critic="value", target_critics=False)
    actor = OnPolicyActor.create_factory(OBS, Discrete(4), plan, hidden_sizes=8, **options)("cpu")
    logits = actor.policy(_rows(ROWS, 3)).logits  # type: ignore[misc]
    assert (logits.exp() - 0.25).abs().max() < 0.05


def test_parts_learn_inside_of_learning_alone_and_targets_keep_their_statistics() -> None:
    actor = OffPolicyActor.create_factory(OBS, ACTIONS, PLAN, batch_renorm=True, critic_dropout=0.5, noisy=0.5)("cpu")
    inputs, action = _rows(ROWS, 3), _rows(ROWS, 2)
    fixed = actor.critics(inputs, action)
    with actor.learning(_seeded()):
        assert not torch.allclose(actor.critics(inputs, action), actor.critics(inputs, action))
        actor.target_critics(inputs, action)  # type: ignore[misc]
    state = actor.state_dict()
    counted = {name: int(count) for name, count in state.items() if name.endswith("num_batches")}
    assert {name: count for name, count in counted.items() if count} == {
        name: 2 for name in counted if name.startswith("critics")
    }
    assert not torch.allclose(actor.critics(inputs, action), fixed)  # by what statistics are now
    assert torch.equal(actor.critics(inputs, action), actor.critics(inputs, action))
