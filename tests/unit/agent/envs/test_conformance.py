"""One suite over every vector kind and autoreset mode: true transitions, ends, resets, failures."""

import logging
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from recollect.agent.envs import Step, VecEnv
from recollect.errors import EnvError
from tests.unit.agent.envs.toys import ACTION_SPACES, OBS_SPACES, ONE_STEP, VECTORS, ends_at, place_of, reward_of

NUM_ENVS = 3


class Player:
    """Plays random actions and checks every row of every step."""

    def __init__(self, vector: str, obs: str = "box", action: str = "discrete", **options: Any) -> None:
        kind, env_fn, mode = VECTORS[vector]
        limits = {"max_consecutive_failures": options.pop("max_consecutive_failures", 5)}
        self.kind, self.obs_kind, self.can_fail = kind, obs, bool(options)
        self.factory, self.action_space, self.obs_space = VecEnv.create_factory(
            env_fn,
            {"obs": obs, "action": action, **options},
            NUM_ENVS,
            kind=kind,
            autoreset_mode=mode,
            seed=3,
            **limits,
        )
        self.envs = self.factory("cpu", 1, 0)
        self.obs = self.envs.reset()
        self.rng = np.random.default_rng(0)
        self.ended = np.zeros(NUM_ENVS, np.bool_)
        self.num_rows = {"transitions": 0, "ends": 0, "resets": 0, "failures": 0, "lost": 0}

    def play(self, num_steps: int) -> None:
        """Step all envs, checking what comes back."""
        for _ in range(num_steps):
            actions = self._actions()
            as_given = torch.from_numpy(actions.reshape(NUM_ENVS, -1))
            step = self.envs.step(as_given if self.rng.integers(2) else as_given.numpy())
            self._check_form(step)
            for env in range(NUM_ENVS):
                self._check_row(step, env, actions[env])
            self.ended = (step.terminated | step.truncated)[:, 0]
            self.obs = step.obs

    def _actions(self) -> np.ndarray:
        space = self.action_space
        space.seed(int(self.rng.integers(2**31)))
        return np.stack([np.asarray(space.sample()) for _ in range(NUM_ENVS)])

    def _check_form(self, step: Step) -> None:
        assert (step.reward.dtype, step.reward.shape) == (np.float32, (NUM_ENVS, 1))
        for flags in (step.terminated, step.truncated, step.cut, step.begins):
            assert (flags.dtype, flags.shape) == (np.bool_, (NUM_ENVS, 1))
        assert step.skip is None or (step.skip.any() and step.skip.shape == (NUM_ENVS, 1))
        batched = gym.vector.utils.batch_space(self.obs_space, NUM_ENVS)
        assert batched.contains(step.obs)
        assert batched.contains(step.next_obs)

    def _check_row(self, step: Step, env: int, action: Any) -> None:
        before, after = place_of(self.obs_kind, self.obs, env), place_of(self.obs_kind, step.obs, env)
        ends = bool(step.terminated[env]), bool(step.truncated[env])
        if step.skip is not None and step.skip[env]:
            assert (ends, step.reward[env, 0]) == ((False, False), 0.0)
            assert after[2] == 0
            assert step.begins[env]
            assert step.cut[env] or self.ended[env]
            self.num_rows["failures" if step.cut[env] else "resets"] += 1
            return
        led_to = place_of(self.obs_kind, step.next_obs, env)
        assert (led_to == before + ONE_STEP).all()
        assert step.reward[env, 0] == np.float32(reward_of(before, action))
        assert ends == ends_at(led_to)
        assert step.infos["is_success"][env] == ends[0]
        self.num_rows["transitions"] += 1
        self.num_rows["ends"] += any(ends)
        if step.cut[env]:
            assert self.can_fail
            assert after[2] == 0
            assert not any(ends)
            self.num_rows["lost"] += 1
        elif not any(ends):
            assert (after == led_to).all()
        elif not self._spends_a_step_on_resets():
            assert after[2] == 0
            assert after[1] == led_to[1] + 1 or (self.can_fail and after[1] == 1)

    def _spends_a_step_on_resets(self) -> bool:
        return self.kind == "native" and self.envs.vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("action", ACTION_SPACES)
