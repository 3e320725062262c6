"""State of envs: what is read from one and given to another makes both step alike, whatever the other did before."""

from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers.utils import RunningMeanStd
from hypothesis import given
from hypothesis import strategies as st

from recollect.agent.envs import VecEnv
from recollect.agent.envs.catalog import make_env
from recollect.agent.envs.state import find_gap, read_state, write_state
from recollect.agent.envs.state.attributes import class_name, names_of
from recollect.agent.envs.state.values import pack, unpack
from recollect.errors import StorageError
from recollect.runs.checkpointing import state_files

CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
TEXT = ("Blackjack-v1", "FrozenLake-v1", "CliffWalking-v1", "Taxi-v4")
OWN = ("recollect/BitFlip-v0", "recollect/RecallCue-v0", "recollect/RoomChain-v0")
MUJOCO = (
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
)
ROBOTICS = ("FetchReach-v4", "FetchPickAndPlace-v4", "PointMaze_UMaze-v3", "AntMaze_UMaze-v5", "HandReach-v3")
# A task that counts, one that moves a target in the model, one that changes gears and one that draws its springs.
SUITE = ("cheetah-run", "reacher-hard", "point_mass-hard", "lqr-lqr_2_1")
GAMES = ("ALE/Pong-v5", "ALE/Breakout-v5")

WRAPPERS: dict[str, Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = {
    "frame stack": lambda env: wrappers.FrameStackObservation(env, 3),
    "padded with the first": lambda env: wrappers.FrameStackObservation(env, 3, padding_type="reset"),
    "delay": lambda env: wrappers.DelayObservation(env, 2),
    "time": wrappers.TimeAwareObservation,
    "normalised": wrappers.NormalizeObservation,
    "normalised reward": wrappers.NormalizeReward,
    "statistics": wrappers.RecordEpisodeStatistics,
    "sticky": lambda env: wrappers.StickyAction(env, 0.5),
    "sticky for a while": lambda env: wrappers.StickyAction(env, 0.3, (2, 4)),
    "clipped": lambda env: wrappers.ClipReward(env, 0.0, 0.5),
    "flat": wrappers.FlattenObservation,
    "autoreset": wrappers.Autoreset,
}


def random_actions(env: gym.Env[Any, Any], num_actions: int, seed: int) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(num_actions)]


def run(env: gym.Env[Any, Any], actions: list[Any]) -> list[Any]:
    """Everything that an env answers, with resets where episodes end."""
    answers = []
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        answers.append((obs, reward, terminated, truncated))
        if terminated or truncated:
            answers.append(env.reset()[0])
    return answers


def flat(value: object) -> list[np.ndarray]:
    if isinstance(value, Mapping):
        return [array for name in sorted(value) for array in flat(value[name])]
    if isinstance(value, (list, tuple)):
        return [array for inner in value for array in flat(inner)]
    return [np.array(value)]


def check_resumes(make: Callable[[], gym.Env[Any, Any]], folder: Path, num_before: int, num_after: int) -> None:
    """Step an env, give its state through a file to another that did other things, and compare what they do next."""
    first, second = make(), make()
    first.reset(seed=3)
    run(first, random_actions(first, num_before, 5))
    second.reset(seed=4)
    run(second, random_actions(second, 7, 6))
    for name, content in state_files.CapturedState.of(read_state(first)).dump("env").items():
        (folder / name).write_bytes(content)
    write_state(second, state_files.read_state(folder, "env"))
    actions = random_actions(first, num_after, 8)
    expected, found = flat(run(first, actions)), flat(run(second, actions))
    assert len(found) == len(expected)
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(each, other)
        assert each.dtype == other.dtype
    first.close()
    second.close()


@pytest.mark.parametrize("env_id", [*CLASSIC, *TEXT, *OWN])
@pytest.mark.parametrize("num_before", [1, 33])
def test_an_env_resumes_in_the_middle_of_an_episode(env_id: str, num_before: int, tmp_path: Path) -> None:
    check_resumes(lambda: make_env(env_id), tmp_path, num_before, 250)


@pytest.mark.parametrize("env_id", [*MUJOCO, *ROBOTICS, *GAMES])
def test_a_simulator_resumes_in_the_middle_of_an_episode(env_id: str, tmp_path: Path) -> None:
    check_resumes(lambda: make_env(env_id), tmp_path, 30, 60)


@pytest.mark.parametrize("task", SUITE)
def test_a_task_of_the_control_suite_resumes_in_the_middle_of_an_episode(task: str, tmp_path: Path) -> None:
    check_resumes(lambda: make_env(f"dm_control/{task}-v0"), tmp_path, 30, 60)


