"""`EREBuffer`: replay that emphasises recent experience."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from recollect import keys
from recollect.agent.storages.base import Creates
from recollect.agent.storages.experience.kernels import draw_kernels
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.experience.sampling.recent_window import LearningPace, RecentWindow
from recollect.agent.storages.experience.store.ring.ring_access import NO_FLOORS
from recollect.agent.storages.off_policy.per_buffer import PERBuffer, PERConfig
from recollect.agent.storages.off_policy.replay_buffer import Drawn
from recollect.errors import SchemaError
from recollect.options import count, number, option
from recollect.roles import Batch, Info

_ETA: Final = "eta"
_WINDOW: Final = "window"
_PACE: Final = "pace"
# The window is at least this share of all that the storage can hold, or the default cmin if that is less.
_MIN_SHARE: Final = 0.05


@dataclass(frozen=True)
class EREConfig(PERConfig):
    """Options of replay that emphasises recent experience."""

    eta: float = option(
        1.0,
        "1 takes all data alike, smaller values emphasise recent data.",
        number(0.0, 1.0, above_low=True),
        changes=True,
    )
    cmin: int = option(5000, "Fewest steps to draw from.", count, changes=True)

    @classmethod
    def recommended(cls, given: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
        """ERE brings no priorities along; where it is given some, by an alpha, it gets the rest of what PER gets."""
        prioritised = super().recommended(given, num_envs) if given.get("alpha") else {}
        size = given.get("size")
        least = _MIN_SHARE * size * num_envs if isinstance(size, int | float) else cls.cmin
        window = {"cmin": max(1, int(least))} if least < cls.cmin else {}
        return prioritised | {_ETA: 0.996} | window


class EREBuffer(PERBuffer):
    """Emphasising recent experience (Wang and Ross, 2019, https://arxiv.org/abs/1906.04009).

    The k-th of K updates draws from the newest `c_k = max(N * eta ** (1000 k / K), cmin)` steps: the
    most recent of each lane, shares in proportion to the lanes' sizes. Together with priorities,
    draws are proportional inside that window, and weights relative to it.

    Parameters
    ----------
    size, device, actor, algorithm, envs
        As in `ReplayBuffer`.
    *values, **given
        See `EREConfig`.
    """

    drawn_keys: ClassVar[tuple[str, ...]] = (*PERBuffer.drawn_keys, keys.CK)

    create_factory = Creates(EREConfig)
    title = "ERE"
    config: EREConfig
    cmin: int

    def _make_parts(self) -> None:
        super()._make_parts()
        self._recent = RecentWindow(self.config.eta, self.config.cmin)
        self._pace = LearningPace()

    @property
    def eta(self) -> float:
        """How little old data count, 1 for not at all less."""
        return self._recent.eta

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
        floors, num_recent = self._newest(self._recent.progress(k, num_batches, self._store.ring.num_ends))
        ids, columns = self._draw_prioritised(num_rows, floors)
        return Drawn(ids, (*columns, np.full(num_rows, num_recent)))

    def _newest(self, progress: float) -> tuple[np.ndarray, int]:
        """Oldest step of each lane that may be drawn, `NO_FLOORS` where all may, and how many steps that leaves."""
        access, num_steps = self._store.access, len(self._store)
        reach = self._recent.reach(num_steps, progress)
        if reach >= num_steps:
            return NO_FLOORS, num_steps
        floors = np.empty(access.ring.num_lanes, np.int64)
        return floors, draw_kernels.recent_floors(access.ring.header, access.starts.table, reach, floors)

    def _on_change(self, name: str) -> None:
        super()._on_change(name)
        self._recent.cmin = self.config.cmin
        if name == _ETA:
            self._recent.eta = self._recent.initial_eta = self.config.eta
