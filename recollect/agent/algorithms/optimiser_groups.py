"""What an optimiser keeps of one group of parameters, and how it moves them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

# Fused steps by the name of their optimiser, and the keyword arguments that they know.
FUSED_STEPS: Final = {"adam": torch._fused_adam_, "adamw": torch._fused_adamw_}
FUSED_KEYWORDS: Final = frozenset({"betas", "eps", "weight_decay"})


class ParameterGroup(NamedTuple):
    """Parameters that are trained together, and the option that is their learning rate.

    Weights decay where the optimiser does that; temperatures and multipliers, which have no zero to return to, do not.
    """

    name: str
    parameters: Sequence[nn.Parameter]
    learning_rate: str
    decays: bool = True


class OptimiserGroup(ABC):
    """Base of the groups."""

    def __init__(self, group: ParameterGroup) -> None:
        self.name, self.parameters, self.learning_rate = group.name, list(group.parameters), group.learning_rate

    @property
    def has_gradients(self) -> bool:
        """Whether the last backward pass reached the group."""
        return any(parameter.grad is not None for parameter in self.parameters)

    @abstractmethod
    def step(self, rate: float) -> None:
        """Move the parameters that have gradients."""

    @abstractmethod
    def state(self) -> dict[str, Tensor | float]:
        """Copies of what is kept, by name."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Tensor | float]) -> None:
        """Resume from what `state` returned."""


class FusedGroup(OptimiserGroup):
    """Adam (Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980) or AdamW, all parameters in one call.

    Parameters
    ----------
    group : ParameterGroup
        What is trained.
    name : {"adam", "adamw"}
        Which of them.
    eps : float
        Added to the root of the running mean of squares.
    betas : tuple of float
        Share of the running means, of gradients and of their squares, that a step keeps.
    weight_decay : float
        As in PyTorch.
    """

    def __init__(
        self, group: ParameterGroup, name: str, *, eps: float, betas: tuple[float, float], weight_decay: float
    ) -> None:
        super().__init__(group)
        self._fused_step = FUSED_STEPS[name]
        self._epsilon, self._betas, self._weight_decay = eps, betas, weight_decay
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._num_steps = torch.zeros((), device=self.parameters[0].device)

    def step(self, rate: float) -> None:
        chosen = [index for index, parameter in enumerate(self.parameters) if parameter.grad is not None]
        if not chosen:
            return
        self._num_steps += 1
        self._fused_step(
            [self.parameters[index] for index in chosen],
            [gradient for parameter in self.parameters if (gradient := parameter.grad) is not None],
            [self._means[index] for index in chosen],
            [self._squares[index] for index in chosen],
            [],
            [self._num_steps] * len(chosen),
            lr=rate,
            beta1=self._betas[0],
            beta2=self._betas[1],
            weight_decay=self._weight_decay,
            eps=self._epsilon,
            amsgrad=False,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor | float]:
        return {name: tensor.clone() for name, tensor in self._tensors()}

    def load_state(self, state: Mapping[str, Tensor | float]) -> None:
        for name, tensor in self._tensors():
            tensor.copy_(torch.as_tensor(state[name]))

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The running means by name, not copied."""
        yield "num_steps", self._num_steps
        for kind, means in (("means", self._means), ("squares", self._squares)):
            for index, mean in enumerate(means):
                yield f"{kind}.{index}", mean


class TorchGroup(OptimiserGroup):
    """Any optimiser of `torch.optim`.

    Parameters
    ----------
    group : ParameterGroup
        What is trained.
    kind : type
        Class of the optimiser.
    keywords : mapping
        Its keyword arguments, without the learning rate.
    """

    def __init__(self, group: ParameterGroup, kind: type[Optimizer], keywords: Mapping[str, Any]) -> None:
        super().__init__(group)
        self._optimiser = kind(self.parameters, **keywords)

    def step(self, rate: float) -> None:
        if self.has_gradients:
            self._optimiser.param_groups[0]["lr"] = rate
            self._optimiser.step()

    def state(self) -> dict[str, Tensor | float]:
        return {
            f"{name}.{index}": value.clone() if isinstance(value, Tensor) else value
            for index, entries in self._optimiser.state_dict()["state"].items()
            for name, value in entries.items()
            if value is not None
        }

    def load_state(self, state: Mapping[str, Tensor | float]) -> None:
        entries: dict[int, dict[str, Tensor | float]] = {}
        for key, value in state.items():
            name, _, index = key.rpartition(".")
            entries.setdefault(int(index), {})[name] = value
        self._optimiser.load_state_dict(self._optimiser.state_dict() | {"state": entries})