def test_a_task_of_the_control_suite_refuses_the_state_of_another_and_stays_as_it_was() -> None:
    env, other = make_env("dm_control/cheetah-run-v0"), make_env("dm_control/reacher-hard-v0")
    for each in (env, other):
        each.reset(seed=1)
    before = read_state(env)
    with pytest.raises(StorageError, match="a saved state of a dm_control task has"):
        write_state(env, read_state(other))
    forged = read_state(env)
    for damage in ("damaged", ("MT19937", np.zeros(3, np.uint32), 0, 0, 0.0)):
        forged[-1]["simulator"]["task"]["_random"] = pack(damage)
        with pytest.raises(StorageError, match="damaged generator"):
            write_state(env, forged)
    del forged[-1]["simulator"]["task"]
    with pytest.raises(StorageError, match="of another env"):
        write_state(env, forged)
    assert all((a == b).all() for a, b in zip(flat(before), flat(read_state(env)), strict=True))


def test_tasks_of_the_composer_say_that_nobody_knows_their_state() -> None:
    assert "DmControlCompatibilityV0" in str(find_gap(make_env("dm_control/reach_site_features-v0")))


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_resume_with_the_env(name: str, tmp_path: Path) -> None:
    check_resumes(lambda: WRAPPERS[name](make_env("CartPole-v1")), tmp_path, 23, 120)


@pytest.mark.parametrize(
    "layer",
    [
        "gymnasium.envs.classic_control",
        "gymnasium.envs.toy_text",
        "gymnasium.envs.mujoco",
    ],
)
def test_every_env_of_these_families_is_known(layer: str) -> None:
    specs = [spec for spec in newest_specs() if str(spec.entry_point).startswith(layer)]
    assert specs
    for spec in specs:
        env = make_env(spec.id)
        assert find_gap(env) is None, spec.id
        env.close()


def newest_specs() -> list[EnvSpec]:
    """Envs of the newest versions; older ones may need packages that are gone."""
    newest: dict[str, EnvSpec] = {}
    for spec in gym.registry.values():
        if spec.name not in newest or (spec.version or 0) > (newest[spec.name].version or 0):
            newest[spec.name] = spec
    return [spec for spec in newest.values() if spec.entry_point is not None and "vector" not in str(spec.entry_point)]


@pytest.mark.parametrize("env_id", ["LunarLander-v3", "BipedalWalker-v3"])
def test_what_is_not_known_is_named(env_id: str) -> None:
    env = make_env(env_id)
    env.reset(seed=1)
    gap = find_gap(env)
    assert gap is not None
    assert class_name(env.unwrapped) in gap
    with pytest.raises(StorageError, match="nobody knows the state of"):
        read_state(env)


class Heavier(CartPoleEnv):
    """Has state that its base class does not have."""


class Counting(gym.Wrapper[Any, Any, Any, Any]):
    """Counts its steps."""

    state_attributes = ("count",)

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.count = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.count += 1
        return obs, float(reward) + self.count, terminated, truncated, info


class CountingByHook(Counting):
    """Speaks for itself."""

    def get_state(self) -> dict[str, Any]:
        return {"counted": self.count}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.count = state["counted"]


class Holding(Counting):
    """Has something that is no plain data."""

    state_attributes = ("count", "held")
    held = None


def test_a_class_that_was_derived_from_a_known_one_is_not_taken_for_it() -> None:
    assert find_gap(Heavier()) is not None
    assert names_of(CartPoleEnv()) is not None


@pytest.mark.parametrize("kind", [Counting, CountingByHook])
def test_own_wrappers_say_what_their_state_is(kind: type[Counting], tmp_path: Path) -> None:
    check_resumes(lambda: kind(make_env("Pendulum-v1")), tmp_path, 20, 300)


def test_what_is_no_plain_data_is_named() -> None:
    env = Holding(make_env("Pendulum-v1"))
    env.reset(seed=1)
    env.__dict__["held"] = object()
    with pytest.raises(StorageError, match=r"held of .*Holding cannot be saved: object is not plain data"):
        read_state(env)


def saved_pendulum() -> tuple[gym.Env[Any, Any], list[dict[str, Any]]]:
    env = make_env("Pendulum-v1")
    env.reset(seed=1)
    return env, read_state(env)


def test_a_state_of_another_env_is_refused() -> None:
    other = make_env("CartPole-v1")
    other.reset(seed=1)
    with pytest.raises(StorageError, match="this one is made of"):
        write_state(other, saved_pendulum()[1])


