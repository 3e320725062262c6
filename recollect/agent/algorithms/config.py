"""Options that algorithms share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import gymnasium as gym

from recollect.agent.actors.plan import ActorPlan, IntrinsicKind
from recollect.agent.algorithms.acceleration import Precision
from recollect.agent.algorithms.optimiser import check_optimiser, optimiser_name
from recollect.options import Options, choices, count, count_or_zero, flag, log_range, number, one_of, option, optional


def learning_rate(default: float, doc: str) -> Any:
    """Declare the learning rate of a network."""
    return option(default, doc, number(0.0), search=log_range(1e-5, 1e-2))


def grad_norm_limit(default: float | None) -> Any:
    """Declare the option `max_grad_norm`, which algorithms give different defaults."""
    doc = "Largest norm of each network's gradient; none for no limit."
    return option(default, doc, optional(number(0.0, above_low=True)))


def critic_count(default: int) -> Any:
    """Declare the option `num_critics`, which algorithms give different defaults."""
    return option(default, "Critics that are trained side by side; targets take the lowest of their values.", count)


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(Options, ABC):
    """Options of every algorithm: the discount and the pace of a run. Says what networks they ask for."""

    gamma: float = option(
        0.99, "Discount factor.", number(0.0, 1.0), search=choices(0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
    )
    update_every: int = option(50, "Steps of every env between update stages.", count)
    num_mini_batch: int = option(50, "Mini-batches, and so updates, of an epoch.", count)
    mini_batch_size: int = option(256, "Steps of a mini-batch.", count, search=choices(32, 64, 128, 256, 512))
    num_epochs: int = option(1, "Epochs of an update stage.", count)
    start_steps: int = option(1000, "Steps with random actions before learning, over all envs.", count_or_zero)
    test_every: int = option(5000, "Network updates between evaluations; 0 for none.", count_or_zero)
    num_test_episodes: int = option(10, "Episodes of an evaluation.", count)
    max_grad_norm: float | None = grad_norm_limit(None)
    intrinsic: IntrinsicKind | None = option(
        None,
        "What rewards new observations: rnd, random network distillation; none for nothing.",
        optional(one_of(*get_args(IntrinsicKind))),
    )
    intrinsic_weight: float = option(1.0, "Weight of intrinsic rewards beside the task's.", number(0.0))
    intrinsic_lr: float = option(1e-4, "Learning rate of what finds observations new.", number(0.0))
    recompute_intrinsic: bool = option(
        True, "Reward replayed steps by how new they are now, not by how new they were when collected.", flag
    )
    optimiser: str = option("adam", "Optimiser: adam, adamw, or any other of torch.optim by name.", optimiser_name)
    optimiser_kwargs: Mapping[str, Any] | None = option(
        None, "Keyword arguments of the optimiser, such as weight_decay; none for its defaults."
    )
    compile: bool = option(
        False,
        "Compile the losses and their gradients: the first update takes a minute or two. Measure whether it pays.",
        flag,
    )
    precision: Precision = option(
        "float32",
        "Precision of matrix products in updates: float32, or bfloat16 where the processor has it.",
        one_of(*get_args(Precision)),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_optimiser(self.optimiser, self.optimiser_kwargs)

    @abstractmethod
    def plan(self, action_space: gym.Space[Any]) -> ActorPlan:
        """Networks that the algorithm needs to act in `action_space`, which is one that it can act in."""


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(AlgorithmConfig):
    """Options of every off-policy algorithm."""

    tau: float = option(
        0.005, "Share of the new weights that target networks take on.", number(0.0, 1.0), search=log_range(1e-3, 0.1)
    )
    target_update_every: int = option(1, "Updates between those of the target networks.", count)
