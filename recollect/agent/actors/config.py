"""What a user can choose about an actor's networks."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import gymnasium as gym
from torch import nn

from recollect.agent.registry import FEATURES, HEADS, MEMORIES
from recollect.errors import ConfigError
from recollect.options import Options, choices, count, count_or_zero, flag, number, one_of, option, optional

Activation = Literal["relu", "tanh"]
Network = Literal["mlp", "simba"]
FeaturesBuilder = Callable[[gym.Space[Any]], nn.Module]
"""Called with the observation space."""

MemoryBuilder = Callable[[int, int], nn.Module]
"""Called with the width of the features and `memory_size`."""

NetworkBuilder = Callable[[int, gym.Space[Any], "ActorConfig"], nn.Module]
"""Called with the width of the features, the action space and the actor's config."""


def _widths(name: str, value: object) -> tuple[int, ...]:
    """Check the widths of layers: a list of whole numbers, or one such number for a single layer."""
    widths = (value,) if isinstance(value, int) else value
    if not isinstance(widths, (tuple, list)):
        raise ConfigError(f"{name} must be a list of widths, got {value!r}; for two layers of 64 write [64, 64]")
    return tuple(count(name, width) for width in widths)


def _features(name: str, value: object) -> object:
    if value is None:
        raise ConfigError(f"{name} must be auto, flat or your own, got None")
    return FEATURES.check(name, value)


@dataclass(frozen=True, kw_only=True)
class ActorConfig(Options):
    """Sizes and kinds of the networks that an actor is made of.

    Examples
    --------
    >>> ActorConfig(hidden_sizes=[64, 64], memory="lstm").hidden_sizes
    (64, 64)
    """

    hidden_sizes: tuple[int, ...] = option(
        (256, 256),
        "Widths of the hidden layers of the policy and of each critic.",
        _widths,
        search=choices([64, 64], [128, 128], [256, 256], [400, 300]),
    )
    critic_hidden_sizes: tuple[int, ...] | None = option(
        None, "Widths of the hidden layers of each critic; none for those of hidden_sizes.", optional(_widths)
    )
    network: Network = option(
        "mlp",
        "mlp, or simba: residual blocks with layer norms, one for each hidden layer, of normalised observations.",
        one_of(*get_args(Network)),
    )
    activation: Activation = option(
        "relu", "What follows each hidden layer: relu or tanh.", one_of(*get_args(Activation))
    )
    layer_norm: bool = option(False, "Whether each hidden layer is normalised before its activation.", flag)
    critic_layer_norm: bool = option(False, "The same of the critics alone.", flag)
    critic_dropout: float = option(
        0.0, "Share of the critics' hidden layers that is dropped in learning.", number(0.0, 0.99)
    )
    noisy: float = option(
        0.0,
        "Learned noise on all weights of policy and critics: its first deviation, such as 0.5; 0 for none.",
        number(0.0),
    )
    batch_renorm: bool = option(
        False, "Whether the inputs of all layers of policy and critics are normalised over the batch.", flag
    )
    dueling: bool = option(False, "Whether values of finitely many actions are a state's value plus advantages.", flag)
    features: str | FeaturesBuilder = option(
        "auto",
        "auto: images pass the Nature CNN, all else is flattened; impala, data-efficient: another CNN; flat: all is "
        "flattened. Or your own, which takes the observation space and is a module with `out_features`.",
        _features,
        kind=FEATURES.kind,
    )
    random_shift: int = option(
        0, "Most pixels by which images are shifted at random while they are learned from; 4 in DrQ.", count_or_zero
    )
    feature_sizes: tuple[int, ...] = option(
        (), "Widths of layers that policy and critics share, between features and memory.", _widths
    )
    memory: str | MemoryBuilder | None = option(
        None,
        "Recurrent memory that policy and critics share: gru, lstm, your own or none.",
        MEMORIES.check,
        kind=MEMORIES.kind,
    )
    memory_size: int = option(64, "Width of the memory.", count)
    policy_head: str | NetworkBuilder | None = option(
        None,
        "Your own network from features to a distribution; none for the algorithm's.",
        HEADS.check,
        kind=HEADS.kind,
    )
    critic_head: str | NetworkBuilder | None = option(
        None, "Your own network for each critic, from features to values; none for ours.", HEADS.check, kind=HEADS.kind
    )
    sequence_overlap: int = option(0, "Steps at the start of a sequence that only warm the memory up.", count_or_zero)
    normalise_observations: bool = option(
        False, "Whether observations are shifted and scaled by their running mean and deviation.", flag
    )
    normalise_rewards: bool = option(
        False, "Whether rewards are scaled by the running deviation of the discounted return.", flag
    )

    @property
    def normalises(self) -> bool:
        """Whether observations are normalised: SimBa is made for such."""
        return self.normalise_observations or self.network == "simba"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence_overlap and self.memory is None:
            raise ConfigError(
                f"sequence_overlap warms a memory up, and there is none, got {self.sequence_overlap}; "
                "choose memory='gru' or 'lstm', or leave sequence_overlap at 0"
            )


@dataclass(frozen=True, kw_only=True)
class ActorOptions(ActorConfig):
    """What the factory of an actor takes: the networks, and what they begin with."""

    seed: int = option(0, "Seed of the first weights and of the actor's generator.")
    restart_model: str | os.PathLike[str] | None = option(
        None, "File of weights to begin with, as an actor's `save` writes it."
    )
