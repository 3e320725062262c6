"""Running means and deviations of observations and returns."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from recollect.errors import StorageError
from recollect.roles import Observation

_EPSILON: Final = 1e-8
_CLIP: Final = 10.0
_NO_SOURCE: Final = 0
_RETURNS: Final = "returns"


class RunningMeanStd(nn.Module):
    """Running mean and variance of all rows so far, each of `shape`, however they were batched.

    Means and variances of parts are combined as in Chan, Golub and LeVeque (1979). Kept in float64 and saved with
    the weights.
    """

    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))

    def update(self, rows: Tensor) -> None:
        """Take in rows `[batch, *shape]`."""
        if len(rows) == 0:
            return
        rows = rows.double()
        mean, variance = rows.mean(0), rows.var(0, unbiased=False)
        total = self.count + len(rows)
        share = len(rows) / total
        delta = mean - self.mean
        # The variance of 1 that stands before the first row has a count of 0 and so no weight.
        self.variance.mul_(1 - share).add_(variance * share + delta.square() * (share * (1 - share)))
        self.mean.add_(delta * share)
        self.count.copy_(total)

    def scale(self) -> Tensor:
        """Return one over the deviation, float32 `shape`."""
        return (self.variance + _EPSILON).rsqrt().float()


class ObservationNormaliser(nn.Module):
    """Shifts and scales the float arrays of observations; bytes and whole numbers pass unchanged."""

    running: RunningMeanStd | None

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__()
        parts = space.spaces if isinstance(space, gym.spaces.Dict) else {}
        self.names = tuple(parts)
        self.parts = nn.ModuleList(ObservationNormaliser(part) for part in parts.values())
        is_float = isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)
        self.running = RunningMeanStd(space.shape) if is_float and space.shape is not None else None

    def update(self, obs: Observation) -> None:
        """Take in observations `[batch, …]`."""
        for name, part in self._named_parts():
            part.update(obs[name])
        if self.running is not None:
            self.running.update(obs)

    def forward(self, obs: Observation) -> Observation:
        """Observations `[batch, …]` -> the same with mean 0 and deviation 1, clipped at 10."""
        if self.names:
            return {name: part(obs[name]) for name, part in self._named_parts()}
        if self.running is None:
            return obs
        return ((obs - self.running.mean).float() * self.running.scale()).clamp_(-_CLIP, _CLIP)

    def _named_parts(self) -> Iterator[tuple[str, Any]]:
        return zip(self.names, self.parts, strict=True)


class RewardNormaliser(nn.Module):
    """Scales rewards by the deviation of the running discounted return, so that values are of order 1."""

    def __init__(self) -> None:
        super().__init__()
        self.running = RunningMeanStd((1,))
        self._returns: dict[Hashable, Tensor] = {}

    def episodes_state(self) -> dict[str, Tensor]:
        """Returns so far of the episodes in progress, of the steps that came without a source."""
        returns = self._returns.get(_NO_SOURCE)
        return {} if returns is None else {_RETURNS: returns.clone()}

    def load_episodes(self, state: Mapping[str, Any], num_envs: int) -> None:
        """Continue the returns of `episodes_state`; without any, all begin at 0."""
        self._returns.clear()
        if _RETURNS not in state:
            return
        returns = torch.as_tensor(state[_RETURNS])
        is_good = returns.dtype == torch.float64 and returns.shape == (num_envs, 1)
        if not is_good or not torch.isfinite(returns).all():
            raise StorageError(
                f"a state has returns of {returns.dtype} {tuple(returns.shape)}, expected finite ones of "
                f"torch.float64 {(num_envs, 1)}"
            )
        self._returns[_NO_SOURCE] = returns.to(self.running.mean.device, copy=True)

    def update(
        self,
        reward: Tensor,
        done: Tensor,
        gamma: float,
        source: Hashable = _NO_SOURCE,
        rows: slice | np.ndarray = slice(None),
    ) -> None:
        """Take in one step of every env: rewards and whether the episode ended with it, `[num_envs, 1]`.

        Each `source` of steps, such as a worker, has running returns of its own. Only returns of `rows` count.
        """
        returns = self._returns.get(source)
        if returns is None or returns.shape != reward.shape:
            returns = torch.zeros_like(reward, dtype=torch.float64)
        returns = returns * gamma + reward
        self.running.update(returns[rows])
        self._returns[source] = returns * (1 - done.double())

    def forward(self, reward: Tensor) -> Tensor:
        """Rewards of any shape -> the same, scaled."""
        return reward * self.running.scale()
