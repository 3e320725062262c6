"""True transitions of real vector envs, judged by the physics of the pole."""

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import AutoresetMode

from recollect.agent.envs import VecEnv

NUM_ENVS = 3
KINDS = [
    *[("sync", mode.value) for mode in AutoresetMode],
    *[("async", mode.value) for mode in AutoresetMode],
    ("native", None),
    ("envpool", None),
]


def physics(state: np.ndarray, action: int) -> tuple[np.ndarray, bool]:
    """Where an action leads, and whether the pole has fallen then."""
    env = CartPoleEnv()
    env.reset(seed=0)
    env.state = state.astype(np.float64)
    obs, _, terminated, _, _ = env.step(action)
    return obs, terminated


@pytest.mark.parametrize(("kind", "mode"), KINDS)
def test_every_row_obeys_the_physics(kind: str, mode: str | None) -> None:
    factory, _, _ = VecEnv.create_factory("CartPole-v1", None, NUM_ENVS, kind=kind, autoreset_mode=mode, seed=2)
    envs = factory()
    rng = np.random.default_rng(0)
    obs, num_ends = envs.reset(), 0
    for _ in range(80):
        actions = rng.choice([0, 1, 1], (NUM_ENVS, 1))
        step = envs.step(actions)
        skipped = np.zeros(NUM_ENVS, np.bool_) if step.skip is None else step.skip[:, 0]
        for env in np.flatnonzero(~skipped):
            expected, terminated = physics(obs[env], int(actions[env, 0]))
            np.testing.assert_allclose(step.next_obs[env], expected, atol=1e-5)
            assert step.terminated[env, 0] == terminated
            assert step.reward[env, 0] == 1
            num_ends += terminated
        # This native env is only at a beginning when it has spent a step on it.
        begun = skipped if kind == "native" else step.begins[:, 0]
        assert (np.abs(step.obs[begun]) <= 0.05).all()
        obs = step.obs
    envs.close()
    assert num_ends > 5


@pytest.mark.parametrize("kind", ["sync", "native", "envpool"])
def test_time_limit_truncates(kind: str) -> None:
    task, options = ("Pendulum-v1", {}) if kind != "native" else ("CartPole-v1", {"max_episode_steps": 5})
    limit = options.get("max_episode_steps", 200)
    factory, space, _ = VecEnv.create_factory(task, options, 2, kind=kind)
    envs = factory()
    obs = envs.reset()
    steps = [envs.step(np.zeros((2, *(space.shape or (1,))))) for _ in range(limit)]
    envs.close()
    assert not any(step.truncated.any() or step.terminated.any() for step in steps[:-1])
    assert steps[-1].truncated.all()
    assert not steps[-1].terminated.any()
    assert not (steps[-1].next_obs == obs).any()


def test_images_of_a_pool() -> None:
    factory, _, obs_space = VecEnv.create_factory("Pong-v5", None, 2, kind="envpool")
    envs = factory()
    assert (envs.reset().shape, obs_space.dtype) == ((2, 4, 84, 84), np.uint8)
    assert envs.step(np.zeros((2, 1), np.int64)).obs.dtype == np.uint8
    envs.close()


def test_pool_is_seeded() -> None:
    def first(seed: int) -> np.ndarray:
        envs = VecEnv.create_factory("CartPole-v1", None, 2, kind="envpool", seed=seed)[0]()
        return np.asarray(envs.reset())

    assert (first(1) == first(1)).all()
    assert (first(1) != first(2)).all()
    assert (first(1)[0] != first(1)[1]).all()
