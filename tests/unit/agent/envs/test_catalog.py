from importlib.util import find_spec
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing

from recollect import keys
from recollect.agent.envs import VecEnv, catalog, make_env
from recollect.errors import ConfigError


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that modules are not installed."""

    def hide(*modules: str) -> None:
        monkeypatch.setattr(catalog, "find_spec", lambda name: None if name in modules else find_spec(name))

    return hide


@pytest.mark.parametrize(
    ("env_id", "module", "extra"),
    [
        ("FetchReach-v99", "gymnasium_robotics", "robotics"),
        ("ALE/Pong-v5", "ale_py", "atari"),
        ("PongNoFrameskip-v4", "ale_py", "atari"),
        ("HalfCheetah-v5", "mujoco", "mujoco"),
        ("LunarLander-v3", "Box2D", "box2d"),
        ("dm_control/walker-walk-v0", "shimmy", "dmc"),
        ("dm_control/walker-walk-v0", "dm_control", "dmc"),
    ],
)
def test_missing_extra_is_named(without: Any, env_id: str, module: str, extra: str) -> None:
    without(module)
    with pytest.raises(ConfigError) as error:
        make_env(env_id)
    assert str(error.value) == f"{env_id} needs the extra '{extra}': pip install \"recollect[{extra}]\""


def test_missing_envpool_is_named(without: Any) -> None:
    without("envpool")
    with pytest.raises(ConfigError, match=r"pip install \"recollect\[envpool\]\""):
        VecEnv.create_factory("CartPole-v1", kind="envpool")


@pytest.mark.parametrize(
    ("env_id", "hint"),
    [
        ("CartPol-v1", "did you mean 'CartPole-v1'?"),
        ("CartPole-v7", "did you mean 'CartPole-v1'?"),
        ("Pendulum", "did you mean 'Pendulum-v1'?"),
        ("recollect/BitFlop-v0", "did you mean 'recollect/BitFlip-v0'?"),
        ("ALE/Pomg-v5", "did you mean 'ALE/Pong-v5'?"),
        ("dm_control/walker-wlak-v0", "did you mean 'dm_control/walker-walk-v0'?"),
        ("Xyzzy-v0", "pprint_registry"),
        ("", "pprint_registry"),
        ("no_such_module:Env-v0", "cannot be imported"),
    ],
)
def test_unknown_id(env_id: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_env(env_id)
    assert hint in str(error.value)


def test_unknown_pool() -> None:
    with pytest.raises(ConfigError, match="EnvPool has no env 'CartPol-v1'; did you mean 'CartPole-v1'"):
        VecEnv.create_factory("CartPol-v1", kind="envpool")


def test_unknown_option() -> None:
    with pytest.raises(ConfigError, match="CartPole-v1 does not take the options"):
        make_env("CartPole-v1", gravity_of_the_moon=1.6)


def gone() -> None:
    """An environment that is no longer there."""
    raise ImportError("moved elsewhere")


@pytest.mark.parametrize(
    ("env_id", "options", "cause", "message"),
    [
        ("my/Gone-v0", {}, ImportError, r"my/Gone-v0 cannot be made with the options \{\}: ImportError: moved"),
        ("FrozenLake-v1", {"map_name": "5x5"}, KeyError, r"FrozenLake-v1 .* \{'map_name': '5x5'\}: KeyError: '5x5'"),
    ],
)
def test_an_env_that_cannot_be_made_says_why(
    env_id: str, options: Any, cause: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the old environments of Gymnasium are, until the package that has them now is loaded.
    monkeypatch.setitem(gym.registry, "my/Gone-v0", gym.envs.registration.EnvSpec("my/Gone-v0", entry_point=gone))
    with pytest.raises(ConfigError, match=message) as error:
        make_env(env_id, **options)
    assert isinstance(error.value.__cause__, cause)


@pytest.mark.parametrize("kind", ["native", "envpool"])
def test_vector_envs_that_cannot_be_made_say_why(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"CartPole-v1 .*the options.*gravity_of_the_moon"):
        VecEnv.create_factory("CartPole-v1", {"gravity_of_the_moon": 1.6}, kind=kind)


def test_ids_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("my_envs")
    monkeypatch.setitem(__import__("sys").modules, "my_envs", module)
    gym.register("my/Pole-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=7)
    try:
        assert make_env("my_envs:my/Pole-v0").spec.max_episode_steps == 7
    finally:
        del gym.registry["my/Pole-v0"]


def test_atari_is_prepared() -> None:
    factory, action_space, obs_space = VecEnv.create_factory("ALE/Pong-v5", vec_env_size=2, seed=1)
    assert (obs_space.shape, obs_space.dtype, action_space.n) == ((4, 84, 84), np.uint8, 6)
    envs = factory()
    obs = envs.reset()
    assert (obs[:, 0] == obs[:, 3]).all(), "the first stack repeats the first frame"
    for _ in range(4):
        step = envs.step(np.array([[2], [3]]))
        assert (step.next_obs[:, :3] == obs[:, 1:]).all(), "a step shifts one frame in"
        obs = step.obs
    assert obs.dtype == np.uint8
    assert (obs[:, 2] != obs[:, 3]).any()
    envs.close()


@pytest.mark.parametrize("env_id", ["PongNoFrameskip-v4", "Pong-v4"])
def test_older_ids_of_atari_are_prepared_too(env_id: str) -> None:
    env = make_env(env_id)
    assert env.observation_space.shape == (4, 84, 84)
    env.close()


class Scoring(gym.Wrapper[Any, Any, Any, Any]):
    """Gives 7 points for every step."""

    def step(self, action: Any) -> Any:
        obs, _, *ends = self.env.step(action)
        return obs, 7.0, *ends


@pytest.mark.parametrize(
    ("options", "train", "test"),
    [({}, 1.0, 7.0), ({"clip_rewards": False}, 7.0, 7.0), ({"clip_rewards": True}, 1.0, 7.0)],
)
def test_rewards_of_atari_are_clipped_in_training_alone(
    options: Any, train: float, test: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        catalog, "AtariPreprocessing", lambda *args, **kwargs: Scoring(AtariPreprocessing(*args, **kwargs))
    )
    factory, _, _ = VecEnv.create_factory("ALE/Pong-v5", options)
    for mode, reward in (("train", train), ("test", test)):
        envs = factory(mode=mode)
        envs.reset()
        assert envs.step(np.array([[0]])).reward.item() == reward
        envs.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "kind", "life"),
    [
        ("ALE/SpaceInvaders-v5", "sync", "terminal_on_life_loss"),
        ("ALE/SpaceInvaders-v5", "native", "episodic_life"),
        ("SpaceInvaders-v5", "envpool", "episodic_life"),
    ],
)
def test_tests_are_whole_games_of_atari_with_their_own_rewards(env_id: str, kind: str, life: str) -> None:
    factory, action_space, _ = VecEnv.create_factory(env_id, {life: True}, kind=kind, seed=1)
    rng, rewards, num_lives = np.random.default_rng(1), {}, {}
    for mode in ("train", "test"):
        envs = factory(mode=mode)
        envs.reset()
        steps = [envs.step(rng.integers(action_space.n, size=(1, 1)))]
        while not steps[-1].terminated.item():
            steps.append(envs.step(rng.integers(action_space.n, size=(1, 1))))
        envs.close()
        rewards[mode] = {step.reward.item() for step in steps}
        num_lives[mode] = int(steps[-1].infos["lives"][0])
    assert rewards["train"] <= {0.0, 1.0}
    assert max(rewards["test"]) >= 5.0, "the least that an invader is worth"
    assert num_lives == {"train": 2, "test": 0}


@pytest.mark.parametrize(
    ("env_id", "kind", "options", "depth"),
    [
        ("ALE/Pong-v5", "sync", {}, 4),
        ("ALE/Pong-v5", "async", {"stack_size": 3}, 3),
        ("ALE/Pong-v5", "sync", {"stack_size": 1}, None),
        ("ALE/Pong-v5", "native", {}, 4),
        ("ALE/Pong-v5", "native", {"stack_num": 2}, 2),
        ("Pong-v5", "envpool", {"stack_num": 2}, 2),
        ("CartPole-v1", "envpool", {}, None),
        ("CartPole-v1", "sync", {}, None),
    ],
)
def test_a_factory_tells_how_many_frames_are_stacked(env_id: str, kind: str, options: Any, depth: int | None) -> None:
    factory, _, obs_space = VecEnv.create_factory(env_id, options, kind=kind)
    assert factory.frame_stack() == depth
    assert depth in (None, obs_space.shape[0])


def test_a_native_vector_env_says_nothing_of_others() -> None:
    factory, _, _ = VecEnv.create_factory("ALE/Pong-v5", kind="native")
    factory().close()
    assert keys.AUTORESET_MODE not in gym.vector.VectorEnv.metadata


def test_atari_options() -> None:
    env = make_env("ALE/Pong-v5", stack_size=2, screen_size=42)
    assert env.observation_space.shape == (2, 42, 42)
    env.close()


def test_mujoco() -> None:
    assert make_env("InvertedPendulum-v5").observation_space.shape == (4,)


def test_goal_task() -> None:
    factory, _, obs_space = VecEnv.create_factory("FetchReach-v4", vec_env_size=2)
    assert set(obs_space) == {"observation", "achieved_goal", "desired_goal"}
    envs = factory()
    obs = envs.reset()
    step = envs.step(np.zeros((2, 4), np.float32))
    judge = envs.env_fns[0]().unwrapped
    reward = judge.compute_reward(step.next_obs["achieved_goal"], obs["desired_goal"], {})
    assert (reward == step.reward[:, 0]).all()
    assert step.infos["is_success"].shape == (2,)
    envs.close()


def test_tasks_of_the_control_suite_give_one_vector_and_end_by_their_time_limit() -> None:
    env = make_env("dm_control/walker-walk-v0")
    assert env.observation_space.shape == (24,)
    assert env.action_space.shape == (6,)
    first, _ = env.reset(seed=7)
    again, _ = env.reset(seed=7)
    np.testing.assert_array_equal(first, again)
    ends = [env.step(np.zeros(6))[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)], "a time limit is no termination"
    env.close()
