"""Stable-Baselines3's algorithms with what prioritised replay needs: weighted losses and reported TD errors.

Their own `train` runs, with other functions under the names of its losses. Everything else is SB3's.
"""

from collections.abc import Callable
from importlib.util import find_spec
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import stable_baselines3 as sb3
import torch
from torch.nn import functional

from recollect.adapters.sb3.buffers import PERBuffer
from recollect.adapters.sb3.owner import ReportsErrors
from recollect.errors import ConfigError, StorageError
from recollect.extras import the_extra

Loss = Callable[..., torch.Tensor]

# What SB3's modules call their losses: functions of torch below a name, and one of sb3-contrib.
_FUNCTIONAL: Final = "F"
_TORCH_LOSSES: Final = ("mse_loss", "smooth_l1_loss")
_QUANTILE_LOSS: Final = "quantile_huber_loss"


class PriorityReport:
    """Weighs the critics' losses of a batch, and tells its buffer the TD errors.

    Parameters
    ----------
    buffer : PERBuffer
        Where batches come from.
    num_losses : int
        Losses that a batch has, one for each critic; its errors are means over them.
    """

    def __init__(self, buffer: PERBuffer, num_losses: int) -> None:
        self._buffer = buffer
        self._num_losses = num_losses
        self._errors: list[torch.Tensor] = []
        self.num_batches = 0

    def weighted(self, loss: Loss) -> Loss:
        """The same loss, whose gradients are those of each row's loss times the row's weight."""

        def weighted_loss(current: torch.Tensor, target: torch.Tensor, **options: Any) -> torch.Tensor:
            samples = self._buffer.drawn
            if samples is None or samples.weights is None:
                raise StorageError("a loss was computed before a prioritised batch was drawn")
            constant = current.detach()
            self._collect(constant, target)
            weights = samples.weights.reshape(-1, *[1] * (current.ndim - 1))  # [batch, 1, ...]
            # Values stay what they are and gradients are scaled row by row, whatever the loss does with its rows.
            return loss(constant + weights * (current - constant), target, **options)

        return weighted_loss

    def _collect(self, current: torch.Tensor, target: torch.Tensor) -> None:
        """Take in the errors of one loss, of quantiles those of their means; report those of all losses together."""
        self._errors.append((_row_means(target) - _row_means(current)).abs())  # [batch]
        if len(self._errors) == self._num_losses and self._buffer.drawn is not None:
            self._buffer.update_priorities(self._buffer.drawn, torch.stack(self._errors).mean(0))
            self._errors.clear()
            self.num_batches += 1


def _row_means(values: torch.Tensor) -> torch.Tensor:
    return values.reshape(len(values), -1).mean(1)


def _with_weights(train: FunctionType, report: PriorityReport) -> FunctionType:
    """The same code with weighted losses under the names of its own; no module is changed."""
    torch_losses = {name: report.weighted(getattr(functional, name)) for name in _TORCH_LOSSES}
    names: dict[str, Any] = {_FUNCTIONAL: SimpleNamespace(**vars(functional) | torch_losses)}
    if _QUANTILE_LOSS in train.__globals__:
        names[_QUANTILE_LOSS] = report.weighted(train.__globals__[_QUANTILE_LOSS])
    return FunctionType(
        train.__code__, {**train.__globals__, **names}, train.__name__, train.__defaults__, train.__closure__
    )


class _Prioritised(ReportsErrors):
    """Trains as the class after it does, with weighted losses if its buffer has priorities."""

    replay_buffer: Any

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Make gradient steps."""
        theirs, buffer = super().train, self.replay_buffer  # type: ignore[misc]
        if not isinstance(buffer, PERBuffer) or not buffer.has_priorities:
            theirs(gradient_steps, batch_size)
            return
        report = PriorityReport(buffer, self._num_losses())
        _with_weights(theirs.__func__, report)(self, gradient_steps, batch_size)
        if report.num_batches != gradient_steps:
            raise StorageError(
                f"TD errors of {report.num_batches} batches were reported in {gradient_steps} gradient steps: "
                f"recollect.adapters.sb3 does not know the losses of this {type(self).__name__}"
            )

    def _num_losses(self) -> int:
        """Losses of a batch."""
        return 1


class _EachCritic(_Prioritised):
    """Has a loss for each critic."""

    critic: Any

    def _num_losses(self) -> int:
        return int(self.critic.n_critics)


class SAC(_EachCritic, sb3.SAC):
    """SB3's SAC, which weighs its critics' losses and reports TD errors if its buffer has priorities.

    Examples
    --------
    >>> from recollect.adapters.sb3 import PERBuffer
    >>> model = SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=PERBuffer, replay_buffer_kwargs=dict(n_step=3))
    """


class TD3(_EachCritic, sb3.TD3):
    """SB3's TD3, in the same way."""


class DQN(_Prioritised, sb3.DQN):
    """SB3's DQN, in the same way."""


if TYPE_CHECKING or find_spec("sb3_contrib"):
    import sb3_contrib

    class TQC(_Prioritised, sb3_contrib.TQC):
        """sb3-contrib's TQC, in the same way; the error of a row is that of its quantiles' means."""


def __getattr__(name: str) -> Any:
    if name == "TQC":
        raise ConfigError(f"TQC needs sb3-contrib, of {the_extra('sb3')}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
