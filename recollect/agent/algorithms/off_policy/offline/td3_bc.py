"""`TD3BC`: TD3 that stays close to the actions of its data."""

from dataclasses import dataclass

from torch import Tensor

from recollect.agent.algorithms.losses.targets import td3_bc_losses
from recollect.agent.algorithms.off_policy.actor_critic import no_start_steps
from recollect.agent.algorithms.off_policy.td3 import TD3, TD3Config
from recollect.agent.algorithms.transitions import Transitions
from recollect.options import number, option


@dataclass(frozen=True, kw_only=True)
class TD3BCConfig(TD3Config):
    """Options of `TD3BC`."""

    start_steps: int = no_start_steps()
    bc_alpha: float = option(2.5, "Weight of the critic's value beside that of the data's actions.", number(0.0))


class TD3BC(TD3):
    """TD3 with behaviour cloning (Fujimoto and Gu, 2021, https://arxiv.org/abs/2106.06860), for data that are given.

    With `bc_alpha` 0 it is behaviour cloning alone. The paper's normalised observations are the actor's
    `normalise_observations`, which the preset for vectors sets.

    Examples
    --------
    >>> TD3BC.create_factory(bc_alpha=1.0)
    AlgorithmFactory(TD3BC, bc_alpha=1.0)
    """

    config_class = TD3BCConfig
    config: TD3BCConfig
    title = "TD3+BC"

    def _policy_loss(self, steps: Transitions) -> dict[str, Tensor]:
        if (self.num_computed + 1) % self.config.policy_delay:
            return {}
        features = steps.features.detach()
        action = self.policy(features).mode()
        with self._fixed_critics():
            q_t = self.critics.first(features, action)
        return {"loss_pi": steps.mean(td3_bc_losses(q_t, action, steps.action, self.config.bc_alpha))}
