"""`VTraceBuffer`: rollouts of older policies, corrected by V-trace."""

from collections.abc import Callable
from typing import Any, Unpack

import torch

from recollect import keys
from recollect.agent.storages.base import StorageFactory
from recollect.agent.storages.on_policy.options import RolloutOptions
from recollect.agent.storages.on_policy.returns import vtrace
from recollect.agent.storages.on_policy.rollout_buffer import RolloutBuffer
from recollect.agent.storages.on_policy.time_major import TimeMajorSteps
from recollect.checks import check_number


class VTraceBuffer(RolloutBuffer):
    """Rollouts of older policies, corrected by V-trace (Espeholt et al., 2018, https://arxiv.org/abs/1802.01561).

    `before_gradients` evaluates all stored steps with the present networks, and corrects returns and
    advantages for how likely the present policy is to act as the older one did. In batches `Value` is the
    present one, `LogProb` that of the policy that acted: the ratio that an algorithm clips is the one between
    the policy that learns and the one that acted, so that it cannot run away from what the data tell of.

    Parameters
    ----------
    size, device, actor, algorithm, envs, **options
        As in `RolloutBuffer`.
    rho_bar, c_bar : float
        Where the importance weights of corrections and of traces are clipped.
    trace_lambda : float
        Weight of longer returns; 1 is the paper's.
    """

    takes_older_policies = True

    def __init__(
        self,
        size: int,
        device: torch.device | str,
        actor: Any,
        algorithm: Any,
        envs: Any,
        rho_bar: float = 1.0,
        c_bar: float = 1.0,
        trace_lambda: float = 1.0,
        **options: Unpack[RolloutOptions],
    ) -> None:
        self._set_rho_bar(rho_bar)
        self._set_c_bar(c_bar)
        self._set_trace_lambda(trace_lambda)
        super().__init__(size, device, actor, algorithm, envs, **options)

    @classmethod
    def create_factory(
        cls,
        size: int,
        rho_bar: float = 1.0,
        c_bar: float = 1.0,
        trace_lambda: float = 1.0,
        **options: Unpack[RolloutOptions],
    ) -> StorageFactory:
        """Return a function that creates `VTraceBuffer` instances."""
        weights = {"rho_bar": rho_bar, "c_bar": c_bar, "trace_lambda": trace_lambda}
        return StorageFactory(cls, {"size": size, **weights, **options})

    def _compute(self, streams: TimeMajorSteps) -> dict[str, torch.Tensor]:
        discounts = self._discounts(streams)
        values, log_probs = self._evaluate(streams)
        targets, advantages = vtrace(
            self._rewards(streams),
            discounts,
            values,
            self._next_values(streams, values, discounts),
            streams.continues.float(),
            log_probs - self._column(streams, keys.LOG_PROB),
            rho_bar=self.rho_bar,
            c_bar=self.c_bar,
            trace_lambda=self.trace_lambda,
        )
        return {keys.ADVANTAGE: advantages, keys.RETURN: targets, keys.VALUE: values}

    def _parameter_setters(self) -> dict[str, Callable[[Any], None]]:
        return super()._parameter_setters() | {
            "rho_bar": self._set_rho_bar,
            "c_bar": self._set_c_bar,
            "trace_lambda": self._set_trace_lambda,
        }

    def _set_rho_bar(self, value: Any) -> None:
        self.rho_bar = check_number("rho_bar", value, 0.0, above_low=True)

    def _set_c_bar(self, value: Any) -> None:
        self.c_bar = check_number("c_bar", value, 0.0, above_low=True)

    def _set_trace_lambda(self, value: Any) -> None:
        self.trace_lambda = check_number("trace_lambda", value, 0.0, 1.0)
