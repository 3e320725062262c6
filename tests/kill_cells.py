"""Trainings that are killed and resumed: every algorithm with every storage and a memory, and much else beside."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.storages import OFF_POLICY_STORAGES, ON_POLICY_STORAGES
from tests.masked_envs import Gates

STEPS = 96
FEW = ("replay", "per", "ere", "vtrace")
OPTIONS = {"algo.update_every": 8, "algo.num_test_episodes": 1, "actor.hidden_sizes": [8]}
OFF_POLICY = {"algo.start_steps": 24, "algo.mini_batch_size": 8, "algo.num_mini_batch": 4, "algo.test_every": 8}
ON_POLICY = {"algo.num_mini_batch": 1, "algo.test_every": 6}
OF_STORAGE: dict[str, dict[str, Any]] = {
    "nstep": {"n_step": 3},
    "per": {"alpha": 0.6, "n_step": 3},
    "ere": {"alpha": 0.6, "cmin": 10, "eta": 0.99},
    "her": {"alpha": 0.6},
}


class Reach(gym.Env[Any, np.ndarray]):
    """Move to a goal on a line, with continuous actions: what hindsight needs, at no cost."""

    state_attributes = ("_place", "_goal", "_num_steps")

    def __init__(self) -> None:
        box = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._place = self._goal = np.zeros(1, np.float32)
        self._num_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._place, self._goal = self.np_random.uniform(-1, 1, (2, 1)).astype(np.float32)
        self._num_steps = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._place = np.clip(self._place + 0.2 * action, -2, 2).astype(np.float32)
        self._num_steps += 1
        return self._observe(), float(self.compute_reward(self._place, self._goal, {})), False, self._num_steps >= 7, {}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> np.ndarray:
        reward: np.ndarray = -(np.abs(achieved_goal - desired_goal).max(-1) > 0.1).astype(np.float32)
        return reward

    def _observe(self) -> dict[str, np.ndarray]:
        return {"observation": self._place, "achieved_goal": self._place, "desired_goal": self._goal}


class Camera(gym.Env[Any, Any]):
    """A dot on a picture that is pushed about, beside a number and a choice that are seen too."""

    state_attributes = ("_place", "_steps_left")

    def __init__(self) -> None:
        picture = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
        speed, phase = gym.spaces.Box(-1.0, 1.0, (2,), np.float32), gym.spaces.Discrete(3)
        self.observation_space = gym.spaces.Dict({"picture": picture, "speed": speed, "phase": phase})
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._place, self._steps_left = np.zeros(2), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._place, self._steps_left = self.np_random.uniform(0, 36, 2), int(self.np_random.integers(4, 12))
        return self._observe(np.zeros(2)), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._place = np.clip(self._place + 3 * action + self.np_random.normal(size=2), 0, 35.9)
        self._steps_left -= 1
        is_over = self._steps_left == 0
        return self._observe(action), float(-np.abs(self._place - 18).mean()), is_over, False, {}

    def _observe(self, action: np.ndarray) -> dict[str, Any]:
        picture = np.zeros((36, 36, 1), np.uint8)
        picture[int(self._place[0]), int(self._place[1])] = 255
        return {"picture": picture, "speed": np.float32(action), "phase": self._steps_left % 3}


class SavedGates(Gates):
    """The same with a state that can be saved."""

    state_attributes = ("_place", "_num_steps", "_num_episodes", "_steps_left")


def register_envs() -> None:
    """Make the environments of the tests known by their ids."""
    gym.register("tests/Reach-v0", Reach)
    gym.register("tests/Camera-v0", Camera)
    gym.register("tests/Gates-v0", SavedGates, kwargs={"gives": "info"})
    gym.register("tests/SeenGates-v0", SavedGates, kwargs={"gives": "observation"})


class Setting(NamedTuple):
    """A task and options beside those of every cell: words of the command line, or options to set."""

    algo: str
    storage: str
    env: str
    options: dict[str, Any] = {}
    words: dict[str, Any] = {}


NORMALISED = {"actor.normalise_observations": True, "actor.normalise_rewards": True}
RND = {"algo.intrinsic": "rnd"}
SCHEDULED = [{"name": "Schedule", "option": "critic_lr", "how": "cosine"}]
PRIORITIES = [
    {"name": "Schedule", "option": "storage.beta", "start": 0.4, "end": 1.0},
    {"name": "SaveEvery", "num_steps": 20},
]
SHARES = {"name": "Schedule", "option": "storage.data_share", "start": 0.5, "end": 0.1}
PATIENT = [{"name": "StopWithoutImprovement", "patience": 2}]
SLOW = {"algo.num_mini_batch": 1, "algo.test_every": 6}
SETTINGS: dict[str, Setting] = {
    "physics in processes": Setting("sac", "per", "Hopper-v5", {}, {"vec": "async"}),
    "rollouts of physics": Setting("ppo", "gae", "HalfCheetah-v5", {**NORMALISED, "algo.anneal_steps": 90}),
    "walker": Setting("tqc", "nstep", "Walker2d-v5", NORMALISED),
    "atari": Setting("ddqn", "per", "ALE/Pong-v5", {**SLOW, "actor.random_shift": 2}),
    "atari in processes": Setting("rainbow", "per", "ALE/Breakout-v5", SLOW, {"vec": "async"}),
    "atari rollouts": Setting("ppo", "vtrace", "ALE/Pong-v5", {"actor.features": "impala", "actor.memory": "lstm"}),
    "fetch": Setting("tqc", "her", "FetchReach-v4"),
    "fetch in processes": Setting("sac", "her", "FetchReach-v4", {"actor.memory": "gru"}, {"vec": "async"}),
    "suite": Setting(
        "sac",
        "replay",
        "dm_control/cartpole-swingup-v0",
        {},
        {"wrappers": [{"name": "RepeatAction", "num_repeats": 2}]},
    ),
    "suite in processes": Setting("crossq", "per", "dm_control/reacher-easy-v0", {}, {"vec": "async"}),
    "masks": Setting("ddqn", "per", "tests/Gates-v0"),
    "masks of rollouts": Setting("ppo", "gae", "tests/SeenGates-v0", {}, {"vec": "async"}),
    "masks and entropy": Setting("sac-discrete", "nstep", "tests/SeenGates-v0"),
    "masks and quantiles": Setting("qr-dqn", "ere", "tests/Gates-v0", {"actor.memory": "gru"}),
    "pictures": Setting("sac", "per", "tests/Camera-v0", {**SLOW, "actor.random_shift": 3}),
    "pictures with memory": Setting(
        "td3", "replay", "tests/Camera-v0", {**SLOW, "actor.memory": "lstm"}, {"vec": "async"}
    ),
    "rollouts of pictures": Setting("a2c", "gae", "tests/Camera-v0", {"actor.random_shift": 2}),
    "choices": Setting("sac-discrete", "per", "FrozenLake-v1"),
    "choices in processes": Setting("c51", "nstep", "Taxi-v3", {}, {"vec": "async"}),
    "choices of rollouts": Setting("pqn", "gae", "CliffWalking-v1"),
    "scheduled": Setting("sac", "per", "Pendulum-v1", {}, {"callbacks": SCHEDULED + PRIORITIES}),
    "scheduled rollouts": Setting(
        "ppo", "vtrace", "CartPole-v1", {}, {"callbacks": [{**SCHEDULED[0], "option": "lr"}]}
    ),
    "stopped": Setting("ddqn", "per", "CartPole-v1", {"algo.test_every": 8}, {"callbacks": PATIENT}),
    "stopped rollouts": Setting("a2c", "gae", "CartPole-v1", {"algo.test_every": 2}, {"callbacks": PATIENT}),
    "normalised": Setting("crossq", "per", "Pendulum-v1", NORMALISED, {"vec": "async"}),
    "normalised memory": Setting("sac", "ere", "Pendulum-v1", {**NORMALISED, "actor.memory": "lstm"}),
    "normalised goals": Setting("td3", "her", "tests/Reach-v0", NORMALISED),
    "wrapped": Setting(
        "sac",
        "per",
        "Pendulum-v1",
        {},
        {"wrappers": ["NormalizeObservation", {"name": "FrameStackObservation", "stack_size": 3}]},
    ),
    "bfloat16": Setting("sac", "per", "Pendulum-v1", {"algo.precision": "bfloat16"}),
    "simba": Setting("redq", "per", "Pendulum-v1", {"actor.network": "simba"}),
    "noisy": Setting("c51", "per", "CartPole-v1", {"actor.noisy": 0.5, "actor.dueling": True}),
    "dropout": Setting("droq", "nstep", "Pendulum-v1", {"actor.network": "simba"}),
    "drifting": Setting("ddpg", "per", "MountainCarContinuous-v0", {"algo.noise": "ou"}),
    "curious": Setting("sac", "per", "Pendulum-v1", {**RND, "algo.recompute_intrinsic": False}),
    "curious rollouts": Setting("ppo", "gae", "MountainCar-v0", {**RND, **NORMALISED}, {"vec": "async"}),
    "curious memory": Setting("ddqn", "per", "Acrobot-v1", {**RND, "actor.memory": "gru"}),
    "overlapping sequences": Setting(
        "rainbow", "per", "recollect/RecallCue-v0", {"actor.memory": "lstm", "actor.sequence_overlap": 3}
    ),
    "own optimiser": Setting("mpo", "nstep", "Pendulum-v1", {"algo.optimiser": "adamw", "algo.max_grad_norm": 1.0}),
    "early ends of stages": Setting("ppo", "gae", "Pendulum-v1", {"algo.target_kl": 0.001, "algo.num_epochs": 3}),
    "beside updates": Setting("td3", "per", "Pendulum-v1", {}, {"overlap": True}),
    "shared memory": Setting("sac", "per", "Pendulum-v1", {"storage.backing": "shared"}),
    "data": Setting("iql", "replay", "Pendulum-v1", {}, {"data": "{folder}/steps.npz", "updates": 60}),
    "data and priorities": Setting(
        "iql", "per", "Pendulum-v1", NORMALISED, {"data": "{folder}/steps.npz", "updates": 60}
    ),
    "data alone": Setting(
        "td3-bc", "nstep", "Pendulum-v1", {}, {"data": "{folder}/steps.npz", "updates": 130, "steps": 16}
    ),
    "data of a run": Setting("td3-bc", "ere", "Pendulum-v1", {}, {"data": "{folder}/warm-sac", "updates": 40}),
    "data and memory": Setting(
        "iql", "per", "Pendulum-v1", {"actor.memory": "gru"}, {"data": "{folder}/steps.npz", "updates": 40}
    ),
    "prior data": Setting(
        "rlpd", "mixed", "Pendulum-v1", {"storage.alpha": 0.6}, {"data": "{folder}/steps.npz", "callbacks": [SHARES]}
    ),
    "prior data first": Setting(
        "rlpd", "mixed", "Pendulum-v1", {"storage.n_step": 3}, {"data": "{folder}/steps.npz", "updates": 50}
    ),
    "prior data by turns": Setting(
        "sac",
        "mixed",
        "Pendulum-v1",
        {"storage.eta": 0.99, "storage.cmin": 10, "storage.data_share": {"expert": 0.25, "other": 0.25}},
        {"data": {"expert": "{folder}/steps.npz", "other": "{folder}/warm-sac"}},
    ),
    "choices of data": Setting(
        "ddqn",
        "mixed",
        "CartPole-v1",
        {"storage.alpha": 0.5, "storage.joint_priorities": True},
        {"data": "{folder}/choices.npz", "vec": "async"},
    ),
}


class Cell(NamedTuple):
    """An algorithm, a storage, and the memory of the actor, if it has any; or a setting of the table above."""

    algo: str
    storage: str
    memory: str = ""
    setting: str = ""

    def command(self, folder: Path) -> list[str]:
        """Words behind `recollect train` for a small run, whose storage wraps around; data are in the folder."""
        cls, given = ALGORITHMS[self.algo], SETTINGS.get(self.setting)
        options = {**OPTIONS, **(ON_POLICY if cls.is_on_policy else OFF_POLICY), "storage": self.storage}
        options |= {f"storage.{name}": value for name, value in OF_STORAGE.get(self.storage, {}).items()}
        words = {"preset": "none", "seed": 5, "steps": STEPS, "num-envs": 2, "num-test-envs": 1, "threads": 1}
        words["final-episodes"] = 1
        if not cls.is_on_policy:
            options["storage.size"] = 35
        if self.memory:
            options["actor.memory"] = self.memory
        if given is not None:
            options |= {**given.options, **({"storage.size": 400} if "data" in given.words else {})}
            words |= given.words
        return [self.algo, self.env, *_words(options, folder, "--set", "="), *_words(words, folder)]

    @property
    def env(self) -> str:
        """The cheapest task for both, unless the setting has one."""
        if self.setting:
            return SETTINGS[self.setting].env
        is_discrete = gym.spaces.Discrete in ALGORITHMS[self.algo].action_spaces
        if self.storage == "her":
            return "recollect/BitFlip-v0" if is_discrete else "tests/Reach-v0"
        return "CartPole-v1" if is_discrete else "Pendulum-v1"


def _words(values: dict[str, Any], folder: Path, flag: str = "", between: str = "") -> list[str]:
    found = []
    for name, value in values.items():
        text = (value if isinstance(value, str) else json.dumps(value)).replace("{folder}", str(folder))
        found += [flag, f"{name}{between}{text}"] if flag else [f"--{name}", text]
    return found


def all_cells() -> list[Cell]:
    """Every algorithm with every storage that it learns from, and with a memory."""
    fitting = {True: ON_POLICY_STORAGES, False: OFF_POLICY_STORAGES}
    cells = [Cell(algo, storage) for algo, cls in ALGORITHMS.items() for storage in fitting[cls.is_on_policy]]
    return cells + [Cell(algo, "vtrace" if cls.is_on_policy else "per", "gru") for algo, cls in ALGORITHMS.items()]


def set_cells() -> list[Cell]:
    """Every setting."""
    return [Cell(setting.algo, setting.storage, setting=name) for name, setting in SETTINGS.items()]


def few_cells() -> list[Cell]:
    """Every kind of storage, with algorithms in turn."""
    cells = all_cells()
    first = [next(cell for cell in cells if cell.storage == storage) for storage in FEW[:1]]
    for storage in FEW[1:]:
        used = {cell.algo for cell in first}
        fitting = [cell for cell in cells if cell.storage == storage]
        first.append(next((cell for cell in fitting if cell.algo not in used), fitting[0]))
    return first
