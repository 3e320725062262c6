"""Episodes out of storages and into them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch

from recollect import keys
from recollect.agent.actors.base import Actor
from recollect.agent.envs.spaces import ActionFormat
from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.agent.storages.experience.sampling.outputs import map_arrays
from recollect.data.episode import Episode, Spaces
from recollect.errors import ConfigError, SchemaError
from recollect.roles import Observation

# Continuous actions as a policy chose them, which the env's units do not tell to the bit.
POLICY_ACTION: Final = "PolicyAction"
_MAX_AT_ONCE: Final = 1024


def episodes_in(storage: BaseBuffer) -> Iterator[Episode]:
    """Episodes that a storage holds, oldest first in each lane, with actions in the env's units."""
    actor = storage.actor if isinstance(storage.actor, Actor) else None
    for steps in storage.episodes():
        episode = Episode.of_steps(steps)
        yield episode if actor is None else _in_env_units(episode, actor)


def spaces_of(storage: BaseBuffer) -> Spaces:
    """Spaces of what a storage holds: its actor's, or else as wide as the dtypes."""
    if isinstance(storage.actor, Actor):
        return Spaces(storage.actor.obs_space, storage.actor.action_space)
    first = next(iter(storage.episodes()), None)
    if first is None:
        raise ConfigError("the storage is empty; store some steps first")
    return Spaces(_space_like(first[keys.OBS]), _space_like(first[keys.ACTION]))


def fill(storage: BaseBuffer, episodes: Iterable[Episode], part: str | None = None) -> int:
    """Store episodes, whole and in order, each behind the shortest lane; returns how many steps they have.

    Of a `MixedBuffer` they become a part, the first one if none is named. Actions are taken as the storage's actor has
    them. Where it has memory and the data no hidden states, these are zero.
    """
    if part is not None and part not in storage.lasting_sources:
        raise ConfigError(
            f"the storage has no part {part!r} for data; use a MixedBuffer that names it: data_share={{{part!r}: 0.5}}"
        )
    lanes = _Lanes(storage, storage.data_source if part is None else part)
    num_steps = 0
    for episode in episodes:
        lanes.add(_as_kept(episode, storage))
        num_steps += len(episode)
    lanes.finish()
    return num_steps


class _Lanes:
    """Steps that wait for those of the other lanes, since a storage takes those of all envs together."""

    def __init__(self, storage: BaseBuffer, source: Hashable) -> None:
        self._storage = storage
        self._source = source
        self._waiting: list[dict[str, Any] | None] = [None] * storage.num_envs

    def add(self, steps: dict[str, Any]) -> None:
        """Take an episode in; what all lanes have is stored."""
        lane = int(np.argmin(self._lengths()))
        waiting = self._waiting[lane]
        self._waiting[lane] = steps if waiting is None else _behind(waiting, steps)
        while (num_steps := min(min(self._lengths()), _MAX_AT_ONCE)) > 0:
            rows = [self._take(lane, num_steps) for lane in range(len(self._waiting))]
            self._storage.insert_data_slice(_beside(rows), source=self._source)

    def finish(self) -> None:
        """Store what only some lanes have left, step by step; the others are skipped."""
        while max(lengths := self._lengths()):
            longest = self._waiting[int(np.argmax(lengths))]
            blank = _slice(longest, 0, 1)
            rows = [self._take(lane, 1) if length else blank for lane, length in enumerate(lengths)]
            skips = np.array(lengths)[None, :, None] == 0
            self._storage.insert_data_slice({**_beside(rows), keys.SKIP: skips}, source=self._source)

    def _lengths(self) -> list[int]:
        return [0 if steps is None else len(steps[keys.REWARD]) for steps in self._waiting]

    def _take(self, lane: int, num_steps: int) -> Observation:
        steps = self._waiting[lane]
        self._waiting[lane] = _slice(steps, num_steps, None)
        return _slice(steps, 0, num_steps)


def _slice(steps: Observation, begin: int, end: int | None) -> Observation:
    return map_arrays(lambda values: values[begin:end], steps)


def _behind(first: Observation, second: Observation) -> Observation:
    """Steps `[time, ...]` of both, one behind the other; marks that one of them lacks are off there."""
    if not isinstance(first, Mapping):
        return np.concatenate([first, second])
    return {name: _behind(*_of_both(name, first, second)) for name in {**first, **second}}


def _beside(rows: Sequence[Observation]) -> Observation:
    """Steps `[time, num_envs, ...]` of steps `[time, ...]` of each env."""
    if not isinstance(rows[0], Mapping):
        return np.stack(rows, 1)
    names = {name: None for row in rows for name in row}
    return {name: _beside([_mark(name, row) for row in rows]) for name in names}


