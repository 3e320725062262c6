"""`PPO`: proximal policy optimisation."""

from dataclasses import dataclass

from recollect import keys
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.on_policy.clipped import Objective, clipped_loss
from recollect.agent.algorithms.on_policy.policy_gradient import PolicyGradient, PolicyGradientConfig
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
        log_prob, entropy = policy.log_prob_and_entropy(rows[keys.ACTION])
        loss, told = clipped_loss(log_prob, entropy, self.critics(features), rows, self._objective())
        stops = self.config.target_kl is not None and bool(told["kl"] > self.config.target_kl)
        if not stops:
            backward(loss)
        return Losses(told | {keys.EARLY_STOP: float(stops)})

    def _objective(self) -> Objective:
        config = self.config
        terms = config.value_clip, config.value_weight, config.entropy_weight, config.normalise_advantages
        return Objective(self.clip, *terms)
