"""A storage is not filled with steps that its actor's networks cannot take, whatever a file says."""

from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from recollect import keys
from recollect.agent.storages import ReplayBuffer
from recollect.agent.storages.snapshots import load_storage, save_storage
from recollect.errors import StorageError

CHOICES = gym.spaces.Discrete(3)
VECTORS = gym.spaces.Box(-1, 1, (2,), np.float32)
PLACES = gym.spaces.Discrete(4, start=1)
ROOMS = gym.spaces.Dict({"place": gym.spaces.MultiDiscrete([4, 2]), "deep": gym.spaces.Dict({"x": VECTORS})})


class Envs:
    """What a storage asks of environments: how many there are."""

    num_envs = 2


def make_storage(obs_space: gym.Space, action_space: gym.Space = CHOICES) -> ReplayBuffer:
    actor = SimpleNamespace(obs_space=obs_space, action_space=action_space, is_recurrent=False, sequence_overlap=0)
    return ReplayBuffer(50, "cpu", actor, None, Envs(), seed=1)  # type: ignore[arg-type]


def filled(obs_space: gym.Space, action_space: gym.Space = CHOICES) -> ReplayBuffer:
    storage = make_storage(obs_space, action_space)
    batched = gym.vector.utils.batch_space(obs_space, Envs.num_envs)
    shape = (Envs.num_envs, max(1, int(np.prod(action_space.shape))))
    for number in range(6):
        ends = np.full((Envs.num_envs, 1), number % 3 == 2)
        action = np.full(shape, number % 2, np.int64)
        reward = np.ones((Envs.num_envs, 1), np.float32)
        sample = {keys.OBS: batched.sample(), keys.NEXT_OBS: batched.sample(), keys.ACTION: action, keys.REWARD: reward}
        storage.insert_transition(sample | {keys.DONE: ends, keys.NEXT_DONE: ends, keys.NEXT_TERMINATED: ends})
    return storage


@pytest.mark.parametrize("obs_space", [VECTORS, PLACES, ROOMS], ids=["vectors", "places", "rooms"])
@pytest.mark.parametrize(
    "action_space", [CHOICES, gym.spaces.MultiBinary(3), gym.spaces.MultiDiscrete([[2, 3], [2, 2]])]
)
def test_steps_of_the_spaces_are_taken(obs_space: gym.Space, action_space: gym.Space, tmp_path: Path) -> None:
    storage = make_storage(obs_space, action_space)
    save_storage(filled(obs_space, action_space), tmp_path)
    load_storage(storage, tmp_path)
    assert len(storage) == 12


@pytest.mark.parametrize("action", [-1, 3, 2**31])
def test_actions_that_there_are_not_are_refused(action: int, tmp_path: Path) -> None:
    other, storage = filled(VECTORS), make_storage(VECTORS)
    other.data[keys.ACTION][1, 2] = action
    save_storage(other, tmp_path)
    with pytest.raises(StorageError, match=r"actions that are not of Discrete\(3\)"):
        load_storage(storage, tmp_path)
    assert len(storage) == 0


@pytest.mark.parametrize("value", [0, 5, -(2**40)])
def test_observations_that_are_no_choice_are_refused(value: int, tmp_path: Path) -> None:
    for space, path in ((PLACES, (keys.OBS,)), (ROOMS, (keys.OBS, "place"))):
        other = filled(space)
        ring = other.store.ring
        ring.column(ring.schema.stored[path])[0, 5] = value - (space is ROOMS)
        save_storage(other, tmp_path)
        with pytest.raises(StorageError, match="observations that are not of"):
            load_storage(make_storage(space), tmp_path)


@pytest.mark.parametrize("obs_space", [gym.spaces.Box(-1, 1, (3,), np.float32), PLACES, ROOMS])
def test_steps_of_another_task_are_refused(obs_space: gym.Space, tmp_path: Path) -> None:
    save_storage(filled(obs_space), tmp_path)
    with pytest.raises(StorageError, match="does not fit: the steps have observations of"):
        load_storage(make_storage(VECTORS), tmp_path)
    save_storage(filled(VECTORS, gym.spaces.MultiDiscrete([3, 3])), tmp_path / "more")
    with pytest.raises(StorageError, match="does not fit: the steps have actions of"):
        load_storage(make_storage(VECTORS), tmp_path / "more")
