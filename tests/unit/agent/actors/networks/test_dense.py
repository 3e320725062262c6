import copy
import math

import pytest
import torch
from torch import Tensor, nn

from recollect.agent.actors.networks.dense import MLP, EnsembleMLP

NUM, ROWS = 3, 5


def _separate(ensemble: EnsembleMLP, index: int, activation: nn.Module) -> nn.Sequential:
    """The network number `index` of an ensemble, built of `nn.Linear` and `nn.LayerNorm`."""
    parts: list[nn.Module] = []
    for depth, (weights, biases) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
        linear = nn.Linear(weights.shape[1], weights.shape[2])
        linear.weight.data, linear.bias.data = weights.data[index].t(), biases.data[index, 0]
        parts.append(linear)
        if depth < len(ensemble.norms):
            norm = nn.LayerNorm(weights.shape[2])
            norm.weight.data, norm.bias.data = (part.data[index, 0] for part in ensemble.norms[depth].parameters())
            parts.append(norm)
        if depth < len(ensemble.weights) - 1:
            parts.append(activation)
    return nn.Sequential(*parts)


def _shake(network: nn.Module) -> None:
    """Give scales and shifts of norms values of their own."""
    for weight in network.parameters():
        weight.data += 0.1 * torch.randn_like(weight)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("name", "activation"), [("relu", nn.ReLU()), ("tanh", nn.Tanh())])
def test_an_ensemble_is_separate_networks(name: str, activation: nn.Module, layer_norm: bool) -> None:
    ensemble = EnsembleMLP(NUM, (4, 8, 6, 2), activation=name, layer_norm=layer_norm)  # type: ignore[arg-type]
    _shake(ensemble)
    inputs = torch.randn(ROWS, 4)
    outputs = ensemble(inputs)
    for index in range(NUM):
        torch.testing.assert_close(outputs[index], _separate(ensemble, index, activation)(inputs))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_first_network_alone_gives_what_it_gives_among_others(layer_norm: bool) -> None:
    ensemble = EnsembleMLP(NUM, (4, 8, 6, 2), layer_norm=layer_norm)
    _shake(ensemble)
    inputs = torch.randn(ROWS, 4)
    torch.testing.assert_close(ensemble.first(inputs), ensemble(inputs)[0])


def test_gradients_of_an_ensemble_are_those_of_separate_networks() -> None:
    ensemble = EnsembleMLP(NUM, (4, 8, 1))
    inputs = torch.randn(ROWS, 4)
    separate = [_separate(ensemble, index, nn.ReLU()) for index in range(NUM)]
    ensemble(inputs).square().sum().backward()
    for index, network in enumerate(separate):
        network(inputs).square().sum().backward()
        gradients = [weight.grad for weight in network.parameters()]
        assert ensemble.weights[0].grad is not None
        assert gradients[0] is not None
        torch.testing.assert_close(ensemble.weights[0].grad[index], gradients[0].t())


def test_each_network_may_have_inputs_of_its_own() -> None:
    ensemble = EnsembleMLP(NUM, (4, 8, 1))
    inputs = torch.randn(NUM, ROWS, 4)
    outputs = ensemble(inputs)
    for index in range(NUM):
        torch.testing.assert_close(outputs[index], ensemble(inputs[index])[index])


def test_an_activated_output_is_a_hidden_layer() -> None:
    plain = MLP((4, 8, 6))
    active = MLP((4, 8, 6), activate_output=True)
    active.load_state_dict(plain.state_dict())
    inputs = torch.randn(ROWS, 4)
    torch.testing.assert_close(active(inputs), plain(inputs).relu())


def test_first_weights_are_drawn_as_linear_layers_draw_them() -> None:
    weights = EnsembleMLP(2, (100, 400)).weights[0]
    assert 0.095 < weights.abs().max() <= 0.1
    assert weights.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.02)


def test_networks_of_an_ensemble_differ() -> None:
    first, second = EnsembleMLP(2, (4, 8, 1))(torch.randn(ROWS, 4))
    assert not torch.allclose(first, second)


def test_a_copy_has_its_own_weights() -> None:
    original = MLP((4, 8, 1))
    inputs = torch.randn(ROWS, 4)
    before = original(inputs)
    changed = copy.deepcopy(original)
    _shake(changed)
    assert torch.equal(original(inputs), before)
    assert not torch.allclose(changed(inputs), before)


def _singular_values(matrix: Tensor) -> Tensor:
    return torch.linalg.svdvals(matrix)


def test_orthogonal_weights_have_their_gains() -> None:
    network = MLP((4, 8, 8, 2))
    network.orthogonalise(0.01)
    for weights, gain in zip(network.weights, (math.sqrt(2), math.sqrt(2), 0.01), strict=True):
        values = _singular_values(weights[0])
        torch.testing.assert_close(values, torch.full_like(values, gain))
    assert all(not bias.any() for bias in network.biases)
