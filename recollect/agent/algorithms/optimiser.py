"""One optimiser for all that an algorithm trains: groups with learning rates of their own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import torch
from torch import Tensor, nn

from recollect.agent.algorithms.config import AlgorithmConfig
from recollect.agent.algorithms.optimiser_groups import (
    FUSED_KEYWORDS,
    FUSED_STEPS,
    FusedGroup,
    OptimiserGroup,
    ParameterGroup,
    TorchGroup,
)
from recollect.agent.algorithms.optimiser_names import find_optimiser, optimiser_keywords

_EPSILON: Final = "eps"
_DECAY: Final = "weight_decay"


class GroupedOptimiser:
    """An optimiser over named groups: Adam by default, or any other of `torch.optim`.

    Parameters without a gradient stay as they are, and so does what the optimiser keeps of them: an algorithm that
    trains its policy less often than its critics only has to leave those gradients out. A step of Adam or AdamW
    costs little beside one fused call for each group, which is what small networks need.

    Parameters
    ----------
    groups : iterable of ParameterGroup
        What is trained.
    config : AlgorithmConfig
        Which optimiser, and its keyword arguments.
    epsilon : float
        Adam's and AdamW's `eps`, unless the config says otherwise.
    """

    def __init__(self, groups: Iterable[ParameterGroup], config: AlgorithmConfig, epsilon: float = 1e-8) -> None:
        build = _builder(config, epsilon)
        self.groups = [build(group) for group in groups if group.parameters]
        self.parameters = [parameter for group in self.groups for parameter in group.parameters]

    def zero_grad(self) -> None:
        """Drop the gradients of the last step; tensors that someone else still holds stay as they are."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, config: AlgorithmConfig, share: float = 1.0) -> None:
        """Move all parameters that have gradients, with a share of the learning rates of `config`."""
        for group in self.groups:
            group.step(share * getattr(config, group.learning_rate))

    def clip_gradients(self, max_norm: float) -> dict[str, Tensor]:
        """Limit the norm of each group's gradient; returns the norms as they were, by group."""
        return {
            group.name: nn.utils.clip_grad_norm_(group.parameters, max_norm)
            for group in self.groups
            if group.has_gradients
        }

    def state(self) -> dict[str, Tensor | float]:
        """Copies of all that the optimiser keeps, by name, for a checkpoint."""
        return {f"{group.name}.{name}": value for group in self.groups for name, value in group.state().items()}

    def load_state(self, state: Mapping[str, Tensor | float]) -> None:
        """Resume from what `state` returned."""
        for group in self.groups:
            prefix = f"{group.name}."
            group.load_state({name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)})


def _builder(config: AlgorithmConfig, epsilon: float) -> Callable[[ParameterGroup], OptimiserGroup]:
    """What keeps a group: one fused call where that will do, PyTorch's own optimiser otherwise."""
    name, own = config.optimiser, {**(config.optimiser_kwargs or {})}
    is_fused = name in FUSED_STEPS and own.keys() <= FUSED_KEYWORDS
    keywords = optimiser_keywords(name, {_EPSILON: epsilon, **own} if name in FUSED_STEPS else own)

    def build(group: ParameterGroup) -> OptimiserGroup:
        chosen = keywords if group.decays or _DECAY not in keywords else keywords | {_DECAY: 0.0}
        if is_fused:
            return FusedGroup(group, name, **{key: chosen[key] for key in FUSED_KEYWORDS})
        return TorchGroup(group, find_optimiser(name), chosen)

    return build
