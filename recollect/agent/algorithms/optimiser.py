"""One optimiser for all that an algorithm trains: groups with learning rates of their own."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from recollect.agent.kernels.fusible import are_fusible
from recollect.agent.kernels.row_kernels import clip_row
from recollect.errors import ConfigError, StorageError, closest

if TYPE_CHECKING:
    from recollect.agent.algorithms.config import AlgorithmConfig

# Fused steps by the name of their optimiser, and the keyword arguments that they know.
_FUSED_STEPS: Final = {"adam": torch._fused_adam_, "adamw": torch._fused_adamw_}
_EPSILON: Final = "eps"
_DECAY: Final = "weight_decay"
_FUSED_KEYWORDS: Final = {"betas", _EPSILON, _DECAY}
# Optimisers whose `eps` papers choose for an algorithm.
_CHOSEN: Final = frozenset({*_FUSED_STEPS, "rmsprop"})
# A gradient of zeros is not divided by its norm.
_SMALL: Final = 1e-6
# They need more than gradients of dense parameters: a closure, sparse gradients, or matrices alone.
_OTHERS: Final = frozenset({"lbfgs", "sparseadam", "muon"})
OPTIMISERS: Final[dict[str, type[Optimizer]]] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, Optimizer) and kind is not Optimizer and name.lower() not in _OTHERS
}

_State = Mapping[str, Tensor | float]


class ParameterGroup(NamedTuple):
    """Parameters that are trained together, and the option that is their learning rate.

    Weights decay where the optimiser does that; temperatures and multipliers, which have no zero to return to, do not.
    """

    name: str
    parameters: Sequence[nn.Parameter]
    learning_rate: str
    decays: bool = True


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
        `eps` of Adam, AdamW and RMSprop, unless the config says otherwise.
    """

    def __init__(self, groups: Iterable[ParameterGroup], config: "AlgorithmConfig", epsilon: float = 1e-8) -> None:
        own = {**(config.optimiser_kwargs or {})}
        kind = _FusedGroup if config.optimiser in _FUSED_STEPS and own.keys() <= _FUSED_KEYWORDS else _TorchGroup
        keywords = _keywords(config.optimiser, {_EPSILON: epsilon, **own} if config.optimiser in _CHOSEN else own)
        self.groups = [kind(group, config.optimiser, keywords) for group in groups if group.parameters]
        self.parameters = [parameter for group in self.groups for parameter in group.parameters]

    def zero_grad(self) -> None:
        """Drop the gradients of the last step; tensors that someone else still holds stay as they are."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, config: "AlgorithmConfig", share: float = 1.0) -> None:
        """Move all parameters that have gradients, with a share of the learning rates of `config`."""
        for group in self.groups:
            if group.has_gradients:
                group.step(share * getattr(config, group.learning_rate))

    def clip_gradients(self, max_norm: float) -> dict[str, Tensor | float]:
        """Limit the norm of each group's gradient; returns the norms as they were, by group."""
        return {group.name: group.clip_gradients(max_norm) for group in self.groups if group.has_gradients}

    def state(self) -> dict[str, Tensor | float]:
        """Copies of all that the optimiser keeps, by name, for a checkpoint."""
        return {f"{group.name}.{name}": value for group in self.groups for name, value in group.state().items()}

    def load_state(self, state: _State) -> None:
        """Resume from what `state` returned."""
        for group in self.groups:
            prefix = f"{group.name}."
            group.load_state({name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)})


class _Group(ABC):
    """What an optimiser keeps of one group of parameters, and how it moves them."""

    def __init__(self, group: ParameterGroup, optimiser: str, keywords: Mapping[str, Any]) -> None:
        self.name, self.parameters, self.learning_rate = group.name, list(group.parameters), group.learning_rate
        decays = group.decays or _DECAY not in keywords
        self._build(optimiser, dict(keywords) if decays else {**keywords, _DECAY: 0.0})

    @property
    def has_gradients(self) -> bool:
        """Whether the last backward pass reached the group."""
        return any(parameter.grad is not None for parameter in self.parameters)

    @property
    def gradients(self) -> list[Tensor]:
        """Gradients of the parameters that the last backward pass reached."""
        return [gradient for parameter in self.parameters if (gradient := parameter.grad) is not None]

    def clip_gradients(self, max_norm: float) -> Tensor | float:
        """Limit the norm of all gradients together; returns it as it was."""
        gradients = self.gradients
        if len(gradients) == 1 and gradients[0].is_contiguous() and are_fusible(*gradients):
            found: float = clip_row(gradients[0].numpy().reshape(-1), max_norm, _SMALL)
            return found
        return self._clip_by_operators(gradients, max_norm)

    @torch.no_grad()
    def _clip_by_operators(self, gradients: list[Tensor], max_norm: float) -> Tensor:
        norms = torch._foreach_norm(gradients)
        norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
        torch._foreach_mul_(gradients, (max_norm / (norm + _SMALL)).clamp_(max=1.0))
        return norm

    @abstractmethod
    def _build(self, optimiser: str, keywords: dict[str, Any]) -> None: ...

    @abstractmethod
    def step(self, rate: float) -> None:
        """Move the parameters that have gradients."""

    @abstractmethod
    def state(self) -> dict[str, Tensor | float]:
        """Copies of what is kept, by name."""

    @abstractmethod
    def load_state(self, state: _State) -> None:
        """Resume from what `state` returned."""


