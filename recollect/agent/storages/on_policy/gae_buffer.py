"""`GAEBuffer`: rollouts with generalised advantage estimates."""

from collections.abc import Callable
from typing import Any, Unpack

import torch

from recollect import keys
from recollect.agent.storages.base import StorageFactory
from recollect.agent.storages.on_policy.options import RolloutOptions
from recollect.agent.storages.on_policy.returns import gae
from recollect.agent.storages.on_policy.rollout_buffer import RolloutBuffer
from recollect.agent.storages.on_policy.time_major import TimeMajorSteps
from recollect.checks import check_number


class GAEBuffer(RolloutBuffer):
    """Rollouts with generalised advantage estimates (Schulman et al., 2015, https://arxiv.org/abs/1506.02438).

    Values and log-probabilities are those that the actor gave when it acted; if it normalises
    observations, whose moments have moved since, they are computed anew. A truncated episode bootstraps
    from the value of its true last observation, a terminated one from nothing.

    Parameters
    ----------
    size, device, actor, algorithm, envs, **options
        As in `RolloutBuffer`.
    gae_lambda : float
        Weight of longer returns: 0 trusts the critic after one step, 1 the rewards alone.

    Examples
    --------
    >>> GAEBuffer.create_factory(128, gae_lambda=0.9)
    StorageFactory(GAEBuffer, size=128, gae_lambda=0.9)
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str,
        actor: Any,
        algorithm: Any,
        envs: Any,
        gae_lambda: float = 0.95,
        **options: Unpack[RolloutOptions],
    ) -> None:
        self._set_gae_lambda(gae_lambda)
        super().__init__(size, device, actor, algorithm, envs, **options)

    @classmethod
    def create_factory(
        cls,
        size: int,
        gae_lambda: float = 0.95,
        **options: Unpack[RolloutOptions],
    ) -> StorageFactory:
        """Return a function that creates `GAEBuffer` instances."""
        return StorageFactory(cls, {"size": size, "gae_lambda": gae_lambda, **options})

    def _compute(self, streams: TimeMajorSteps) -> dict[str, torch.Tensor]:
        values, log_probs = self._values_and_log_probs(streams)
        discounts = self._discounts(streams)
        advantages = gae(
            self._rewards(streams),
            discounts,
            values,
            self._next_values(streams, values, discounts),
            streams.continues.float(),
            self.gae_lambda,
        )
        returns = advantages + values
        return {keys.ADVANTAGE: advantages, keys.RETURN: returns, keys.VALUE: values, keys.LOG_PROB: log_probs}

    def _values_and_log_probs(self, streams: TimeMajorSteps) -> tuple[torch.Tensor, torch.Tensor]:
        if getattr(self.actor, "normaliser", None) is not None:
            return self._evaluate(streams)
        return self._column(streams, keys.VALUE), self._column(streams, keys.LOG_PROB)

    def _parameter_setters(self) -> dict[str, Callable[[Any], None]]:
        return super()._parameter_setters() | {"gae_lambda": self._set_gae_lambda}

    def _set_gae_lambda(self, value: Any) -> None:
        self.gae_lambda = check_number("gae_lambda", value, 0.0, 1.0)
