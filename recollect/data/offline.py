"""Data to learn from before the first env step."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from recollect.agent.actors.base import Actor
from recollect.agent.actors.networks.normalise import RunningMeanStd
from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.agent.storages.experience.sampling.outputs import map_arrays
from recollect.agent.storages.off_policy.mixed_buffer import MixedBuffer
from recollect.config import RunConfig
from recollect.config.parts import is_on_policy
from recollect.data.sources import load_into, open_source
from recollect.errors import ConfigError
from recollect.scheme.base.commands import Command
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.gradients.worker_journal import as_buffer
from recollect.scheme.scheme import Scheme

# Where the running returns of data come from, for the normaliser of rewards.
_DATA: Final = "data"


@dataclass(frozen=True)
class LoadData(Command):
    """Have every gradient worker fill its storage with the same data, unless it holds something already.

    Attributes
    ----------
    places : mapping
        Where the data are, by the part of a `MixedBuffer` that they become; None for the first one.
    """

    places: Mapping[str | None, str]

    def apply_to_learner(self, worker: GWorker) -> None:
        """Fill the storage of a worker; collectors need nothing of it."""
        storage = as_buffer(worker.storage)
        if len(storage):
            return
        for part, place in self.places.items():
            load_into(storage, open_source(place), part=part)
        if isinstance(storage, MixedBuffer):
            storage.check_room(max(1, worker.col_workers.num_workers))


def load_data(config: RunConfig, scheme: Scheme) -> None:
    """Fill the empty storages of a run with the data that its config names."""
    if config.data is None:
        return
    if not isinstance(scheme.col_worker.storage, BaseBuffer):
        raise ConfigError("data need a storage that is derived from BaseBuffer")
    if is_on_policy(config.algo):
        raise ConfigError(f"{config.algo} learns from its own experience alone; use an off-policy algorithm")
    if config.updates and not isinstance(scheme.gradients, GWorker):
        raise ConfigError("updates from data alone are computed in this process; leave gradient workers out")
    places = config.data if isinstance(config.data, Mapping) else {None: config.data}
    _show_to_normalisers(scheme, places.values())
    scheme.update_worker.execute(LoadData({part: _absolute(place) for part, place in places.items()}))


def _show_to_normalisers(scheme: Scheme, places: Iterable[str]) -> None:
    """Let the normalisers of an actor that has seen nothing yet see the data, as if it had collected them."""
    actor = scheme.actor
    if scheme.num_steps or not isinstance(actor, Actor):
        return
    normalisers = [part for part in actor.modules() if isinstance(part, RunningMeanStd)]
    if not normalisers or any(part.count for part in normalisers):
        return
    for place in places:
        for episode in open_source(place):
            returns, last = np.empty((len(episode), 1)), 0.0
            for step, reward in enumerate(episode.rewards.tolist()):
                last = returns[step] = scheme.algo.gamma * last + reward
            obs = map_arrays(lambda values: values[:-1], episode.observations)
            # Steps side by side, each with the running return that its rewards have led to.
            actor.observe(obs, returns, np.ones_like(returns), 0.0, source=_DATA)


def _absolute(place: str) -> str:
    """A path as workers find it, whose working directory may be another; a name as it is."""
    return str(Path(place).absolute()) if Path(place).exists() else place
