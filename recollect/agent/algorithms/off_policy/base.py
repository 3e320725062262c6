"""`OffPolicyAlgorithm`: critics that learn from replayed transitions, with target networks."""

import math
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

from recollect.agent.actors.base import Actor
from recollect.agent.algorithms.config import OffPolicyConfig
from recollect.agent.algorithms.learning import LearningAlgorithm
from recollect.agent.algorithms.losses.regression import Regression, fit, regression
from recollect.agent.algorithms.transitions import Transitions, read_transitions
from recollect.agent.algorithms.utils import frozen
from recollect.roles import Batch, Device, VectorEnvs


class OffPolicyAlgorithm(LearningAlgorithm):
    """Base of the off-policy algorithms."""

    config: OffPolicyConfig

    def __init__(self, device: Device, actor: Actor, envs: VectorEnvs, config: OffPolicyConfig | None = None) -> None:
        super().__init__(device, actor, envs, config)
        self.target_policy: Any = actor.target_policy
        self.target_critics: Any = actor.target_critics
        self._critic_parameters = list(actor.critic_parameters())

    def _read(self, batch: Batch) -> Transitions:
        return read_transitions(self.actor, batch, self.config.intrinsic_weight)

    def _critic_loss(self, steps: Transitions, errors: Tensor, losses: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of all critics' losses, and the sizes of their TD errors as the storage takes them.

        Both are given for each critic and row, `[num_critics, rows, 1]`.
        """
        return steps.mean(losses), steps.errors(errors.detach().abs().mean(0))

    def _regress(
        self,
        steps: Transitions,
        values: Tensor,
        target: Tensor,
        *,
        action: Tensor | None = None,
        delta: float = math.inf,
    ) -> Regression:
        """Compare what critics predict of steps with a target; `sizes` are as the storage takes them."""
        found = regression(values, target, steps.weights, action, delta)
        return found._replace(sizes=steps.errors(found.sizes))

    def _fit(
        self,
        steps: Transitions,
        inputs: tuple[Tensor, ...],
        target: Tensor,
        *,
        action: Tensor | None = None,
        delta: float = math.inf,
    ) -> Regression:
        """`_regress` of what the critics make of inputs; `backward` is to follow the loss all the same."""
        found = fit(self.critics, inputs, target, steps.weights, action, delta)
        return found._replace(sizes=steps.errors(found.sizes))

    def _fixed_critics(self) -> AbstractContextManager[None]:
        """Let the critics take no gradients inside: a policy climbs their values, and they stay where they are."""
        return frozen(self._critic_parameters)

    def _after_step(self) -> None:
        if self.num_updates % self.config.target_update_every == 0:
            self.actor.update_targets(self.config.tau)
