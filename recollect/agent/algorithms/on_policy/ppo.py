"""`PPO`: proximal policy optimisation."""

from dataclasses import dataclass

from torch import Tensor

from recollect import keys
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.on_policy.policy_gradient import PolicyGradient, PolicyGradientConfig
from recollect.agent.algorithms.on_policy.surrogate import (
    clipped_fraction,
    clipped_surrogate,
    clipped_value_loss,
    estimated_kl,
    explained_variance,
)
from recollect.agent.algorithms.utils import backward
from recollect.options import choices, flag, number, option, optional
from recollect.roles import Batch


@dataclass(frozen=True, kw_only=True)
class PPOConfig(PolicyGradientConfig):
    """Options of `PPO`."""

    clip: float = option(
        0.2,
        "How far the ratio of policies may move from 1.",
        number(0.0, above_low=True),
        search=choices(0.1, 0.2, 0.3),
    )
    value_clip: float | None = option(
        None, "How far a value may move from what it was; none for any.", optional(number(0.0, above_low=True))
    )
    target_kl: float | None = option(
        None, "KL divergence from the acting policy that ends an update stage; none for any.", optional(number(0.0))
    )
    anneal_clip: bool = option(False, "Let `clip` fall with the learning rate.", flag)


class PPO(PolicyGradient):
    """Proximal policy optimisation with a clipped objective (Schulman et al., 2017, https://arxiv.org/abs/1707.06347).

    Body, policy and critic take their steps together. A mini-batch whose KL divergence is above
    `target_kl` gives no gradient and ends the update stage.

    Examples
    --------
    >>> PPO.create_factory(update_every=64, entropy_weight=0.01)
    AlgorithmFactory(PPO, update_every=64, entropy_weight=0.01)
    """

    config_class = PPOConfig
    config: PPOConfig
    title = "PPO"
    optimiser_epsilon = 1e-5

    @property
    def clip(self) -> float:
        """How far the ratio of policies may move from 1 now."""
        return self.config.clip * (self._rate_share() if self.config.anneal_clip else 1.0)

    def _backward(self, batch: Batch) -> Losses:
        features, rows, mask = self._read(batch)
        policy = self._distribution(features, mask)
        log_ratio = policy.log_prob(rows[keys.ACTION]) - rows[keys.LOG_PROB]
        kl = estimated_kl(log_ratio.detach())
        stops = self.config.target_kl is not None and bool(kl > self.config.target_kl)
        loss_pi = -clipped_surrogate(log_ratio, self._advantages(rows), self.clip).mean()
        loss_v = self._value_losses(self.critics(features), rows).mean()
        entropy = policy.entropy().mean()
        if not stops:
            backward(loss_pi + self.config.value_weight * loss_v - self.config.entropy_weight * entropy)
        return Losses(
            {
                "loss_pi": loss_pi,
                "loss_v": loss_v,
                "entropy": entropy,
                "kl": kl,
                "clip_fraction": clipped_fraction(log_ratio.detach(), self.clip),
                "explained_variance": explained_variance(rows[keys.VALUE], rows[keys.RETURN]),
                keys.EARLY_STOP: kl.new_tensor(float(stops)),
            }
        )

    def _value_losses(self, values: Tensor, rows: dict[str, Tensor]) -> Tensor:
        if self.config.value_clip is None:
            return (values - rows[keys.RETURN]).square()
        return clipped_value_loss(values, rows[keys.VALUE], rows[keys.RETURN], self.config.value_clip)
