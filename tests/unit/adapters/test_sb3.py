"""`recollect.adapters.sb3`: our storages below Stable-Baselines3's algorithms."""

import copy
import io
import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize
from torch.nn import functional

from recollect.adapters import sb3
from recollect.adapters.sb3.algorithms import PriorityReport
from recollect.errors import ConfigError, RecollectWarning, StorageError
from tests.unit.adapters.streams import Step, column, make_stream, window_of

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)
ACTION = spaces.Box(-1, 1, (1,), np.float32)
BUFFERS = (sb3.ReplayBuffer, sb3.NStepBuffer, sb3.PERBuffer, sb3.EREBuffer)


def fill(buffer: Any, stream: list[list[Step]], wrap: Any = lambda obs: obs) -> None:
    for steps in stream:
        infos = [{"TimeLimit.truncated": step.truncated} for step in steps]
        ended = column(steps, "terminated", bool) | column(steps, "truncated", bool)
        obs, next_obs = column(steps, "obs")[:, None], column(steps, "next_obs")[:, None]
        buffer.add(wrap(obs), wrap(next_obs), column(steps, "action")[:, None], column(steps, "reward"), ended, infos)


class Scaled(VecNormalize):
    """Normalises by fixed numbers."""

    def __init__(self) -> None:
        super().__init__(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), clip_reward=1.5)
        self.ret_rms.var = np.array(0.25)

    def normalize_obs(self, obs: Any) -> Any:
        return obs if isinstance(obs, dict) else (obs / 2).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    num_envs=st.integers(1, 3),
    n_step=st.integers(1, 4),
    num_steps=st.integers(1, 40),
    kind=st.sampled_from(BUFFERS),
    normalised=st.booleans(),
    timeouts=st.booleans(),
)
def test_a_batch_holds_what_its_windows_say(
    seed: int, num_envs: int, n_step: int, num_steps: int, kind: Any, normalised: bool, timeouts: bool
) -> None:
    stream = make_stream(seed, num_steps, num_envs)
    buffer = kind(
        num_envs * 25,
        BOX,
        ACTION,
        "cpu",
        num_envs,
        handle_timeout_termination=timeouts,
        gamma=0.9,
        n_step=n_step,
        seed=1,
    )
    fill(buffer, stream)
    env = Scaled() if normalised else None
    samples = buffer.sample(16, env)
    recent = stream[-25:]
    for row in range(16):
        obs = samples.observations[row].item() * (2 if normalised else 1)
        window = window_of(recent, obs, n_step)
        rewards = np.array([step.reward for step in window])
        if normalised:
            rewards = np.clip(rewards / np.sqrt(0.25 + 1e-8), -1.5, 1.5)
        last = window[-1]
        ends = last.terminated or (last.truncated and not timeouts)
        assert samples.rewards[row].item() == pytest.approx((rewards * 0.9 ** np.arange(len(window))).sum(), abs=1e-5)
        assert samples.next_observations[row].item() * (2 if normalised else 1) == last.next_obs
        assert samples.actions[row].item() == np.float32(window[0].action)
        assert samples.dones[row].item() == ends
        assert samples.discounts[row].item() == pytest.approx(0.0 if ends else 0.9 ** len(window))


def test_dict_and_flat_observations_draw_the_same_rows() -> None:
    stream = make_stream(3, 30, 2)
    drawn = []
    for space, wrap in ((BOX, lambda obs: obs), (spaces.Dict({"x": BOX}), lambda obs: {"x": obs})):
        np.random.seed(5)  # noqa: NPY002  # as SB3 does
        buffer = sb3.ReplayBuffer(50, space, ACTION, n_envs=2)
        fill(buffer, stream, wrap)
        observations = buffer.sample(20).observations
        drawn.append(observations["x"] if isinstance(observations, dict) else observations)
    assert torch.equal(*drawn)


class DrawsLikeTheirs(sb3.ReplayBuffer):
    sample = stable_baselines3.common.buffers.BaseBuffer.sample  # type: ignore[assignment]


