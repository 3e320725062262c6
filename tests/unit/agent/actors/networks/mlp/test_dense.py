import copy
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis.strategies import booleans, integers, lists, sampled_from
from torch import Tensor, nn
from torch.func import functional_call

from recollect.agent.actors.networks.mlp.dense import MLP, EnsembleMLP
from recollect.agent.kernels.fusible import plain_operators

NUM, ROWS = 3, 5


@pytest.fixture(autouse=True, scope="module", params=["kernels", "operators"])
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compute with the kernels, and with PyTorch's operators alone."""
    with nullcontext() if request.param == "kernels" else plain_operators():
        yield


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


def _row(networks: Sequence[nn.Sequential]) -> Tensor:
    """Gradients of separate networks in the order of `flat`: weights of all layers, then biases."""
    layers = [[part for part in network if isinstance(part, nn.Linear)] for network in networks]
    weights = [
        torch.cat([_gradient(linear.weight).t().flatten() for linear in each]) for each in zip(*layers, strict=True)
    ]
    biases = [torch.cat([_gradient(linear.bias) for linear in each]) for each in zip(*layers, strict=True)]
    return torch.cat([*weights, *biases])


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


@given(
    num=integers(1, 3),
    sizes=lists(integers(1, 5), min_size=2, max_size=4),
    rows=integers(0, 4),
    activation=sampled_from(["relu", "tanh"]),
    is_shared=booleans(),
    is_split=booleans(),
    is_fixed=booleans(),
    seed=integers(0, 99),
)
def test_gradients_are_those_of_separate_networks(
    num: int, sizes: list[int], rows: int, activation: Any, is_shared: bool, is_split: bool, is_fixed: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    ensemble = EnsembleMLP(num, sizes, activation=activation).requires_grad_(not is_fixed)
    networks = [_separate(ensemble, index, nn.ReLU() if activation == "relu" else nn.Tanh()) for index in range(num)]
    shape = (rows, sizes[0]) if is_shared else (num, rows, sizes[0])
    inputs = [torch.randn(shape, requires_grad=True) for _ in range(2)]
    inputs[1].data.copy_(inputs[0])
    # Some rows of some networks have no gradient.
    slopes = torch.randn(num, rows, sizes[-1]) * torch.randint(2, (num, rows, 1))
    parts = inputs[0].split([1, sizes[0] - 1], -1) if is_split and sizes[0] > 1 else (inputs[0],)
    (ensemble(*parts) * slopes).sum().backward()
    for index, network in enumerate(networks):
        (network(inputs[1] if is_shared else inputs[1][index]) * slopes[index]).sum().backward()
    if not is_fixed:
        torch.testing.assert_close(_gradient(ensemble.flat), _row(networks))
    torch.testing.assert_close(_gradient(inputs[0]), _gradient(inputs[1]))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("num_columns", [1, 2])
@pytest.mark.parametrize("activate_output", [False, True])
def test_gradients_and_their_gradients_are_exact(activation: Any, num_columns: int, activate_output: bool) -> None:
    ensemble = EnsembleMLP(2, (3, 4, num_columns), activation=activation, activate_output=activate_output).double()
    inputs = [torch.randn(ROWS, size, dtype=torch.float64, requires_grad=True) for size in (1, 2)]

    def run(flat: Tensor, *columns: Tensor) -> Any:
        return functional_call(ensemble, {"flat": flat}, columns)

    assert torch.autograd.gradcheck(run, (ensemble.flat, *inputs))
    assert torch.autograd.gradgradcheck(run, (ensemble.flat, *inputs))


def test_the_first_network_alone_has_gradients_of_its_own_alone() -> None:
    ensemble = EnsembleMLP(2, (4, 8, 1))
    inputs = torch.randn(ROWS, 4)
    rows = [
        torch.autograd.grad(values.sum(), ensemble.flat)[0] for values in (ensemble.first(inputs), ensemble(inputs)[0])
    ]
    torch.testing.assert_close(*rows)


def test_the_lowest_of_many_values_has_the_gradient_of_its_network() -> None:
    ensemble = EnsembleMLP(2, (3, 256, 256, 1)).requires_grad_(False)
    networks = [_separate(ensemble, index, nn.ReLU()) for index in range(2)]
    fixed, moving = torch.randn(64, 2), torch.randn(64, 1, requires_grad=True)
    values = ensemble(fixed, moving)
    # Neither is the lowest everywhere.
    centre = values.detach().mean(1, keepdim=True)
    found = torch.autograd.grad((values - centre).amin(0).sum(), moving)
    columns = torch.cat((fixed, moving), -1)
    both = torch.stack([network(columns) for network in networks])
    torch.testing.assert_close(found, torch.autograd.grad((both - centre).amin(0).sum(), moving))


def test_gradients_of_several_passes_add_up() -> None:
    network = MLP((4, 8, 2))
    first, second = torch.randn(2, ROWS, 4)
    parts = [torch.autograd.grad(network(inputs).sum(), network.flat)[0] for inputs in (first, second)]
    (network(first).sum() + network(second).sum()).backward()
    network(first).sum().backward()
    torch.testing.assert_close(_gradient(network.flat), 2 * parts[0] + parts[1])


def test_an_incoming_gradient_is_left_as_it_is() -> None:
    network = MLP((4, 8, 2), activate_output=True)
    slopes = torch.randn(ROWS, 2)
    kept = slopes.clone()
    network(torch.randn(ROWS, 4)).backward(slopes)
    assert torch.equal(slopes, kept)


def test_what_needs_no_gradient_has_none() -> None:
    network = MLP((4, 8, 2)).requires_grad_(False)
    fixed, moving = torch.randn(ROWS, 3), torch.randn(ROWS, 1, requires_grad=True)
    network(fixed, moving).sum().backward()
    assert network.flat.grad is None
    assert moving.grad is not None
    assert not network(fixed, moving.detach()).requires_grad


def test_weights_that_moved_since_are_noticed() -> None:
    network = MLP((4, 8, 2))
    loss = network(torch.randn(ROWS, 4)).sum()
    with torch.no_grad():
        network.flat.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_networks_follow_their_weights_to_another_place() -> None:
    network, inputs = MLP((4, 8, 2)), torch.randn(ROWS, 4)
    before = network(inputs)
    assert network.double()(inputs.double()).dtype == torch.float64
    torch.testing.assert_close(network.float()(inputs), before)
    network.flat.data = torch.zeros_like(network.flat)
    assert not network(inputs).any()


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_compiled_network_is_the_same(layer_norm: bool) -> None:
    ensemble = EnsembleMLP(2, (4, 8, 1), layer_norm=layer_norm)
    inputs = torch.randn(ROWS, 4)
    compiled = torch.compile(ensemble, backend="aot_eager", fullgraph=True)
    rows = [torch.autograd.grad(run(inputs).square().sum(), ensemble.flat)[0] for run in (ensemble, compiled)]
    torch.testing.assert_close(*rows)


def test_checkpoints_have_weights_by_layer() -> None:
    ensemble, other = EnsembleMLP(2, (4, 8, 1), layer_norm=True), EnsembleMLP(2, (4, 8, 1), layer_norm=True)
    _shake(ensemble)
    state = ensemble.state_dict()
    shapes = {name: tuple(values.shape) for name, values in state.items() if "norms" not in name}
    assert shapes == {"weights.0": (2, 4, 8), "weights.1": (2, 8, 1), "biases.0": (2, 1, 8), "biases.1": (2, 1, 1)}
    other.load_state_dict(copy.deepcopy(state))
    inputs = torch.randn(ROWS, 4)
    assert torch.equal(other(inputs), ensemble(inputs))


@pytest.mark.parametrize("sizes", [(4, 7, 1), (4, 8, 8, 1), (4, 1)])
def test_checkpoints_of_other_layers_are_refused(sizes: tuple[int, ...]) -> None:
    network = MLP((4, 8, 1))
    before = network.flat.detach().clone()
    with pytest.raises(RuntimeError, match=r"Missing key|Unexpected key"):
        network.load_state_dict(MLP(sizes).state_dict())
    assert torch.equal(network.flat, before)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))])
def test_a_duplicate_has_weights_of_its_own(duplicate: Callable[[MLP], MLP]) -> None:
    original, inputs = MLP((4, 8, 1)), torch.randn(ROWS, 4)
    before = original(inputs).detach()
    changed = duplicate(original)
    assert torch.equal(changed(inputs), before)
    _shake(changed)
    assert torch.equal(original(inputs), before)
    assert not torch.allclose(changed(inputs), before)


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


def _singular_values(matrix: Tensor) -> Tensor:
    return torch.linalg.svdvals(matrix)


def test_orthogonal_weights_have_their_gains() -> None:
    network = MLP((4, 8, 8, 2))
    network.orthogonalise(0.01)
    for weights, gain in zip(network.weights, (math.sqrt(2), math.sqrt(2), 0.01), strict=True):
        values = _singular_values(weights[0].detach())
        torch.testing.assert_close(values, torch.full_like(values, gain))
    assert all(not bias.any() for bias in network.biases)
