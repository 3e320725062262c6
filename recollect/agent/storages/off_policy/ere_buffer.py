"""`EREBuffer`: replay that emphasises recent experience."""

from collections.abc import Callable
from typing import Any, Final, Unpack

import numpy as np
import torch

from recollect import keys
from recollect.agent.storages.base import Batch, Info, StorageFactory
from recollect.agent.storages.experience.kernels import draw_kernels
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.experience.sampling.outputs import Drawn
from recollect.agent.storages.experience.sampling.recent_window import LearningPace, RecentWindow
from recollect.agent.storages.experience.store.experience_store import NO_FLOORS
from recollect.agent.storages.off_policy.options import StoreOptions
from recollect.agent.storages.off_policy.per_buffer import PERBuffer
from recollect.checks import check_count, check_number
from recollect.errors import SchemaError

_WINDOW: Final = "window"
_PACE: Final = "pace"


class EREBuffer(PERBuffer):
    """Emphasising recent experience (Wang and Ross, 2019, https://arxiv.org/abs/1906.04009).

    The k-th of K updates draws from the newest `c_k = max(N * eta ** (1000 k / K), cmin)` steps: the
    most recent of each lane, shares in proportion to the lanes' sizes. Together with priorities,
    draws are proportional inside that window, and weights relative to it.

    Parameters
    ----------
    size, device, actor, algorithm, envs, n_step, epsilon, alpha, beta, default_error
        As in `PERBuffer`.
    eta : float
        1 takes all data alike, smaller values emphasise recent data.
    cmin : int
        Fewest steps to draw from.
    """

    drawn_keys: tuple[str, ...] = (*PERBuffer.drawn_keys, keys.CK)

    def __init__(
        self,
        size: int,
        device: torch.device | str,
        actor: Any,
        algorithm: Any,
        envs: Any,
        n_step: int | float = 1,
        epsilon: float = 0.0,
        alpha: float = 0.0,
        beta: float = 1.0,
        default_error: int | float = 1000000,
        eta: float = 1.0,
        cmin: int = 5000,
        **options: Unpack[StoreOptions],
    ) -> None:
        super().__init__(size, device, actor, algorithm, envs, n_step, epsilon, alpha, beta, default_error, **options)
        self._recent = RecentWindow(_check_eta(eta), check_count("cmin", cmin))
        self._pace = LearningPace()

    @classmethod
    def create_factory(
        cls,
        size: int,
        n_step: int | float = 1,
        epsilon: float = 0.0,
        alpha: float = 0.0,
        beta: float = 1.0,
        default_error: int | float = 1000000,
        eta: float = 1.0,
        cmin: int = 5000,
        **options: Unpack[StoreOptions],
    ) -> StorageFactory:
        """Return a function that creates `EREBuffer` instances."""
        prioritised = PERBuffer.create_factory(size, n_step, epsilon, alpha, beta, default_error)
        return StorageFactory(cls, {**prioritised.parameters, "eta": eta, "cmin": cmin, **options})

    @property
    def eta(self) -> float:
        """How little old data count, 1 for not at all less."""
        return self._recent.eta

    @property
    def cmin(self) -> int:
        """Fewest steps to draw from."""
        return self._recent.cmin

    def after_gradients(self, batch: Batch, info: Info) -> Info:
        """Update priorities as `PERBuffer` does, and eta where `info` brings training returns."""
        info = super().after_gradients(batch, info)
        if keys.TRAIN_REWARD in info.get(keys.EPISODES, {}):
            self.update_eta(info)
        return info

    def update_eta(self, info: Info) -> None:
        """Emphasise recent data the more, the faster returns improve: eta goes from 1 to its first value.

        Parameters
        ----------
        info : dict
            Holds the newest training return, or several, at `info["Episodes"]["TrainReward"]`.
        """
        try:
            self._pace.add(info[keys.EPISODES][keys.TRAIN_REWARD])
        except (KeyError, TypeError, ValueError):
            raise SchemaError(
                f'update_eta needs one training return or several at info["{keys.EPISODES}"]["{keys.TRAIN_REWARD}"]'
            ) from None
        self._recent.adapt(self._pace.ratio())

    def state(self) -> Extras:
        return super().state() | Extras({_WINDOW: self._recent.state(), _PACE: self._pace.state()})

    def load_state(self, extras: Extras) -> None:
        super().load_state(extras)
        self._pace.load_state(extras.state[_PACE])
        self._recent.load_state(extras.state[_WINDOW], self._pace.ratio())

    def _draw(self, num_rows: int, k: int, num_batches: int) -> Drawn:
        access = self._store.access
        ring, starts = access.ring, access.starts
        progress = self._recent.progress(k, num_batches, ring.num_ends)
        num_steps = len(self._store)
        reach = self._recent.reach(num_steps, progress)
        floors, num_recent = NO_FLOORS, num_steps
        if reach < num_steps:
            floors = np.empty(ring.num_lanes, np.int64)
            num_recent = draw_kernels.recent_floors(ring.header, starts.table, reach, floors)
        return self._draw_prioritised(num_rows, floors, num_recent)

    def _parameter_setters(self) -> dict[str, Callable[[Any], None]]:
        return super()._parameter_setters() | {"eta": self._set_eta, "cmin": self._set_cmin}

    def _set_eta(self, value: Any) -> None:
        self._recent.eta = self._recent.initial_eta = _check_eta(value)

    def _set_cmin(self, value: Any) -> None:
        self._recent.cmin = check_count("cmin", value)


def _check_eta(value: Any) -> float:
    return check_number("eta", value, 0.0, 1.0, above_low=True)
