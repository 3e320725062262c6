"""What a user can choose about an actor's networks."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import gymnasium as gym
from torch import nn

from recollect.errors import ConfigError
from recollect.options import Options, choices, count, count_or_zero, flag, one_of, option, optional

Activation = Literal["relu", "tanh"]
MemoryKind = Literal["gru", "lstm"]
FeaturesBuilder = Callable[[gym.Space[Any]], nn.Module]

_FEATURES: Final = one_of("auto", "flat")


def _widths(name: str, value: object) -> tuple[int, ...]:
    """Check the widths of layers: a list of whole numbers, or one such number for a single layer."""
    widths = (value,) if isinstance(value, int) else value
    if not isinstance(widths, (tuple, list)):
        raise ConfigError(f"{name} must be a list of widths, got {value!r}; for two layers of 64 write [64, 64]")
    return tuple(count(name, width) for width in widths)


def _features(name: str, value: object) -> object:
    """Check a way to make features, or a function that builds one."""
    return value if callable(value) else _FEATURES(name, value)


@dataclass(frozen=True, kw_only=True)
class ActorConfig(Options):
    """Sizes and kinds of the networks that an actor is made of.

    Examples
    --------
    >>> ActorConfig(hidden_sizes=(64, 64), memory="lstm").recurrent_size
    128
    """

    hidden_sizes: tuple[int, ...] = option(
        (256, 256),
        "Widths of the hidden layers of the policy and of each critic.",
        _widths,
        search=choices([64, 64], [128, 128], [256, 256], [400, 300]),
    )
    activation: Activation = option(
        "relu", "What follows each hidden layer: relu or tanh.", one_of(*get_args(Activation))
    )
    layer_norm: bool = option(False, "Whether each hidden layer is normalised before its activation.", flag)
    dueling: bool = option(
        False, "Whether action values are a state's value plus advantages (DDQN, SAC-discrete).", flag
    )
    features: str | FeaturesBuilder = option(
        "auto",
        "auto: images pass a CNN, all else is flattened; flat: everything is. From Python also a function that "
        "takes the observation space and returns a module with `out_features`.",
        _features,
    )
    feature_sizes: tuple[int, ...] = option(
        (), "Widths of layers that policy and critics share, between features and memory.", _widths
    )
    memory: MemoryKind | None = option(
        None,
        "Recurrent memory that policy and critics share: gru, lstm or none.",
        optional(one_of(*get_args(MemoryKind))),
    )
    memory_size: int = option(64, "Width of the memory.", count)
    sequence_overlap: int = option(0, "Steps at the start of a sequence that only warm the memory up.", count_or_zero)
    normalise_observations: bool = option(
        False, "Whether observations are shifted and scaled by their running mean and deviation.", flag
    )
    normalise_rewards: bool = option(
        False, "Whether rewards are scaled by the running deviation of the discounted return.", flag
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence_overlap and self.memory is None:
            raise ConfigError(
                f"sequence_overlap warms a memory up, and there is none, got {self.sequence_overlap}; "
                "choose memory='gru' or 'lstm', or leave sequence_overlap at 0"
            )

    @property
    def recurrent_size(self) -> int:
        """Width of a stored hidden state; 1 without memory."""
        if self.memory is None:
            return 1
        return 2 * self.memory_size if self.memory == "lstm" else self.memory_size


@dataclass(frozen=True, kw_only=True)
class ActorOptions(ActorConfig):
    """What the factory of an actor takes: the networks, and what they begin with."""

    seed: int = option(0, "Seed of the first weights and of the actor's generator.")
    restart_model: str | os.PathLike[str] | None = option(
        None, "File of weights to begin with, as an actor's `save` writes it."
    )