def test_attributes_that_are_no_state_cannot_be_set() -> None:
    env, states = saved_pendulum()
    states[-1]["attributes"]["reset"] = 1
    before = read_state(env)
    with pytest.raises(StorageError, match="'reset' is not of the state of"):
        write_state(env, states)
    assert repr(read_state(env)) == repr(before)


def test_arrays_of_another_shape_are_refused() -> None:
    env, states = saved_pendulum()
    states[-1]["attributes"]["state"] = pack(np.zeros(5))
    with pytest.raises(StorageError, match=r"has the shape \(2,\), the saved one has \(5,\)"):
        write_state(env, states)


@pytest.mark.parametrize("name", ["physics", "derived"])
def test_physics_of_another_size_are_refused(name: str) -> None:
    env = make_env("Hopper-v5")
    env.reset(seed=1)
    states = read_state(env)
    simulator = states[-1]["simulator"]
    simulator[name] = np.zeros(3) if name == "physics" else {each: np.zeros(3) for each in simulator[name]}
    with pytest.raises(StorageError, match="MuJoCo's"):
        write_state(env, states)


def test_a_generator_continues_where_it_was() -> None:
    for kind in (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64):
        generator = np.random.Generator(kind(1))
        generator.random(3)
        other = unpack(pack(generator))
        assert np.array_equal(other.random(5), generator.random(5))


@pytest.mark.parametrize("position", [-1, 625, 10**8, 2**40])
def test_a_generator_does_not_read_beyond_its_table(position: int) -> None:
    mersenne, philox = (pack(np.random.Generator(kind(1))) for kind in (np.random.MT19937, np.random.Philox))
    mersenne["#generator"]["#dict"]["state"]["#dict"]["pos"] = position
    philox["#generator"]["#dict"]["buffer_pos"] = position
    for forged in (mersenne, philox):
        with pytest.raises(StorageError, match="expected a whole number from 0 to"):
            unpack(forged)


def test_unknown_kinds_of_values_are_refused() -> None:
    with pytest.raises(StorageError, match="unknown kind of value '#module'"):
        unpack({"#module": "os"})
    with pytest.raises(StorageError, match="unknown bit generator 'os'"):
        unpack({"#generator": pack({"bit_generator": "os"})})


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(), inner)
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_values_come_back(value: object) -> None:
    found = unpack(pack(value))
    assert found == value
    assert type(found) is type(value)


def test_what_holds_arrays_comes_back() -> None:
    queue = unpack(pack(deque([np.arange(3, dtype=np.uint8), np.float32(2)], maxlen=4)))
    assert queue.maxlen == 4
    assert queue[0].dtype == np.uint8
    assert isinstance(queue[1], np.float32)
    statistics = RunningMeanStd(shape=(2,))
    statistics.update(np.array([[1.0, 2.0], [3.0, 5.0]]))
    other = unpack(pack(statistics))
    assert vars(other).keys() == vars(statistics).keys()
    assert all(np.array_equal(vars(other)[name], values) for name, values in vars(statistics).items())


@pytest.mark.parametrize("num_steps", [None, 5], ids=["before the first reset", "after steps"])
def test_envs_that_step_together_resume_together(num_steps: int | None) -> None:
    first, second = (VecEnv.create_factory("CartPole-v1", vec_env_size=2, seed=seed)[0]("cpu") for seed in (1, 2))
    actions = np.ones((2, 1), np.int64)
    if num_steps is not None:
        first.reset()
        for _ in range(num_steps):
            first.step(actions)
    state = first.state()
    assert isinstance(state, dict)
    second.load_state(state)
    if num_steps is None:
        np.testing.assert_array_equal(second.reset(), first.reset())
    for _ in range(30):
        step, other = first.step(actions), second.step(actions)
        np.testing.assert_array_equal(other.obs, step.obs)
    first.close()
    second.close()


def test_a_state_of_another_number_of_envs_is_refused() -> None:
    first, second = (VecEnv.create_factory("CartPole-v1", vec_env_size=size)[0]("cpu") for size in (1, 2))
    state = first.state()
    assert isinstance(state, dict)
    with pytest.raises(StorageError, match="a state of 1 envs was saved, there are 2"):
        second.load_state(state)


@pytest.mark.parametrize("env_id", ["ALE/Pong-v5", "dm_control/cartpole-swingup-v0"])
def test_envs_that_have_not_begun_have_seeds_alone_as_their_state(env_id: str) -> None:
    states = [VecEnv.create_factory(env_id, seed=3)[0]("cpu").state() for _ in range(2)]
    assert isinstance(states[0], dict)
    assert states[0] == states[1]
    assert states[0]["envs"] == [None]
