"""`VTraceBuffer`: rollouts of older policies, corrected by V-trace."""

from dataclasses import dataclass

import torch

from recollect import keys
from recollect.agent.storages.base import Creates
from recollect.agent.storages.on_policy.returns import vtrace
from recollect.agent.storages.on_policy.rollout_buffer import RolloutBuffer, RolloutConfig
from recollect.agent.storages.on_policy.time_major import TimeMajorSteps
from recollect.options import number, option


@dataclass(frozen=True)
class VTraceConfig(RolloutConfig):
    """Options of rollouts that V-trace corrects."""

    rho_bar: float = option(
        1.0, "Where the importance weights of corrections are clipped.", number(0.0, above_low=True), changes=True
    )
    c_bar: float = option(
        1.0, "Where the importance weights of traces are clipped.", number(0.0, above_low=True), changes=True
    )
    trace_lambda: float = option(1.0, "Weight of longer returns; 1 is the paper's.", number(0.0, 1.0), changes=True)


class VTraceBuffer(RolloutBuffer):
    """Rollouts of older policies, corrected by V-trace (Espeholt et al., 2018, https://arxiv.org/abs/1802.01561).

    `before_gradients` evaluates all stored steps with the present networks, and corrects returns and
    advantages for how likely the present policy is to act as the older one did. In batches `Value` is the
    present one, `LogProb` that of the policy that acted: the ratio that an algorithm clips is the one between
    the policy that learns and the one that acted, so that it cannot run away from what the data tell of.

    Parameters
    ----------
    size, device, actor, algorithm, envs
        As in `RolloutBuffer`.
    *values, **given
        See `VTraceConfig`.
    """

    takes_older_policies = True

    create_factory = Creates(VTraceConfig)
    title = "V-trace"
    config: VTraceConfig
    rho_bar: float
    c_bar: float
    trace_lambda: float

    def _compute(self, steps: TimeMajorSteps) -> dict[str, torch.Tensor]:
        discounts = self._discounts(steps)
        values, log_probs = self._evaluate(steps)
        targets, advantages = vtrace(
            self._rewards(steps),
            discounts,
            values,
            self._next_values(steps, values, discounts),
            steps.continues.float(),
            log_probs - self._column(steps, keys.LOG_PROB),
            rho_bar=self.rho_bar,
            c_bar=self.c_bar,
            trace_lambda=self.trace_lambda,
        )
        return {keys.ADVANTAGE: advantages, keys.RETURN: targets, keys.VALUE: values}
