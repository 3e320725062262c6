"""Noise that makes deterministic policies explore."""

import torch
from torch import Generator, Tensor

from recollect.checks import check_number
from recollect.errors import StorageError


class GaussianNoise:
    """Independent normal noise.

    Parameters
    ----------
    std : float
        Deviation, in policy units.
    """

    def __init__(self, std: float = 0.1) -> None:
        self.std = check_number("std", std, 0.0)

    def add_to(self, action: Tensor, done: Tensor, generator: Generator) -> Tensor:
        """Return actions with noise, kept within [-1, 1], `[num_envs, action]`."""
        noise = torch.empty_like(action).normal_(generator=generator)
        return torch.add(action, noise, alpha=self.std).clamp_(-1.0, 1.0)


class OUNoise:
    """Noise that drifts and is pulled back to 0: Uhlenbeck and Ornstein (1930), as used by Lillicrap et al.
    (2015), arXiv 1509.02971.

    Parameters
    ----------
    std : float
        Deviation of each push, in policy units.
    theta : float
        Share of the noise that is lost per step.

    Attributes
    ----------
    drift : tensor [num_envs, action] or None
        The noise of the latest step.
    """

    def __init__(self, std: float = 0.2, theta: float = 0.15) -> None:
        self.std = check_number("std", std, 0.0)
        self.theta = check_number("theta", theta, 0.0, 1.0)
        self.drift: Tensor | None = None

    def load_drift(self, drift: object, device: torch.device) -> None:
        """Continue from noise of before, or from none; a `StorageError` for what no noise can have been."""
        if drift is None:
            self.drift = None
            return
        found = torch.as_tensor(drift)
        if found.dtype != torch.float32 or found.dim() != 2 or not torch.isfinite(found).all():
            raise StorageError(
                f"a state has drifting noise of {found.dtype} {tuple(found.shape)}, expected finite numbers of "
                "torch.float32 (num_envs, action)"
            )
        self.drift = found.to(device, copy=True)

    def add_to(self, action: Tensor, done: Tensor, generator: Generator) -> Tensor:
        """Return actions with noise, kept within [-1, 1], `[num_envs, action]`.

        Where `done` is 1, an episode begins and the noise starts from 0 again, `[num_envs, 1]`.
        """
        drift = self.drift
        if drift is None or drift.shape != action.shape:
            drift = torch.zeros_like(action)
        drift = drift * ((1.0 - self.theta) * (1.0 - done.float()))
        push = torch.empty_like(action).normal_(generator=generator)
        self.drift = torch.add(drift, push, alpha=self.std)
        return (action + self.drift).clamp_(-1.0, 1.0)