class Split(gym.ObservationWrapper[Any, Any, Any]):
    """Observations as a dict of two parts."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        num = env.observation_space.shape[0]  # type: ignore[index]
        parts = {"first": 1, "rest": num - 1}
        self.observation_space = spaces.Dict(
            {name: spaces.Box(-np.inf, np.inf, (length,), np.float32) for name, length in parts.items()}
        )

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"first": observation[:1], "rest": observation[1:]}


@pytest.mark.parametrize("is_dict", [False, True])
@pytest.mark.parametrize("is_normalised", [False, True])
@pytest.mark.parametrize(("name", "env", "num_envs"), [("SAC", "Pendulum-v1", 2), ("DQN", "CartPole-v1", 1)])
def test_an_algorithm_learns_to_the_bit_what_it_learns_from_the_same_rows_of_their_buffer(
    name: str, env: str, num_envs: int, is_normalised: bool, is_dict: bool
) -> None:
    """Rewards, truncations, last observations, dtypes and normalisation are theirs; only the draws are our own."""

    def learn(**options: Any) -> Any:
        made = [lambda: Split(gym.make(env)) if is_dict else gym.make(env)] * num_envs
        envs: Any = DummyVecEnv(made)
        return getattr(stable_baselines3, name)(
            "MultiInputPolicy" if is_dict else "MlpPolicy",
            VecNormalize(envs) if is_normalised else envs,
            buffer_size=300,
            learning_starts=40,
            batch_size=16,
            train_freq=2,
            policy_kwargs={"net_arch": [16]},
            seed=1,
            **options,
        ).learn(500)

    theirs = learn()
    ours = learn(replay_buffer_class=DrawsLikeTheirs, replay_buffer_kwargs={"seed": 0})
    for one, other in zip(theirs.policy.parameters(), ours.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_ring_positions_are_those_of_sb3() -> None:
    stream = make_stream(4, 14, 2)
    theirs = stable_baselines3.common.buffers.ReplayBuffer(20, BOX, ACTION, n_envs=2)
    ours = sb3.ReplayBuffer(20, BOX, ACTION, n_envs=2, optimize_memory_usage=True)
    for number, steps in enumerate(stream):
        assert (ours.pos, ours.full, ours.size()) == (theirs.pos, theirs.full, theirs.size()), number
        fill(theirs, [steps])
        fill(ours, [steps])
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    with pytest.raises(ValueError, match="read-only"):
        ours.rewards[0] = 1
    ours.reset()
    assert (ours.pos, ours.full, ours.size()) == (0, False, 0)
    with pytest.raises(StorageError, match="empty"):
        ours.sample(1)


def test_setting_done_of_the_newest_step_ends_its_episode() -> None:
    buffer = sb3.ReplayBuffer(10, BOX, ACTION, n_step=3, gamma=0.5)
    steps = [Step(float(i), i + 1.0, 0.0, 1.0, False, False) for i in range(4)]
    fill(buffer, [[step] for step in steps])
    buffer.dones[buffer.pos - 1] = True
    fill(buffer, [[Step(4.0, 5.0, 0.0, 1.0, False, False)]])
    samples = buffer.sample(200)
    newest_ended = samples.observations[:, 0] == 3
    assert newest_ended.any()
    assert (samples.dones[newest_ended] == 1).all()
    assert (samples.discounts[newest_ended] == 0).all()
    with pytest.raises(ConfigError, match="newest"):
        buffer.dones[0] = True


@pytest.mark.parametrize("kind", BUFFERS)
def test_a_saved_buffer_draws_what_the_old_one_would(kind: Any, tmp_path: Path) -> None:
    algorithm = sb3.SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=kind, learning_starts=10, batch_size=8, seed=1)
    algorithm.learn(20)
    path = tmp_path / "buffer.pkl"
    algorithm.save_replay_buffer(path)
    other = sb3.SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=kind)
    other.load_replay_buffer(path)
    copied = copy.deepcopy(algorithm.replay_buffer)
    expected = algorithm.replay_buffer.sample(30)
    for buffer in (other.replay_buffer, copied):
        for ours, theirs in zip(buffer.sample(30), expected, strict=True):
            assert torch.equal(ours, theirs)


def test_steps_stand_in_a_snapshot_beside_the_pickled_file(tmp_path: Path) -> None:
    model = sb3.SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=sb3.PERBuffer, learning_starts=10_000)
    path = tmp_path / "buffer.pkl"
    for num_steps in (0, 20, 2000):  # written again over what was there
        if num_steps:
            model.learn(num_steps)
        model.save_replay_buffer(path)
        length = len(model.replay_buffer.memory)
        model.load_replay_buffer(path)
        assert len(model.replay_buffer.memory) == length
        assert path.stat().st_size < 10_000
    with pytest.raises(StorageError, match="use load_replay_buffer"):
        pickle.loads(path.read_bytes())
    stream = io.BytesIO()
    model.save_replay_buffer(stream)
    stream.seek(0)
    model.load_replay_buffer(stream)
    assert len(model.replay_buffer.memory) == length
    # The path is that of the file which is read, not of the one which was written.
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("buffer.pkl", "buffer.pkl.snapshot"):
        (tmp_path / name).rename(moved / name)
    model.load_replay_buffer(moved / "buffer")
    (moved / "buffer.pkl.snapshot").rename(moved / "gone")
    with pytest.raises(StorageError, match="snapshot"):
        model.load_replay_buffer(moved / "buffer")


def test_saved_models_load_with_their_buffer_class(tmp_path: Path) -> None:
    model = sb3.SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=sb3.PERBuffer, replay_buffer_kwargs={"n_step": 2})
    model.save(tmp_path / "model")
    loaded = sb3.SAC.load(tmp_path / "model")
    assert isinstance(loaded.replay_buffer, sb3.PERBuffer)
    assert loaded.replay_buffer.n_steps == 2


def test_gamma_is_that_of_the_algorithm() -> None:
    model = stable_baselines3.SAC(
        "MlpPolicy", "Pendulum-v1", gamma=0.8, replay_buffer_class=sb3.NStepBuffer, learning_starts=5, batch_size=4
    )
    model.learn(8)
    assert model.replay_buffer.gamma == 0.8
    assert model.replay_buffer.sample(50).discounts.max().item() == pytest.approx(0.8)
    model.gamma = 0.7
    assert model.replay_buffer.sample(50).discounts.max().item() == pytest.approx(0.7)
    # A buffer that somebody made alone learns it from who draws.
    model.replay_buffer = sb3.ReplayBuffer(100, model.observation_space, model.action_space)
    model.learn(8)
    assert model.replay_buffer.gamma == 0.7


def test_weighted_losses_have_the_gradients_of_weighted_rows() -> None:
    buffer = sb3.PERBuffer(100, BOX, ACTION, seed=0)
    fill(buffer, make_stream(1, 40, 1))
    buffer.update_priorities(buffer.sample(40), torch.rand(40))
    weights = buffer.sample(16).weights
    assert len(weights.unique()) > 1
    target = torch.randn(16, 1)
    for loss in (functional.mse_loss, functional.smooth_l1_loss):
        current = torch.randn(16, 1, requires_grad=True)
        report = PriorityReport(buffer, 1)
        (found,) = torch.autograd.grad(report.weighted(loss)(current, target), current)
        (expected,) = torch.autograd.grad((weights * loss(current, target, reduction="none")).mean(), current)
        torch.testing.assert_close(found, expected)
        assert report.num_batches == 1


def test_errors_are_means_over_the_critics() -> None:
    buffer = sb3.PERBuffer(10, BOX, ACTION, seed=0, epsilon=0.0)
    fill(buffer, make_stream(1, 10, 1))
    samples = buffer.sample(8)
    report = PriorityReport(buffer, 2)
    zeros = torch.zeros(8, 1)
    report.weighted(functional.mse_loss)(zeros + 3, zeros)
    assert report.num_batches == 0
    report.weighted(functional.mse_loss)(zeros - 1, zeros)
    slots = samples.batch["idxs"].numpy() % buffer.memory.store.ring.num_slots
    assert set(buffer.memory.tree.errors[slots]) == {2.0}


@pytest.mark.parametrize(
    ("name", "env"), [("SAC", "Pendulum"), ("TD3", "Pendulum"), ("TQC", "Pendulum"), ("DQN", "CartPole")]
)
def test_algorithms_learn_from_priorities(name: str, env: str) -> None:
    env = {"Pendulum": "Pendulum-v1", "CartPole": "CartPole-v1"}[env]
    make = getattr(sb3, name)
    options = {"learning_starts": 20, "batch_size": 16, "policy_kwargs": {"net_arch": [16]}, "train_freq": 1}
    model = make("MlpPolicy", env, replay_buffer_class=sb3.PERBuffer, replay_buffer_kwargs={"n_step": 3}, **options)
    model.learn(80)
    errors = model.replay_buffer.memory.tree.errors[:80]
    assert len(np.unique(errors)) > 40
    # With another buffer it is SB3's algorithm, unchanged.
    plain = make("MlpPolicy", env, replay_buffer_class=sb3.ReplayBuffer, seed=1, **options).learn(40)
    parent = next(cls for cls in make.__mro__ if not cls.__module__.startswith("recollect"))
    theirs = parent("MlpPolicy", env, replay_buffer_class=sb3.ReplayBuffer, seed=1, **options).learn(40)
    for left, right in zip(plain.policy.parameters(), theirs.policy.parameters(), strict=True):
        assert torch.equal(left, right)


def test_an_algorithm_that_reports_no_errors_is_told() -> None:
    with pytest.warns(RecollectWarning, match=r"SAC reports no TD errors.*sb3's SAC"):
        stable_baselines3.SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=sb3.PERBuffer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sb3.SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=sb3.PERBuffer)


@pytest.mark.parametrize("vec_env", [DummyVecEnv, partial(SubprocVecEnv, start_method="fork")])
@pytest.mark.parametrize("n_step", [1, 2])
def test_hindsight_asks_the_environment(vec_env: Any, n_step: int, tmp_path: Path) -> None:
    envs = vec_env([lambda: BitFlippingEnv(n_bits=4, continuous=True) for _ in range(2)])
    model = sb3.SAC(
        "MultiInputPolicy",
        envs,
        replay_buffer_class=sb3.HERBuffer,
        replay_buffer_kwargs={"goal_selection_strategy": "final", "n_sampled_goal": 4, "n_step": n_step},
        learning_starts=20,
        batch_size=8,
        policy_kwargs={"net_arch": [16]},
    )
    model.learn(40)
    samples = model.replay_buffer.sample(500)
    reached = (samples.next_observations["achieved_goal"] == samples.next_observations["desired_goal"]).all(1)
    if n_step == 1:
        assert torch.equal(samples.rewards[:, 0], torch.where(reached, 0.0, -1.0))
    assert reached.float().mean() > 0.15  # untrained, one in sixteen would have
    model.save_replay_buffer(tmp_path / "buffer")
    was_running = bool((model.replay_buffer.dones[model.replay_buffer.pos - 1] == 0).any())
    with warnings.catch_warnings(record=True) as given:
        model.load_replay_buffer(tmp_path / "buffer")
    assert ["last trajectory" in str(warning.message) for warning in given] == [True] * was_running
    assert (model.replay_buffer.dones[model.replay_buffer.pos - 1] == 1).all()
    model.learn(10, reset_num_timesteps=False)
    envs.close()


class EndsAtGoal(BitFlippingEnv):
    def compute_terminated(self, achieved: np.ndarray, desired: np.ndarray, info: Any) -> np.ndarray:
        return (achieved == desired).all(-1)


def test_hindsight_ends_windows_where_the_new_goal_is_reached() -> None:
    envs = DummyVecEnv([lambda: EndsAtGoal(n_bits=3, continuous=True)])
    buffer = sb3.HERBuffer(200, envs.observation_space, envs.action_space, envs, share=1.0, strategy="future")
    obs = envs.reset()
    for _ in range(60):
        action = np.random.default_rng(1).random((1, 3))
        after, reward, done, infos = envs.step(action)
        buffer.add(obs, after, action, reward, done, infos)
        obs = after
    samples = buffer.sample(300)
    reached = (samples.next_observations["achieved_goal"] == samples.next_observations["desired_goal"]).all(1)
    assert reached.any()
    assert torch.equal(samples.dones[:, 0] == 1, reached)


def test_hindsight_refuses_rewards_that_it_cannot_normalise() -> None:
    envs = DummyVecEnv([lambda: BitFlippingEnv(n_bits=3, continuous=True)])
    buffer = sb3.HERBuffer(200, envs.observation_space, envs.action_space, envs, n_step=2)
    obs = envs.reset()
    for _ in range(8):
        after, reward, done, infos = envs.step(np.zeros((1, 3)))
        buffer.add(obs, after, np.zeros((1, 3)), reward, done, infos)
        obs = after
    with pytest.raises(ConfigError, match="norm_reward=False"):
        buffer.sample(64, Scaled())


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="single steps"):
        sb3.ReplayBuffer(10, BOX, ACTION, sequence_length=4)
    with pytest.raises(ConfigError, match="did you mean 'alpha'"):
        sb3.PERBuffer(10, BOX, ACTION, alhpa=0.5)
    buffer = sb3.ReplayBuffer(10, BOX, ACTION)
    with pytest.raises(ConfigError, match="pos follows"):
        buffer.pos = 4