def _of_both(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[Any, Any]:
    return _mark(name, first), _mark(name, second)


def _mark(name: str, steps: Mapping[str, Any]) -> Observation:
    """Values of steps; of a mark that they do not have, none."""
    if name in steps or name not in (keys.CUT, keys.START):
        try:
            return steps[name]
        except KeyError:
            raise SchemaError(f"some episodes have {name!r} and others lack it; load them apart") from None
    return np.zeros((len(steps[keys.REWARD]), 1), np.bool_)


def _in_env_units(episode: Episode, actor: Actor) -> Episode:
    stored = torch.from_numpy(episode.actions)
    in_env = actor.to_env(stored.to(actor.device)).cpu()
    actions = ActionFormat(actor.action_space, len(episode))(in_env)
    is_exact = not isinstance(actor.action_space, gym.spaces.Box)
    extras = episode.extras if is_exact else {**episode.extras, POLICY_ACTION: episode.actions}
    return replace(episode, actions=actions, extras=extras)


def _from_env(actions: np.ndarray, actor: Actor, dtype: torch.dtype) -> torch.Tensor:
    """Actions in the policy's units `[time, numbers]`."""
    given = torch.from_numpy(np.ascontiguousarray(actions)).reshape(len(actions), -1).to(dtype)
    return actor.actions.from_env(given.to(actor.device)).cpu()


def _as_kept(episode: Episode, storage: BaseBuffer) -> dict[str, Any]:
    """Steps of an episode as a storage takes them, with its own units, dtypes and hidden states."""
    actor = storage.actor if isinstance(storage.actor, Actor) else None
    extras = dict(episode.extras)
    chosen = extras.pop(POLICY_ACTION, None)
    if actor is None:
        return _with_flags(replace(episode, extras=extras).steps(), storage)
    _check_observations(episode.observations, actor.obs_space)
    if chosen is None:
        is_box = isinstance(actor.action_space, gym.spaces.Box)
        chosen = _from_env(episode.actions, actor, torch.float32 if is_box else torch.int64).numpy()
    if actor.is_recurrent:
        extras.setdefault(keys.RHS, np.zeros((len(episode), actor.recurrent_size), np.float32))
    else:
        extras = {name: values for name, values in extras.items() if name not in (keys.RHS, keys.START)}
    extras = _with_intrinsic_rewards(extras, episode.observations, actor)
    return _with_flags(replace(episode, actions=chosen, extras=extras).steps(), storage)


def _with_intrinsic_rewards(extras: dict[str, Any], observations: Observation, actor: Actor) -> dict[str, Any]:
    """Extras with intrinsic rewards where the agent has any, as own steps have them: those of now if none are given."""
    if actor.curiosity is None:
        return {name: values for name, values in extras.items() if name != keys.IREWARD}
    if keys.IREWARD in extras:
        return extras
    rewards = actor.curiosity(actor.visible(map_arrays(lambda values: values[1:], observations)))
    return extras | {keys.IREWARD: rewards.cpu().numpy()}


def _with_flags(steps: dict[str, Any], storage: BaseBuffer) -> dict[str, Any]:
    """Steps whose flags have the dtypes that the storage has, or that its own steps will have: `add` gives floats."""
    if storage.store.is_built:
        dtypes: Mapping[str, Any] = storage.store.ring.schema.flags
    else:
        ends = np.bool_ if isinstance(storage.actor, Actor) else np.float32
        dtypes = {keys.DONE: np.float32, keys.NEXT_DONE: ends, keys.NEXT_TERMINATED: ends}
    return {name: values.astype(dtypes[name]) if name in dtypes else values for name, values in steps.items()}


def _check_observations(observations: Observation, space: gym.Space[Any]) -> None:
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(observations, Mapping) or observations.keys() != space.keys():
            found = sorted(observations) if isinstance(observations, Mapping) else "one array"
            raise SchemaError(f"the data's observations have {found}, the agent's {sorted(space)}; give data like its")
        for name, inner in space.items():
            _check_observations(observations[name], inner)
    else:
        array = np.asarray(observations)
        if (array.shape[1:], array.dtype) != (space.shape, space.dtype):
            raise SchemaError(
                f"the data's observations have shape {array.shape[1:]} and dtype {array.dtype}, the agent's "
                f"{space.shape} and {space.dtype}; give data of the same environment, with the same wrappers"
            )


def _space_like(values: Observation) -> gym.Space[Any]:
    """The widest space that holds tensors `[time, ...]`."""
    if isinstance(values, Mapping):
        return gym.spaces.Dict({name: _space_like(inner) for name, inner in values.items()})
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return gym.spaces.Box(-np.inf, np.inf, array.shape[1:], array.dtype.type)
    if array.dtype.kind == "b":
        return gym.spaces.Box(0, 1, array.shape[1:], np.bool_)
    limits = np.iinfo(array.dtype)
    return gym.spaces.Box(limits.min, limits.max, array.shape[1:], array.dtype.type)
