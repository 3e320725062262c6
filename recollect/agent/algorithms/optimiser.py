"""One optimiser for all that an algorithm trains: groups with learning rates of their own."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recollect.agent.algorithms.config import AlgorithmConfig


class ParameterGroup(NamedTuple):
    """Parameters that are trained together, and the option that is their learning rate."""

    name: str
    parameters: Iterable[nn.Parameter]
    learning_rate: str


class AdamGroup:
    """Adam's moments of one group.

    Parameters
    ----------
    group : ParameterGroup
        What is trained.
    epsilon : float
        Added to the root of the second moment.
    """

    def __init__(self, group: ParameterGroup, epsilon: float) -> None:
        self.name = group.name
        self.learning_rate = group.learning_rate
        self.parameters = list(group.parameters)
        self._epsilon = epsilon
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        device = self.parameters[0].device if self.parameters else None
        self._num_steps = torch.zeros((), device=device)

    @property
    def has_gradients(self) -> bool:
        """Whether the last backward pass reached the group."""
        return any(parameter.grad is not None for parameter in self.parameters)

    def step(self, rate: float) -> None:
        """Move the parameters that have gradients, all in one fused call."""
        chosen = [index for index, parameter in enumerate(self.parameters) if parameter.grad is not None]
        if not chosen:
            return
        self._num_steps += 1
        torch._fused_adam_(
            [self.parameters[index] for index in chosen],
            [gradient for parameter in self.parameters if (gradient := parameter.grad) is not None],
            [self._means[index] for index in chosen],
            [self._squares[index] for index in chosen],
            [],
            [self._num_steps] * len(chosen),
            lr=rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=self._epsilon,
            amsgrad=False,
            maximize=False,
        )

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The moments by name, not copied."""
        yield f"{self.name}.num_steps", self._num_steps
        for kind, moments in (("means", self._means), ("squares", self._squares)):
            for index, moment in enumerate(moments):
                yield f"{self.name}.{kind}.{index}", moment


class GroupedAdam:
    """Adam (Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980) over named groups.

    Parameters without a gradient stay as they are, and so do their moments: an algorithm that trains its
    policy less often than its critics only has to leave those gradients out. A step costs little beside
    one fused call for each group, which is what small networks need.

    Parameters
    ----------
    groups : iterable of ParameterGroup
        What is trained.
    epsilon : float
        Added to the root of the second moment.
    """

    def __init__(self, groups: Iterable[ParameterGroup], epsilon: float = 1e-8) -> None:
        self.groups = [AdamGroup(group, epsilon) for group in groups]
        self.parameters = [parameter for group in self.groups for parameter in group.parameters]

    def zero_grad(self) -> None:
        """Drop the gradients of the last step; whoever holds them still may keep them."""
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

    def state(self) -> dict[str, Tensor]:
        """Copies of all moments by name, for a checkpoint."""
        return {name: moment.clone() for group in self.groups for name, moment in group.tensors()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        for group in self.groups:
            for name, moment in group.tensors():
                moment.copy_(state[name])
