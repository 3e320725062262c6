"""`GAEBuffer`: rollouts with generalised advantage estimates."""

from dataclasses import dataclass

import torch

from recollect import keys
from recollect.agent.storages.base import Creates
from recollect.agent.storages.on_policy.returns import gae
from recollect.agent.storages.on_policy.rollout_buffer import RolloutBuffer, RolloutConfig
from recollect.agent.storages.on_policy.time_major import TimeMajorSteps
from recollect.options import choices, number, option


@dataclass(frozen=True)
class GAEConfig(RolloutConfig):
    """Options of rollouts with generalised advantage estimates."""

    gae_lambda: float = option(
        0.95,
        "Weight of longer returns: 0 trusts the critic after one step, 1 the rewards alone.",
        number(0.0, 1.0),
        changes=True,
        search=choices(0.9, 0.95, 0.98, 1.0),
    )


class GAEBuffer(RolloutBuffer):
    """Rollouts with generalised advantage estimates (Schulman et al., 2015, https://arxiv.org/abs/1506.02438).

    Values and log-probabilities are those that the actor gave when it acted; if it normalises
    observations, whose statistics have changed since, they are computed again. A truncated episode bootstraps
    from the value of its true last observation, a terminated one from nothing.

    Parameters
    ----------
    size, device, actor, algorithm, envs
        As in `RolloutBuffer`.
    *values, **given
        See `GAEConfig`.

    Examples
    --------
    >>> GAEBuffer.create_factory(128, gae_lambda=0.9)
    StorageFactory(GAEBuffer, size=128, gae_lambda=0.9)
    """

    create_factory = Creates(GAEConfig)
    title = "GAE"
    config: GAEConfig
    gae_lambda: float

    def _compute(self, steps: TimeMajorSteps) -> dict[str, torch.Tensor]:
        if getattr(self.actor, "normaliser", None) is None:
            values, log_probs = self._column(steps, keys.VALUE), self._column(steps, keys.LOG_PROB)
        else:
            values, log_probs = self._evaluate(steps)
        discounts = self._discounts(steps)
        advantages = gae(
            self._rewards(steps),
            discounts,
            values,
            self._next_values(steps, values, discounts),
            steps.continues.float(),
            self.gae_lambda,
        )
        returns = advantages + values
        return {keys.ADVANTAGE: advantages, keys.RETURN: returns, keys.VALUE: values, keys.LOG_PROB: log_probs}
