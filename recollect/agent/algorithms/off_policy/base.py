"""`OffPolicyAlgorithm`: critics that learn from replayed transitions, with target networks."""

from typing import Any

from torch import Tensor

from recollect.agent.actors.base import Actor
from recollect.agent.algorithms.config import OffPolicyConfig
from recollect.agent.algorithms.learning import LearningAlgorithm
from recollect.agent.algorithms.transitions import Transitions, read_transitions
from recollect.agent.algorithms.utils import backward
from recollect.roles import Batch, Device, VectorEnvs


class OffPolicyAlgorithm(LearningAlgorithm):
    """Base of the off-policy algorithms."""

    config: OffPolicyConfig

    def __init__(self, device: Device, actor: Actor, envs: VectorEnvs, config: OffPolicyConfig | None = None) -> None:
        super().__init__(device, actor, envs, config)
        self.target_policy: Any = actor.target_policy
        self.target_critics: Any = actor.target_critics
        self._critic_parameters = list(actor.critic_parameters())
        self._policy_parameters = list(actor.policy_parameters())

    def _read(self, batch: Batch) -> Transitions:
        return read_transitions(self.actor, batch, self.config.intrinsic_weight)

    def _regress(self, steps: Transitions, errors: Tensor, losses: Tensor) -> tuple[Tensor, Tensor]:
        """Let the gradients of all critics' losses flow, for TD errors `[num_critics, rows, 1]` and what each costs.

        Returns the sum of the losses, and the sizes of the errors as the storage takes them.
        """
        loss = steps.mean(losses).sum()
        backward(loss, self._critic_parameters)
        return loss, steps.errors(errors.detach().abs().mean(0))

    def _after_step(self) -> None:
        if self.num_updates % self.config.target_update_every == 0:
            self.actor.update_targets(self.config.tau)
