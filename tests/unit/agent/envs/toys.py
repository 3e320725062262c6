"""Envs whose observations say where one is, so that every row of a step can be checked on its own."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

ACTION_SPACES: dict[str, gym.Space[Any]] = {
    "box": Box(-2.0, 2.0, (2,), np.float32),
    "matrix": Box(-1.0, 1.0, (2, 3), np.float64),
    "discrete": Discrete(4),
    "multi_discrete": MultiDiscrete([3, 4]),
    "multi_binary": MultiBinary(3),
}
_NUMBERS = Box(0, 1e9, (3,), np.float64)
_PIXELS = Box(0, 255, (3, 2, 2), np.uint8)
OBS_SPACES: dict[str, gym.Space[Any]] = {
    "box": _NUMBERS,
    "image": _PIXELS,
    "dict": Dict({"numbers": _NUMBERS, "inner": Dict({"pixels": _PIXELS, "bits": MultiBinary(3)})}),
}

ONE_STEP = np.array([0, 0, 1])


class Toy(gym.Env[Any, Any]):
    """Episodes of 1 to 4 steps, ended in turn by termination and truncation.

    Parameters
    ----------
    obs, action : str
        Kinds of spaces.
    failing_step, failing_reset : int
        Which step or reset of an instance raises, counted from 1; 0 for none.
    """

    def __init__(
        self, obs: str = "box", action: str = "discrete", failing_step: int = 0, failing_reset: int = 0
    ) -> None:
        self.kind = obs
        self.observation_space, self.action_space = OBS_SPACES[obs], ACTION_SPACES[action]
        self.failing_step, self.failing_reset = failing_step, failing_reset
        self.place = np.zeros(3, np.int64)  # seed, episode, step
        self.num_steps = 0
        self.num_resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.num_resets += 1
        if self.num_resets == self.failing_reset:
            raise OSError("no reset today")
        number = self.place[0] if seed is None else seed % 200
        self.place = np.array([number, self.num_resets, 0])
        return observe(self.kind, self.place), {"began": self.num_resets}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is no action"
        self.num_steps += 1
        if self.num_steps == self.failing_step:
            raise ValueError("no step today")
        reward = reward_of(self.place, action)
        self.place = self.place + ONE_STEP
        terminated, truncated = ends_at(self.place)
        info = {"is_success": terminated, "step": int(self.place[2])}
        return observe(self.kind, self.place), reward, terminated, truncated, info


class Misfit(Toy):
    """Returns what Gymnasium's interface or its own space does not allow.

    Parameters
    ----------
    part : {"reset", "step", "shape", "key"}
        What is wrong: as many values as old versions of the interface had, or the observation.
    """

    def __init__(self, part: str) -> None:
        super().__init__("dict" if part == "key" else "box")
        self.part = part

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, info = super().reset(seed=seed)
        return obs if self.part == "reset" else (obs, info)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self.part == "step":
            return obs, reward, terminated, info
        wrong = {"shape": np.zeros(4), "key": {"numbers": np.zeros(3)}}
        return wrong.get(self.part, obs), reward, terminated, truncated, info


def observe(kind: str, place: np.ndarray) -> Any:
    """What one sees at a place."""
    numbers = place.astype(np.float64)
    pixels = np.repeat(place, 4).reshape(3, 2, 2).astype(np.uint8)
    if kind == "dict":
        return {"numbers": numbers, "inner": {"pixels": pixels, "bits": (place % 2).astype(np.int8)}}
    return numbers if kind == "box" else pixels


def place_of(kind: str, obs: Any, env: int) -> np.ndarray:
    """Where an env is, as one row of the observations says; all parts must agree."""
    if kind == "dict":
        place = obs["numbers"][env].astype(np.int64)
        assert (obs["inner"]["pixels"][env] == place[:, None, None].astype(np.uint8)).all()
        assert (obs["inner"]["bits"][env] == place % 2).all()
        return place
    return obs[env].astype(np.int64) if kind == "box" else obs[env][:, 0, 0].astype(np.int64)


def ends_at(place: np.ndarray) -> tuple[bool, bool]:
    """Whether an episode terminates, or is truncated, when a place is reached."""
    seed, episode, step = (int(number) for number in place)
    is_over = step >= 1 + (seed + episode) % 4
    return is_over and episode % 2 == 0, is_over and episode % 2 == 1


def reward_of(place: np.ndarray, action: Any) -> float:
    """What an action earns at a place: different for every action."""
    digits = np.asarray(action, np.float64).ravel()
    return float(place[2] + digits @ (10.0 ** np.arange(1, 1 + len(digits))))


class ToyVector(gym.vector.VectorWrapper):
    """A vector env of its own making, in any autoreset mode; it reuses the memory of observations."""

    def __init__(self, mode: str, num_envs: int, **options: Any) -> None:
        make = [lambda: Toy(**options)] * num_envs
        super().__init__(SyncVectorEnv(make, copy=False, autoreset_mode=AutoresetMode(mode)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        assert seed is None or isinstance(seed, int)
        assert self.metadata["autoreset_mode"] is AutoresetMode.DISABLED or not options
        return self.env.reset(seed=seed, options=options)


class ToyPool:
    """Envs with EnvPool's interface: they reset themselves in the step after an end, unless asked before."""

    def __init__(self, num_envs: int, seed: list[int], **options: Any) -> None:
        assert len(seed) == num_envs
        self.envs = [Toy(**options) for _ in seed]
        self.seeds: list[int | None] = list(seed)
        self.observation_space, self.action_space = self.envs[0].observation_space, self.envs[0].action_space
        self.ended = np.zeros(num_envs, np.bool_)
        self.is_closed = False

    def reset(self, env_id: np.ndarray | None = None) -> tuple[Any, dict[str, Any]]:
        ids = np.arange(len(self.envs)) if env_id is None else env_id
        obs = [self.envs[env].reset(seed=self.seeds[env])[0] for env in ids]
        for env in ids:
            self.seeds[env], self.ended[env] = None, False
        return stack(obs), {"env_id": ids}

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        assert not self.ended.any(), "a step is lost to a reset"
        rows = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        obs, rewards, terminated, truncated, infos = zip(*rows, strict=True)
        self.ended = np.array(terminated) | np.array(truncated)
        said = {"is_success": np.array([info["is_success"] for info in infos])}
        return stack(list(obs)), np.array(rewards, np.float32), np.array(terminated), np.array(truncated), said

    def close(self) -> None:
        self.is_closed = True


def stack(rows: list[Any]) -> Any:
    """Observations of several envs as one."""
    if isinstance(rows[0], dict):
        return {name: stack([row[name] for row in rows]) for name in rows[0]}
    return np.stack(rows)


# Every vector kind and autoreset mode that there is, by name: kind, what makes the envs, mode.
VECTORS: dict[str, tuple[str, Callable[..., Any], str | None]] = {
    "sync": ("sync", Toy, None),
    **{f"sync-{mode.name}": ("sync", Toy, mode.value) for mode in AutoresetMode},
    **{f"async-{mode.name}": ("async", Toy, mode.value) for mode in AutoresetMode},
    "native-NEXT_STEP": ("native", lambda **options: ToyVector("NextStep", **options), None),
    "native-SAME_STEP": ("native", lambda **options: ToyVector("SameStep", **options), None),
    "native-DISABLED": ("native", lambda **options: ToyVector("Disabled", **options), None),
    "envpool": ("envpool", ToyPool, None),
}
