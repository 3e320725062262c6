"""`recollect.adapters.cleanrl`: our storages under the names of CleanRL's scripts."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.adapters.cleanrl import EREBuffer, PERBuffer, ReplayBuffer
from recollect.errors import SchemaError
from tests.unit.adapters.streams import Step, column, make_stream, window_of

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)
ACTION = spaces.Box(-1, 1, (1,), np.float32)
NAMES = {"new": ("final_obs", "_final_obs"), "old": ("final_observation", "_final_observation")}


def fill(rb: ReplayBuffer, stream: list[list[Step]], style: str) -> None:
    """Add steps as scripts do: terminations apart, true last observations in infos, or in place."""
    for number, steps in enumerate(stream):
        truncated = column(steps, "truncated", bool)
        ended = column(steps, "terminated", bool) | truncated
        next_obs = column(steps, "next_obs")[:, None]
        infos: Any = {}
        if style in NAMES and ended.any():
            key, mask = NAMES[style]
            finals = np.array([None] * len(steps), object)
            for env in np.flatnonzero(ended):
                finals[env] = next_obs[env].copy()
                # An env that reset itself returns the first observation of what comes.
                next_obs[env] = stream[number + 1][env].obs if number + 1 < len(stream) else -1.0
            infos = {key: finals, mask: ended}
        elif style == "list":
            infos = [{"TimeLimit.truncated": bool(flag)} for flag in truncated]
        terminated = ended if style == "list" else column(steps, "terminated", bool)
        rb.add(
            column(steps, "obs")[:, None],
            next_obs,
            column(steps, "action")[:, None],
            column(steps, "reward"),
            terminated,
            infos,
        )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    num_envs=st.integers(1, 3),
    n_step=st.integers(1, 4),
    style=st.sampled_from(["new", "old", "list", "in place"]),
    kind=st.sampled_from([ReplayBuffer, PERBuffer, EREBuffer]),
)
def test_a_batch_holds_what_its_windows_say(seed: int, num_envs: int, n_step: int, style: str, kind: Any) -> None:
    stream = make_stream(seed, 30, num_envs)
    rb = kind(
        num_envs * 20, BOX, ACTION, "cpu", n_envs=num_envs, handle_timeout_termination=False, gamma=0.9, n_step=n_step
    )
    fill(rb, stream, style)
    data = rb.sample(16)
    for row in range(16):
        window = window_of(stream[-20:], data.observations[row].item(), n_step)
        rewards = np.array([step.reward for step in window])
        assert data.rewards[row].item() == pytest.approx((rewards * 0.9 ** np.arange(len(window))).sum(), abs=1e-5)
        assert data.next_observations[row].item() == window[-1].next_obs
        assert data.dones[row].item() == window[-1].terminated
        assert data.discounts[row].item() == pytest.approx(0.0 if window[-1].terminated else 0.9 ** len(window))
        assert data.actions[row].item() == np.float32(window[0].action)


def test_priorities_change_what_is_drawn() -> None:
    rb = PERBuffer(100, BOX, ACTION, n_envs=2, alpha=1.0, epsilon=0.0, seed=1)
    fill(rb, make_stream(2, 30, 2), "new")
    data = rb.sample(100)
    favourite = data.observations[0].item()
    rb.update_priorities(data, (data.observations == favourite).float())
    others = {step.obs for steps in make_stream(2, 30, 2) for step in steps} - set(data.observations[:, 0].tolist())
    drawn = set(rb.sample(100).observations[:, 0].tolist())
    assert favourite in drawn
    assert drawn <= {favourite, *others}


def test_dict_observations_have_their_last_ones_in_place() -> None:
    space = spaces.Dict({"a": BOX, "b": spaces.Discrete(5)})
    rb = ReplayBuffer(100, space, spaces.Discrete(2), n_envs=2, seed=1)
    obs = {"a": np.zeros((2, 1), np.float32), "b": np.zeros(2, np.int64)}
    after = {"a": np.ones((2, 1), np.float32), "b": np.ones(2, np.int64)}
    finals = {"a": np.full((2, 1), 7, np.float32), "b": np.full(2, 3)}
    infos = {"final_obs": finals, "_final_obs": np.array([True, False])}
    rb.add(obs, after, np.array([0, 1]), np.zeros(2), np.zeros(2, bool), infos)
    data = rb.sample(50)
    was_first = data.actions[:, 0] == 0
    assert set(data.next_observations["a"][was_first, 0].tolist()) == {7.0}
    assert set(data.next_observations["b"][was_first, 0].tolist()) == {3}
    assert set(data.next_observations["a"][~was_first, 0].tolist()) == {1.0}
    assert (data.discounts > 0).all()
    with pytest.raises(SchemaError, match="must have the entries"):
        rb.add({"a": obs["a"]}, after, np.array([0, 1]), np.zeros(2), np.zeros(2, bool), {})


def test_steps_of_a_real_vector_environment_are_those_of_its_episodes() -> None:
    envs = gym.make_vec(
        "CartPole-v1",
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
    )
    rb = ReplayBuffer(3000, envs.single_observation_space, envs.single_action_space, n_envs=3, n_step=2, gamma=0.5)
    envs.action_space.seed(1)
    obs, _ = envs.reset(seed=1)
    num_terminated = 0
    for _ in range(200):
        actions = envs.action_space.sample()
        after, rewards, terminations, _, infos = envs.step(actions)
        rb.add(obs, after, actions, rewards, terminations, infos)  # without the lines for last observations
        num_terminated += int(terminations.sum())
        obs = after
    data = rb.sample(3000)
    fell = data.dones[:, 0] == 1
    assert num_terminated > 5
    assert fell.any()
    # A pole that fell is out of bounds, in the last observation alone.
    out = (data.next_observations[:, 2].abs() > math.radians(12)) | (data.next_observations[:, 0].abs() > 2.4)
    assert torch.equal(fell, out)
    assert (data.discounts[~fell] == 0.25).float().mean() > 0.9
