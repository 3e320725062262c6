"""Every algorithm acts the same once it is exported, with every kind of observation and memory."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import onnxruntime
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from recollect import keys
from recollect.agent.actors import OffPolicyActor, OnPolicyActor
from recollect.agent.actors.spaces import map_observation
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.algorithms.learning import LearningAlgorithm
from recollect.agent.masks import choice_counts, mask_shape
from recollect.agent.registry import MEMORIES
from recollect.errors import ConfigError
from recollect.export.files import PT2, write_policy
from recollect.export.noise import GivenNoise
from recollect.export.policy import NEXT_STATE, STATE, ExportablePolicy, flat_observation
from recollect.predictor import Predictor

pytestmark = pytest.mark.slow

VECTOR = Box(-3.0, 3.0, (5,), np.float32)
IMAGE = Box(0, 255, (36, 40, 2), np.uint8)
OBSERVATIONS: dict[str, gym.Space[Any]] = {
    "vector": VECTOR,
    "doubles": Box(-np.inf, np.inf, (2, 3), np.float64),
    "bytes": Box(0, 7, (4,), np.uint8),
    "image": IMAGE,
    "discrete": Discrete(6, start=2),
    "multi-discrete": MultiDiscrete([3, 4], start=[0, 5]),
    "multi-binary": MultiBinary(4),
    "dict": Dict({"image": IMAGE, "place": Discrete(3), "body": Dict({"speed": VECTOR, "on": MultiBinary(2)})}),
    "names": Dict({"state": VECTOR, "next_state": VECTOR, "action": Discrete(3), "noise_1": Discrete(2)}),
}
ACTIONS: list[gym.Space[Any]] = [
    Box(np.array([-2.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)),
    Box(-0.1, 0.7, (2, 2), np.float64),
    Box(-3, 4, (3,), np.int32),
    Discrete(5),
    Discrete(4, start=3),
    MultiDiscrete([3, 2, 4]),
    MultiBinary(3),
]
MEMORY_KINDS = [None, *MEMORIES]
NUM_ROWS, NUM_TIMES = 1000, 5


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def all_cells() -> list[tuple[str, int, str, str | None]]:
    return [
        (algo, index, obs, memory)
        for algo in ALGORITHMS.built_in
        for index, action in enumerate(ACTIONS)
        if isinstance(action, ALGORITHMS[algo].action_spaces)
        for obs in (*OBSERVATIONS, "masked")
        if obs != "masked" or (ALGORITHMS[algo].masks_actions and choice_counts(action))
        for memory in MEMORY_KINDS
    ]


def few_cells() -> list[tuple[str, int, str, str | None]]:
    """Cells that have every algorithm, every observation, every action and every memory at least once."""
    chosen, left = [], {(axis, value) for cell in all_cells() for axis, value in enumerate(cell)}
    while left:
        best = max(all_cells(), key=lambda cell: len(left & set(enumerate(cell))))
        chosen.append(best)
        left -= set(enumerate(best))
    return chosen


def make_algo(name: str, action: int, obs: str, memory: str | None) -> LearningAlgorithm:
    algorithm, action_space = ALGORITHMS[name], ACTIONS[action]
    masks = {keys.ACTION_MASK: MultiBinary(mask_shape(action_space)[0])} if obs == "masked" else {}
    obs_space = Dict({"observation": VECTOR, **masks}) if masks else OBSERVATIONS[obs]
    actor_class = OnPolicyActor if algorithm.is_on_policy else OffPolicyActor
    factory = algorithm.create_factory()
    options: dict[str, Any] = {"hidden_sizes": (16, 16), "memory": memory, "memory_size": 8}
    actor = actor_class.create_factory(
        obs_space, action_space, factory, seed=1, normalise_observations=True, activation="tanh", **options
    )("cpu")
    algo = factory("cpu", actor, SimpleNamespace(num_envs=1))  # type: ignore[arg-type]
    # Statistics that are not those of a fresh actor.
    actor.observe(draw(algo, 50, seed=9), np.ones((50, 1)), np.zeros((50, 1)))
    return algo


def draw(algo: LearningAlgorithm, num: int, seed: int) -> Any:
    """Observations of a space, `[num, ...]`; where there are masks, each allows at least one of two actions."""
    space = algo.actor.obs_space
    space.seed(seed)
    rows = [space.sample() for _ in range(num)]
    obs = gym.vector.utils.concatenate(space, rows, gym.vector.utils.create_empty_array(space, num))
    if algo.actor.is_masked:
        ends = np.cumsum(choice_counts(algo.actor.action_space)) - 1
        obs[keys.ACTION_MASK][:, ends] = 1
    return obs


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    else:
        # Between values that differ by less than rounding does, another choice is as good.
        assert (found.reshape(len(found), -1) == expected.reshape(len(found), -1)).all(1).mean() >= 0.998


def check_onnx(path: Path, policy: ExportablePolicy, algo: LearningAlgorithm) -> None:
    session = onnxruntime.InferenceSession(path)
    assert [port.name for port in session.get_inputs()] == [port.name for port in policy.inputs]
    assert [port.name for port in session.get_outputs()] == [port.name for port in policy.outputs]
    assert all(port.shape[0] == "batch" for port in session.get_inputs())
    predictor = Predictor(algo)
    is_recurrent = algo.actor.is_recurrent
    num_times = NUM_TIMES if is_recurrent else 1
    num = NUM_ROWS // num_times
    state = np.zeros((num, algo.actor.recurrent_size), np.float32)
    for time in range(num_times):
        if time == num_times // 2:
            predictor.begin_episode()
            state = np.zeros_like(state)
        obs = draw(algo, num, seed=time)
        found = session.run(None, flat_observation(obs) | ({STATE: state} if is_recurrent else {}))
        assert_same(found[0], predictor.predict(obs))
        if is_recurrent:
            state = found[[port.name for port in policy.outputs].index(NEXT_STATE)]
    one = map_observation(lambda rows: rows[:1], obs)
    single = session.run(None, flat_observation(one) | ({STATE: state[:1]} if is_recurrent else {}))
    assert single[0].shape == (1, *algo.actor.action_space.shape)


def check(tmp_path: Path, cell: tuple[str, int, str, str | None]) -> None:
    algo = make_algo(*cell)
    policy = ExportablePolicy(algo)
    path = write_policy(tmp_path / "policy.onnx", policy, {})
    check_onnx(path, policy, algo)


@pytest.mark.parametrize("cell", few_cells(), ids=str)
def test_actions_are_the_same_in_onnxruntime(tmp_path: Path, cell: tuple[str, int, str, str | None]) -> None:
    check(tmp_path, cell)


@pytest.mark.long
@pytest.mark.skipif("RECOLLECT_LONG" not in os.environ, reason="a long table")
@pytest.mark.parametrize("cell", all_cells(), ids=str)
def test_all_cells(tmp_path: Path, cell: tuple[str, int, str, str | None]) -> None:
    check(tmp_path, cell)


@pytest.mark.parametrize(
    "cell",
    [("sac", 0, "vector", "gru"), ("ppo", 5, "masked", None), ("ppo", 6, "discrete", None), ("td3", 1, "dict", None)],
)
def test_given_the_noise_actions_are_those_of_training(tmp_path: Path, cell: tuple[str, int, str, str | None]) -> None:
    algo = make_algo(*cell)
    policy = ExportablePolicy(algo, deterministic=False)
    session = onnxruntime.InferenceSession(write_policy(tmp_path / "policy.onnx", policy, {}))
    obs, state = draw(algo, 200, seed=1), torch.zeros(200, algo.actor.recurrent_size)
    recorder = GivenNoise()
    with recorder:
        _, expected, *_ = algo.acting_step(obs, state, torch.ones(200, 1), False)
    noise = [port for port in policy.inputs if port.distribution is not None]
    given = {port.name: drawn.values.numpy() for port, drawn in zip(noise, recorder.draws, strict=True)}
    rest = {STATE: state.numpy()} if algo.actor.is_recurrent else {}
    found = session.run(["action"], flat_observation(obs) | rest | given)[0]
    close = np.isclose(found.reshape(200, -1), expected.numpy(), rtol=0, atol=1e-5).all(1)
    assert close.mean() >= (1.0 if found.dtype.kind == "f" else 0.99)
    mode = Predictor(algo).predict(obs)
    assert (found.reshape(200, -1) != mode.reshape(200, -1)).any(), "noise must matter"


def test_the_program_of_torch_export_acts_the_same(tmp_path: Path) -> None:
    algo = make_algo("sac", 0, "dict", "lstm")
    path = write_policy(tmp_path / f"policy{PT2}", ExportablePolicy(algo), {})
    program = torch.export.load(path).module()
    obs = draw(algo, 20, seed=3)
    tensors = [torch.from_numpy(part) for part in flat_observation(obs).values()]
    action, state = program(*tensors, torch.zeros(20, algo.actor.recurrent_size))
    assert_same(action.numpy(), Predictor(algo).predict(obs))
    assert state.shape == (20, algo.actor.recurrent_size)


def test_parts_that_would_have_one_name_are_refused() -> None:
    space = Dict({"body.speed": VECTOR, "body": Dict({"speed": VECTOR})})
    with pytest.raises(ConfigError, match="inputs of the same name"):
        flat_observation(space)
    assert list(flat_observation(Dict({"state": VECTOR, "noises": VECTOR}))) == ["noises", "observation.state"]
