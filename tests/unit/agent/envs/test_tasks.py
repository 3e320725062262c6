from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from recollect.agent.envs.tasks import BIT_FLIP_ID, RECALL_CUE_ID, ROOM_CHAIN_ID, BitFlip, RecallCue, RoomChain
from recollect.errors import ConfigError


@pytest.mark.parametrize(
    ("task_id", "options"), [(BIT_FLIP_ID, {"n": 5}), (RECALL_CUE_ID, {"delay": 3}), (ROOM_CHAIN_ID, {})]
)
def test_tasks_are_proper_envs(task_id: str, options: dict[str, Any]) -> None:
    check_env(gym.make(task_id, **options).unwrapped, skip_render_check=True)


def test_bit_flip_ends_when_the_goal_is_reached() -> None:
    env = BitFlip(6)
    lengths = set()
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        wrong = np.flatnonzero(obs["observation"] != obs["desired_goal"])
        lengths.add(len(wrong))
        for bit in wrong:
            assert not (obs["achieved_goal"] == obs["desired_goal"]).all()
            obs, reward, terminated, truncated, info = env.step(bit)
            is_last = bit == wrong[-1]
            assert (reward, terminated, truncated, info["is_success"]) == (is_last - 1.0, is_last, False, is_last)
        assert (obs["achieved_goal"] == obs["desired_goal"]).all()
    assert 0 not in lengths
    assert len(lengths) > 3


def test_bit_flip_is_truncated_after_n_steps() -> None:
    env = BitFlip(4)
    env.reset(seed=0)
    ends = [env.step(np.int64(bit))[2:4] for bit in (0, 0, 1, 1)]
    assert ends == [(False, False)] * 3 + [(False, True)]


def test_bit_flip_judges_whole_batches() -> None:
    env = BitFlip(2)
    achieved, desired = np.array([[0.0, 1], [1, 1]]), np.array([[0.0, 1], [0, 1]])
    assert env.compute_reward(achieved, desired, {}).tolist() == [0, -1]
    assert env.compute_terminated(achieved, desired, {}).tolist() == [True, False]


def test_observations_are_not_written_to_later() -> None:
    env = BitFlip(3)
    first, _ = env.reset(seed=0)
    copy = first["observation"].copy()
    env.step(np.int64(1))
    assert (first["observation"] == copy).all()


@pytest.mark.parametrize("delay", [1, 4])
def test_recall_cue_asks_after_the_delay(delay: int) -> None:
    env = RecallCue(delay, num_cues=3)
    cues = set()
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        cue = int(np.argmax(obs[:3]))
        cues.add(cue)
        assert obs.tolist() == [*np.eye(3)[cue], 0]
        for step in range(1, delay + 1):
            obs, reward, terminated, _, info = env.step(np.int64(cue))
            assert obs.tolist() == [0, 0, 0, float(step == delay)]
            assert (reward, terminated, info["is_success"]) == (0, False, False)
        answer = cue if seed % 2 else (cue + 1) % 3
        _, reward, terminated, truncated, info = env.step(np.int64(answer))
        assert (reward, terminated, truncated) == (seed % 2, True, False)
        assert info["is_success"] == bool(seed % 2)
    assert cues == {0, 1, 2}


@pytest.mark.parametrize(
    "make", [lambda: BitFlip(0), lambda: RecallCue(0), lambda: RecallCue(3, 0), lambda: RoomChain(0)]
)
def test_bad_sizes(make: Any) -> None:
    with pytest.raises(ConfigError, match="must be at least 1"):
        make()


def test_a_chain_of_rooms_pays_in_the_last_one_alone() -> None:
    env = RoomChain(6)
    room, _ = env.reset(seed=1)
    assert room == 0
    doors = []
    for number in range(6):
        after, reward, terminated, truncated, info = env.step(np.int64(0))
        doors.append(0 if after > room else 1)
        if doors[-1]:
            assert after == max(0, number - 1), "the wrong door leads back"
            env = RoomChain(6)  # the same doors, and steps enough
            env.reset()
            for door in doors:
                after, reward, terminated, truncated, info = env.step(np.int64(door))
        room = after
        is_last = number == 5
        assert (room, reward, terminated, truncated) == (number + 1, float(is_last), is_last, False)
        assert info["is_success"] is is_last
    assert set(doors) == {0, 1}, "no door is right everywhere"


def test_a_chain_of_rooms_leaves_no_time_to_wander_about() -> None:
    env = RoomChain(4)
    door = next(door for door in (0, 1) if RoomChain(4).step(np.int64(door))[0] == 0)
    ends = [env.step(np.int64(door)) for _ in range(6)]
    assert [(end[0], end[3]) for end in ends] == [(0, False)] * 5 + [(0, True)]