@pytest.mark.parametrize("obs", OBS_SPACES)
@pytest.mark.parametrize("vector", VECTORS)
def test_every_row_is_a_true_transition(vector: str, obs: str, action: str) -> None:
    player = Player(vector, obs, action)
    try:
        player.play(25)
    finally:
        player.envs.close()
    found = player.num_rows
    assert found["ends"] > 15
    assert found["failures"] == player.envs.num_failures == 0
    assert found["transitions"] + found["resets"] == 25 * NUM_ENVS
    assert (found["resets"] > 0) == player._spends_a_step_on_resets()


@pytest.mark.parametrize("vector", VECTORS)
def test_env_that_fails_in_step_is_rebuilt(vector: str, caplog: pytest.LogCaptureFixture) -> None:
    player = Player(vector, failing_step=6)
    try:
        with caplog.at_level(logging.WARNING):
            player.play(40)
        assert player.num_rows["failures"] >= 5 * NUM_ENVS
        num_together = NUM_ENVS if player.kind in ("native", "envpool") else 1
        assert player.envs.num_failures * num_together == player.num_rows["failures"]
    finally:
        player.envs.close()
    assert caplog.text.count('raise ValueError("no step today")') == 1


@pytest.mark.parametrize("vector", VECTORS)
def test_env_that_fails_in_reset_is_rebuilt(vector: str, caplog: pytest.LogCaptureFixture) -> None:
    player = Player(vector, failing_reset=3)
    try:
        player.play(30)
        assert player.envs.num_failures >= 4
        # One that fails takes the whole of a native vector env along: in this step, or after it.
        assert (player.num_rows["failures"] > 0) == (vector in ("native-SAME_STEP", "native-NEXT_STEP"))
        assert (player.num_rows["lost"] > 0) == (vector in ("native-DISABLED", "envpool"))
    finally:
        player.envs.close()
    assert "OSError: no reset today" in caplog.text


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.filterwarnings("ignore:.*ERROR")  # Gymnasium shows what happened in a subprocess
@pytest.mark.parametrize("options", [{"failing_step": 1}, {"failing_reset": 1}], ids=["step", "reset"])
def test_too_many_failures_in_a_row_are_an_error(vector: str, options: dict[str, int]) -> None:
    with pytest.raises(EnvError, match=r"failed 3 times in a row, at last with .*today.*max_consecutive_failures is 2"):
        Player(vector, max_consecutive_failures=2, **options).play(3)


@pytest.mark.parametrize("vector", VECTORS)
def test_arrays_are_not_overwritten(vector: str) -> None:
    player = Player(vector, "dict")
    held: list[tuple[Any, Any]] = []
    try:
        for _ in range(12):
            step = player.envs.step(player._actions())
            arrays = [step.obs["numbers"], step.next_obs["inner"]["pixels"], step.reward, step.terminated, step.cut]
            held += [(array, array.copy()) for array in arrays]
    finally:
        player.envs.close()
    assert all((array == copy).all() for array, copy in held)


@pytest.mark.parametrize("vector", VECTORS)
def test_same_seed_same_envs(vector: str) -> None:
    kind, env_fn, mode = VECTORS[vector]
    factory, _, _ = VecEnv.create_factory(env_fn, None, NUM_ENVS, kind=kind, autoreset_mode=mode, seed=3)
    seeds = []
    for worker, name in ((0, "train"), (0, "train"), (1, "train"), (0, "test")):
        envs = factory("cpu", worker, 0, name)
        seeds.append(tuple(envs.reset()[:, 0]))
        again = envs.reset()
        assert (again[:, 0] == seeds[-1]).all(), "a later reset continues from the first seeds"
        assert (again[:, 1] == 2).all()
        envs.close()
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 3
    assert len(set(seeds[0])) == NUM_ENVS