class _FusedGroup(_Group):
    """Adam (Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980) or AdamW, all parameters in one call."""

    def _build(self, optimiser: str, keywords: dict[str, Any]) -> None:
        self._fused_step, self._keywords = _FUSED_STEPS[optimiser], keywords
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._num_steps = torch.zeros((), device=self.parameters[0].device)

    def step(self, rate: float) -> None:
        self._num_steps += 1
        chosen = [index for index, parameter in enumerate(self.parameters) if parameter.grad is not None]
        self._fused_step(
            [self.parameters[index] for index in chosen],
            self.gradients,
            [self._means[index] for index in chosen],
            [self._squares[index] for index in chosen],
            [],
            [self._num_steps] * len(chosen),
            lr=rate,
            beta1=self._keywords["betas"][0],
            beta2=self._keywords["betas"][1],
            weight_decay=self._keywords[_DECAY],
            eps=self._keywords[_EPSILON],
            amsgrad=False,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor | float]:
        return {name: tensor.clone() for name, tensor in self._tensors()}

    def load_state(self, state: _State) -> None:
        for name, tensor in self._tensors():
            copy_fitting(name, tensor, state[name])

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The running means by name, not copied."""
        yield "num_steps", self._num_steps
        for kind, means in (("means", self._means), ("squares", self._squares)):
            for index, mean in enumerate(means):
                yield f"{kind}.{index}", mean


class _TorchGroup(_Group):
    """Any optimiser of `torch.optim`."""

    def _build(self, optimiser: str, keywords: dict[str, Any]) -> None:
        self._optimiser = OPTIMISERS[optimiser](self.parameters, **keywords)

    def step(self, rate: float) -> None:
        self._optimiser.param_groups[0]["lr"] = rate
        self._optimiser.step()

    def state(self) -> dict[str, Tensor | float]:
        return {
            f"{name}.{index}": value.clone() if isinstance(value, Tensor) else value
            for index, entries in self._optimiser.state_dict()["state"].items()
            for name, value in entries.items()
            if value is not None
        }

    def load_state(self, state: _State) -> None:
        entries: dict[int, dict[str, Tensor | float]] = {}
        for key, value in state.items():
            name, _, index = key.rpartition(".")
            entries.setdefault(int(index), {})[name] = value
        expected = self._after_a_step()
        for number, found in entries.items():
            _check_entries(number, expected.get(number, {}), found)
        self._optimiser.load_state_dict(self._optimiser.state_dict() | {"state": entries})

    def _after_a_step(self) -> dict[int, dict[str, Tensor | float]]:
        """What the optimiser keeps of each parameter once it has moved it; found by moving others of their shapes."""
        twins = [nn.Parameter(torch.zeros_like(parameter)) for parameter in self.parameters]
        for twin in twins:
            twin.grad = torch.zeros_like(twin)
        (keywords,) = self._optimiser.state_dict()["param_groups"]
        make: Any = type(self._optimiser)
        other = make(twins)
        other.param_groups[0].update({name: value for name, value in keywords.items() if name != "params"})
        other.step()
        found: dict[int, dict[str, Any]] = other.state_dict()["state"]
        return {
            index: {name: value for name, value in entries.items() if value is not None}
            for index, entries in found.items()
        }


def copy_fitting(name: str, target: Tensor, value: Tensor | float) -> None:
    """Copy what a file holds into a tensor, which it must not be stretched or converted to fit."""
    _check_fits(name, target, value)
    target.copy_(torch.as_tensor(value))


def _check_entries(index: int, expected: _State, found: _State) -> None:
    """Refuse what an optimiser cannot have kept of a parameter."""
    if expected.keys() != found.keys():
        raise StorageError(f"an optimiser keeps {sorted(expected)} of parameter {index}, a state has {sorted(found)}")
    for name, value in expected.items():
        _check_fits(f"{name}.{index}", value, found[name])


def _check_fits(name: str, expected: Tensor | float, value: Tensor | float) -> None:
    own, found = torch.as_tensor(expected), torch.as_tensor(value)
    if found.shape != own.shape or found.is_floating_point() != own.is_floating_point():
        raise StorageError(
            f"a state has {name} of {found.dtype} {tuple(found.shape)}, expected {own.dtype} {tuple(own.shape)}"
        )
    if not torch.isfinite(found).all():
        raise StorageError(f"a state has {name} that is NaN or infinite")


def optimiser_name(name: str, value: object) -> str:
    """Check the name of an optimiser, in any case."""
    plain = str(value).lower()
    if plain not in OPTIMISERS:
        known = ", ".join(sorted(OPTIMISERS))
        hint = closest(plain, OPTIMISERS, "give its name")
        raise ConfigError(f"{name} must be one of {known}, got {value!r}; {hint}")
    return plain


def _keywords(name: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """All keyword arguments of an optimiser but the learning rate; files have lists where it wants tuples."""
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in (given or {}).items()}
    return _defaults(name) | own


def _defaults(name: str) -> dict[str, Any]:
    parameters = inspect.signature(OPTIMISERS[name]).parameters.values()
    return {each.name: each.default for each in parameters if each.name not in ("self", "params", "lr")}


def check_optimiser(name: str, given: Mapping[str, Any] | None) -> None:
    """Refuse keyword arguments that an optimiser does not take, before anything is built with it."""
    if given is not None and (not isinstance(given, Mapping) or "lr" in given):
        raise ConfigError(
            f"optimiser_kwargs must be keyword arguments without 'lr', got {given!r}; learning rates are options of "
            "the algorithm"
        )
    try:
        OPTIMISERS[name]([torch.zeros(1, requires_grad=True)], **_keywords(name, given))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"optimiser {name!r} refuses optimiser_kwargs={given!r} ({error}); it takes {', '.join(_defaults(name))}"
        ) from error
