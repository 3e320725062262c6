"""Perceptrons with optional norms, dropout, noise or residual blocks."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn

from recollect.agent.actors.config import ActorConfig
from recollect.agent.actors.networks.mlp.dense import MLP, EnsembleMLP, EnsembleNorm
from recollect.agent.actors.networks.mlp.layers import BatchRenorm, Dropout, EnsembleLinear, NoisyLinear
from recollect.agent.actors.networks.mlp.stack import beside, for_each
from recollect.agent.actors.plan import ActorPlan, Layers
from recollect.errors import ConfigError

_ACTIVATIONS: Final = {"relu": nn.ReLU, "tanh": nn.Tanh}
_WIDER: Final = 4


class ComposedNetwork(nn.Module):
    """`num` networks of one shape, layer by layer: slower than `EnsembleMLP`, and open to every kind of layer.

    Attributes
    ----------
    layers : nn.Sequential
        From `[num, batch, in]` to `[num, batch, out]`.
    """

    def __init__(self, num: int, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.num = num
        self.layers = nn.Sequential(*layers)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Columns side by side, `[batch, in]`, shared by all, or `[num, batch, in]` -> `[num, batch, out]`."""
        found: Tensor = self.layers(for_each(beside(inputs), self.num))
        return found

    def first(self, *inputs: Tensor) -> Tensor:
        """`[batch, in]` -> `[batch, out]` of the first network."""
        values: Tensor = self(*inputs)[0]
        return values

    def orthogonalise(self, output_gain: float) -> None:
        """Draw orthogonal weights and zero biases: gain sqrt(2) in hidden layers, `output_gain` in the last."""
        dense = [part for part in self.modules() if isinstance(part, EnsembleLinear)]
        for layer in dense:
            layer.orthogonalise(output_gain if layer is dense[-1] else math.sqrt(2))


class ResidualBlock(nn.Module):
    """`x + f(x)`: a layer norm, a layer four times as wide, an activation and a layer back (Lee et al., 2024)."""

    def __init__(self, num: int, size: int, noisy: float) -> None:
        super().__init__()
        self.norm = EnsembleNorm(num, size)
        self.wide, self.back = _linear(num, size, _WIDER * size, noisy), _linear(num, _WIDER * size, size, noisy)
        with torch.no_grad():
            for layer in (self.wide, self.back):
                nn.init.normal_(layer.weight, std=math.sqrt(2 / layer.weight.shape[1]))
                nn.init.zeros_(layer.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """`[num, batch, size]` -> the same shape."""
        changed: Tensor = self.back(self.wide(self.norm(inputs)).relu())
        return inputs + changed


class Single(nn.Module):
    """The one network of a `ComposedNetwork`, without the axis of networks."""

    def __init__(self, network: ComposedNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensor:
        """Columns side by side, `[batch, in]` -> `[batch, out]`."""
        return self.network.first(*inputs)


def build_ensemble(
    num: int, sizes: Sequence[int], config: ActorConfig, layers: Layers, *, activate_output: bool = False
) -> EnsembleMLP | ComposedNetwork:
    """Build `num` networks with layers as the config and the algorithm want them.

    Parameters
    ----------
    num : int
        How many networks.
    sizes : sequence of int
        Widths: of the input, the hidden layers and the output.
    activate_output : bool
        Treat the output like a hidden layer: for a network that others build upon.
    """
    if config.network == "simba":
        return ComposedNetwork(num, _simba(num, sizes, layers, activate_output=activate_output))
    if not layers.is_composed:
        options = {"layer_norm": layers.layer_norm, "activate_output": activate_output}
        return EnsembleMLP(num, sizes, activation=config.activation, **options)
    return ComposedNetwork(num, _perceptron(num, sizes, config, layers, activate_output=activate_output))


def build_single(sizes: Sequence[int], config: ActorConfig, layers: Layers) -> MLP | Single:
    """Build one network, `[batch, in]` -> `[batch, out]`."""
    if config.network == "mlp" and not layers.is_composed:
        return MLP(sizes, activation=config.activation, layer_norm=layers.layer_norm)
    network = build_ensemble(1, sizes, config, layers)
    assert isinstance(network, ComposedNetwork)
    return Single(network)


def policy_layers(plan: ActorPlan, config: ActorConfig) -> Layers:
    """What the layers of a policy have: what the algorithm asks for, and what the user does."""
    chosen = Layers(layer_norm=config.layer_norm, noisy=config.noisy, batch_renorm=config.batch_renorm)
    return plan.policy_layers | chosen


def critic_layers(plan: ActorPlan, config: ActorConfig) -> Layers:
    """The same of the critics."""
    chosen = Layers(
        layer_norm=config.layer_norm or config.critic_layer_norm,
        dropout=config.critic_dropout,
        noisy=config.noisy,
        batch_renorm=config.batch_renorm,
    )
    return plan.critic_layers | chosen


def critic_sizes(config: ActorConfig) -> tuple[int, ...]:
    """Widths of the hidden layers of a critic."""
    return config.hidden_sizes if config.critic_hidden_sizes is None else config.critic_hidden_sizes


def _perceptron(
    num: int, sizes: Sequence[int], config: ActorConfig, layers: Layers, *, activate_output: bool
) -> list[nn.Module]:
    """Layers in the order of DroQ (dense, dropout, layer norm, activation), each behind CrossQ's batch renorm."""
    found: list[nn.Module] = []
    num_active = len(sizes) - 1 if activate_output else len(sizes) - 2
    for index, (wide, narrow) in enumerate(pairwise(sizes)):
        found += [BatchRenorm(num, wide)] if layers.batch_renorm else []
        found.append(_linear(num, wide, narrow, layers.noisy))
        if index < num_active:
            found += [Dropout(layers.dropout)] if layers.dropout else []
            found += [EnsembleNorm(num, narrow)] if layers.layer_norm else []
            found.append(_ACTIVATIONS[config.activation]())
    return found


def _simba(num: int, sizes: Sequence[int], layers: Layers, *, activate_output: bool) -> list[nn.Module]:
    """One residual block for each hidden layer (Lee et al., 2024, https://arxiv.org/abs/2410.09754)."""
    wide, *hidden = sizes if activate_output else sizes[:-1]
    if layers.dropout or layers.batch_renorm:
        raise ConfigError(
            "network='simba' has norms of its own and takes neither dropout nor batch renormalisation, "
            f"got {layers}; use network='mlp'"
        )
    if not hidden or len(set(hidden)) > 1:
        raise ConfigError(
            f"network='simba' needs hidden layers of one width, each a residual block, got {tuple(hidden)}; for "
            "two blocks of 128 write hidden_sizes=[128, 128]"
        )
    size = hidden[0]
    embed = _linear(num, wide, size, layers.noisy)
    embed.orthogonalise(1.0)
    blocks = (ResidualBlock(num, size, layers.noisy) for _ in hidden)
    found: list[nn.Module] = [embed, *blocks, EnsembleNorm(num, size)]
    if not activate_output:
        output = _linear(num, size, sizes[-1], layers.noisy)
        output.orthogonalise(1.0)
        found.append(output)
    return found


def _linear(num: int, wide: int, narrow: int, noisy: float) -> EnsembleLinear:
    return NoisyLinear(num, wide, narrow, noisy) if noisy else EnsembleLinear(num, wide, narrow)
