"""Hindsight: which goals are chosen, and what windows are worth under them, worked by hand."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import HERBuffer
from recollect.agent.storages.experience.sampling.relabelling import is_constant
from recollect.errors import ConfigError, SchemaError
from tests.samples import (
    Sample,
    lanes_of,
    make_slice,
    numbers_of,
    reward_if_reached,
    terminated_if_reached,
    with_done,
    with_goals,
)

GAMMA = 0.5


def make_memory(size: int = 50, *, num_envs: int = 1, **options: Any) -> HERBuffer:
    options = {"share": 1.0, "compute_reward": reward_if_reached} | options
    return HERBuffer.standalone(size, num_envs=num_envs, gamma=GAMMA, seed=1, **options)


def goals_of(batch: Sample) -> torch.Tensor:
    return batch[keys.OBS][keys.DESIRED_GOAL][..., 0]


def goals_by_step(batch: Sample) -> dict[int, set[float]]:
    """Goals that each step of the first lane was given."""
    found: dict[int, set[float]] = {}
    for number, goal in zip(numbers_of(batch).tolist(), goals_of(batch).tolist(), strict=True):
        found.setdefault(number, set()).add(goal)
    return found


@pytest.mark.parametrize(
    ("strategy", "goals_of_step"),
    [
        ("future", {0: {1, 2, 2.5}, 2: {2.5}, 3: {4, 5, 6}, 5: {6}}),
        ("final", {0: {2.5}, 2: {2.5}, 3: {6}, 5: {6}}),
        ("episode", {0: {1, 2, 2.5}, 2: {1, 2, 2.5}, 3: {4, 5, 6}, 5: {4, 5, 6}}),
        ("random", {step: {1, 2, 2.5, 4, 5, 6} for step in (0, 2, 3, 5)}),
    ],
)
def test_each_strategy_takes_its_goals_from_where_it_says(strategy: str, goals_of_step: dict[int, set[float]]) -> None:
    memory = make_memory(strategy=strategy)
    # Steps 0 to 2 are an episode, 3 to 5 one that still runs.
    memory.insert_data_slice(with_goals(make_slice(6, terminated=[2])))
    found = goals_by_step(memory.sample(2000))
    assert {step: found[step] for step in goals_of_step} == goals_of_step


@pytest.mark.parametrize(("strategy", "share"), [("future", 0.25), ("random", 0.5)])
def test_goals_of_a_strategy_are_equally_likely(strategy: str, share: float) -> None:
    memory = make_memory(strategy=strategy)
    memory.insert_data_slice(with_goals(make_slice(4 if strategy == "future" else 2, truncated=[3])))
    goals = [goal for number, goal in rows(memory.sample(100_000)) if number == 0]
    counts = np.unique(goals, return_counts=True)[1] / len(goals)
    assert counts == pytest.approx(share, abs=0.02)


def rows(batch: Sample) -> list[tuple[int, float]]:
    return list(zip(numbers_of(batch).tolist(), goals_of(batch).tolist(), strict=True))


def test_what_a_reward_function_keeps_is_not_overwritten() -> None:
    kept: list[tuple[np.ndarray, np.ndarray]] = []

    def keep(achieved: np.ndarray, desired: np.ndarray, info: Any) -> np.ndarray:
        # A view of a view and a tensor: what refers to the memory need not be the array itself.
        kept.append((achieved[1:][::2], torch.from_numpy(desired).numpy()))
        copies.append((kept[-1][0].copy(), kept[-1][1].copy()))
        return reward_if_reached(achieved, desired, info)

    copies: list[tuple[np.ndarray, np.ndarray]] = []
    memory = make_memory(compute_reward=keep, n_step=2)
    memory.insert_data_slice(with_goals(make_slice(40, truncated=[19])))
    for _ in range(10):
        memory.sample(16)
    for shown, copy in zip(kept, copies, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(shown, copy, strict=True))


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ConfigError, match="'future', 'final', 'episode', 'random'"):
        make_memory(strategy="past")


@pytest.mark.parametrize(("share", "batch_size", "expected"), [(0.8, 10, 8), (0.5, 5, 2), (0.0, 9, 0), (1, 9, 9)])
def test_exactly_the_rounded_share_is_relabelled(share: float, batch_size: int, expected: int) -> None:
    memory = make_memory(share=share)
    memory.insert_data_slice(with_goals(make_slice(20)))
    for _ in range(5):
        batch = memory.sample(batch_size)
        is_new = goals_of(batch) != -1
        assert is_new.sum() == expected
        # What is not relabelled is as it was stored.
        assert torch.equal(batch[keys.REWARD].ravel()[~is_new], numbers_of(batch)[~is_new].float())


def test_both_ends_of_a_window_get_the_same_goal() -> None:
    memory = make_memory(n_step=3)
    memory.insert_data_slice(with_goals(make_slice(20)))
    batch = memory.sample(200)
    assert torch.equal(batch[keys.OBS][keys.DESIRED_GOAL], batch[keys.NEXT_OBS][keys.DESIRED_GOAL])
    assert torch.equal(batch[keys.OBS][keys.ACHIEVED_GOAL].ravel(), numbers_of(batch).float())


def test_the_store_itself_is_not_rewritten() -> None:
    memory = make_memory()
    memory.insert_data_slice(with_goals(make_slice(20)))
    memory.sample(200)
    stored = memory.get_all_buffer_data()
    assert (stored[keys.OBS][keys.DESIRED_GOAL] == -1).all()
    assert torch.equal(stored[keys.REWARD].ravel(), torch.arange(20.0))
    assert torch.equal(memory.copy_single_tensor(keys.ACTION, 4), torch.tensor([[4.0]]))


def test_hundreds_of_one_step_episodes() -> None:
    memory = make_memory(300, strategy="episode")
    for first in range(0, 1200, 60):
        numbers = range(first, first + 60)
        memory.insert_data_slice(with_goals(make_slice(60, first=first, terminated=numbers)))
        batch = memory.sample(500)
        assert torch.equal(goals_of(batch), numbers_of(batch) + 0.5)
    assert numbers_of(batch).min() >= 900


@pytest.mark.parametrize("strategy", ["final", "episode"])
def test_episodes_of_all_lengths_are_found_after_many_wraps(strategy: str) -> None:
    rng = np.random.default_rng(1)
    ends = np.cumsum(rng.geometric(0.15, 1000)) - 1
    memory = make_memory(97, strategy=strategy)
    for first in range(0, 2000, 40):
        memory.insert_data_slice(with_goals(make_slice(40, first=first, truncated=ends.tolist())))
        if first % 200 == 0:
            memory.handle_end_of_episode()
        newest, oldest = first + 39, max(0, first + 40 - 97)
        for number, goal in rows(memory.sample(100)):
            end = min(ends[np.searchsorted(ends, number)], newest)
            last = end + 0.5 if end in ends else end + 1
            if strategy == "final":
                assert goal == last
            else:
                begin = max(oldest, ends[ends < number].max(initial=-1) + 1)
                assert begin < goal <= last


def test_a_resized_store_finds_its_episodes_again() -> None:
    memory = make_memory(40, strategy="final")
    memory.insert_data_slice(with_goals(make_slice(60, truncated=range(9, 60, 10))))
    memory.sample(8)
    for size in (25, 80):
        memory.update_storage_parameter("max_size", size)
        batch = memory.sample(100)
        assert torch.equal(goals_of(batch), numbers_of(batch) // 10 * 10 + 9.5)


def test_a_cut_ends_the_episode_for_hindsight() -> None:
    memory = make_memory(strategy="final")
    steps = make_slice(10)
    cuts = np.zeros((10, 1, 1), np.float32)
    cuts[3] = 1
    memory.insert_data_slice(with_goals(steps) | {keys.CUT: cuts})
    batch = memory.sample(100)
    assert torch.equal(goals_of(batch), torch.where(numbers_of(batch) <= 3, 4.0, 10.0))


def test_rewards_of_all_steps_of_a_window_are_those_of_the_new_goal() -> None:
    memory = make_memory(strategy="final", n_step=3)
    memory.insert_data_slice(with_goals(make_slice(10, truncated=[9])))
    batch = memory.sample(300)
    returns = dict(zip(numbers_of(batch).tolist(), batch[keys.REWARD].ravel().tolist(), strict=True))
    # -1 for each step but the last one, which reaches the goal.
    assert returns[0] == -1 - GAMMA - GAMMA**2
    assert returns[7] == -1 - GAMMA
    assert returns[8] == -1
    assert returns[9] == 0


def test_reaching_the_goal_ends_a_window_where_it_terminates() -> None:
    memory = make_memory(n_step=4, compute_terminated=terminated_if_reached)
    memory.insert_data_slice(with_goals(make_slice(12, truncated=[11])))
    batch = memory.sample(2000)
    for row, (number, goal) in enumerate(rows(batch)):
        distance = int(np.ceil(goal)) - number  # steps until the goal is reached
        length = min(4, distance, 12 - number)
        reached = distance <= 4
        assert batch[keys.N_STEP][row] == length
        assert batch[keys.REWARD][row] == -sum(GAMMA**i for i in range(length)) + reached * GAMMA ** (length - 1)
        assert batch[keys.DISCOUNT][row] == (0 if reached else GAMMA**length)
        assert batch[keys.NEXT_TERMINATED][row] == reached
        last = number + length - 1
        assert batch[keys.NEXT_DONE][row] == (reached or last == 11)
        assert batch[keys.NEXT_OBS][keys.ACHIEVED_GOAL][row] == (last + 0.5 if last == 11 else last + 1)


@pytest.mark.parametrize("recomputed", [False, True])
def test_a_success_for_the_old_goal_counts_only_where_terminations_are_not_recomputed(
    recomputed: bool,
) -> None:
    never = {"compute_terminated": lambda achieved, desired, info: np.zeros(len(achieved), bool)}
    memory = make_memory(strategy="final", **(never if recomputed else {}))
    memory.insert_data_slice(with_goals(make_slice(5, terminated=[4])))
    batch = memory.sample(50)
    last = numbers_of(batch) == 4
    assert set(batch[keys.DISCOUNT][last].ravel().tolist()) == {GAMMA if recomputed else 0.0}
    assert set(batch[keys.NEXT_TERMINATED][last].ravel().tolist()) == {float(not recomputed)}
    assert set(batch[keys.NEXT_DONE][last].ravel().tolist()) == {1.0}


class Recorded:
    """A goal function that notes the shapes it was called with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.shapes: list[tuple[Any, ...]] = []

    def __call__(self, achieved: Any, desired: Any, info: Any) -> Any:
        assert type(achieved) is type(desired) is np.ndarray
        assert info == {}
        self.shapes.append((achieved.shape, desired.shape))
        return self.function(achieved, desired, info)


def test_goal_functions_are_called_once_a_batch_on_whole_arrays() -> None:
    reward, terminated = Recorded(reward_if_reached), Recorded(terminated_if_reached)
    memory = make_memory(share=0.5, n_step=3, compute_reward=reward, compute_terminated=terminated)
    memory.insert_data_slice(with_goals(make_slice(40)))
    for _ in memory.generate_batches(4, 20):
        pass
    assert len(reward.shapes) == 4
    assert reward.shapes == terminated.shapes
    for achieved, desired in reward.shapes:
        assert achieved == desired
        assert 10 < achieved[0] <= 30
        assert achieved[1:] == (1,)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_a_plain_answer_for_many_rows_is_asked_for_row_by_row(batch_size: int) -> None:
    def never(achieved: Any, desired: Any, info: Any) -> bool:
        return False

    def row_by_row(achieved: Any, desired: Any, info: Any) -> bool:
        return bool(np.array_equal(achieved, desired))

    for function, is_reached in ((never, False), (row_by_row, True)):
        memory = make_memory(strategy="final", n_step=3, compute_terminated=function)
        memory.insert_data_slice(with_goals(make_slice(2, truncated=[1])))
        for _ in range(5):
            batch = memory.sample(batch_size)
            assert set(batch[keys.NEXT_TERMINATED].ravel().tolist()) == {float(is_reached)}
            expected = torch.zeros_like(batch[keys.DISCOUNT]) if is_reached else GAMMA ** batch[keys.N_STEP]
            assert torch.equal(batch[keys.DISCOUNT], expected)


class Goals:
    """Goal functions as environments have them."""

    reach = 0.4

    def never(self, achieved: Any, desired: Any, info: Any) -> bool:
        """A docstring is no code."""
        return False

    def near(self, achieved: Any, desired: Any, info: Any) -> bool:
        return bool(np.linalg.norm(achieved - desired) <= self.reach)

    def always_now(self, achieved: Any, desired: Any, info: Any) -> bool:
        return self.reach > 0


def test_only_code_that_is_a_constant_is_not_asked_for_row_by_row() -> None:
    assert is_constant(Goals().never)
    assert is_constant(lambda achieved, desired, info: False)
    for function in (Goals().near, Goals().always_now, Recorded(Goals().never), np.equal):
        assert not is_constant(function)


def test_a_batch_in_which_all_rows_agree_says_nothing_of_the_next() -> None:
    memory = make_memory(500, compute_terminated=Goals().near)
    small, large = (with_goals(make_slice(num_steps)) for num_steps in (20, 400))
    for key in (keys.OBS, keys.NEXT_OBS):
        # At first no goal is further away than reaches.
        small[key] = {name: values * np.float32(0.01) for name, values in small[key].items()}
    memory.insert_data_slice(small)
    assert memory.sample(64)[keys.NEXT_TERMINATED].any()
    memory.release_source(0)
    memory.insert_data_slice(large)
    for _ in range(5):
        batch = memory.sample(64)
        after = batch[keys.NEXT_OBS]
        is_near = (after[keys.ACHIEVED_GOAL] - after[keys.DESIRED_GOAL]).abs() <= Goals.reach
        assert is_near.any()
        assert torch.equal(batch[keys.NEXT_TERMINATED], is_near.float())


@pytest.mark.parametrize("combine", [np.any, np.all])
def test_one_answer_for_many_rows_that_begins_to_differ_is_asked_for_row_by_row(combine: Callable[..., Any]) -> None:
    def fell(achieved: Any, desired: Any, info: Any) -> bool:
        return bool(combine(achieved > 15))

    memory = make_memory(20, compute_terminated=fell)
    memory.insert_data_slice(with_goals(make_slice(8)))
    for _ in range(3):
        assert not memory.sample(64)[keys.NEXT_TERMINATED].any()
    memory.insert_data_slice(with_goals(make_slice(12, first=8)))
    for _ in range(20):
        batch = memory.sample(64)
    assert torch.equal(batch[keys.NEXT_TERMINATED], (batch[keys.NEXT_OBS]["observation"][:, :1] > 15).float())


@pytest.mark.parametrize(
    "answer", [lambda achieved: np.full(len(achieved), np.nan), lambda achieved: np.zeros(len(achieved) + 1)]
)
def test_answers_that_cannot_be_rewards_are_refused(answer: Callable[[np.ndarray], np.ndarray]) -> None:
    memory = make_memory(compute_reward=lambda achieved, desired, info: answer(achieved))
    memory.insert_data_slice(with_goals(make_slice(5)))
    with pytest.raises(SchemaError):
        memory.sample(8)


def test_goal_functions_are_found_in_the_environment() -> None:
    env = SimpleNamespace(compute_reward=lambda achieved, desired, info: np.full(len(achieved), 3.0))
    env.unwrapped = env
    algorithm = SimpleNamespace(gamma=GAMMA)
    for envs in (
        SimpleNamespace(num_envs=1, compute_reward=env.compute_reward),
        SimpleNamespace(num_envs=1, env_fns=[lambda: env]),
    ):
        memory = HERBuffer(20, "cpu", None, algorithm, envs, None, share=1.0, seed=1)
        memory.insert_data_slice(with_goals(make_slice(5)))
        assert (memory.sample(8)[keys.REWARD] == 3).all()


@pytest.mark.parametrize("given", ["compute_reward", "compute_terminated"])
def test_a_goal_function_that_is_given_leaves_the_other_to_the_environment(given: str) -> None:
    functions = {"compute_reward": reward_if_reached, "compute_terminated": terminated_if_reached}
    parts = ("cpu", None, SimpleNamespace(gamma=GAMMA), SimpleNamespace(num_envs=1, **functions), None)
    memories = [
        HERBuffer(20, *parts, n_step=3, strategy="final", seed=1, **options)
        for options in ({}, {given: functions[given]})
    ]
    batches = []
    for memory in memories:
        memory.insert_data_slice(with_goals(make_slice(5)))
        batches.append(memory.sample(50))
    assert (batches[0][keys.DISCOUNT] == 0).any()
    assert all(torch.equal(batches[0][key], batches[1][key]) for key in (keys.REWARD, keys.DISCOUNT))


def test_no_environment_is_made_for_goal_functions_that_are_given() -> None:
    def make_env() -> Any:
        raise AssertionError("made in vain")

    envs = SimpleNamespace(num_envs=1, env_fns=[make_env])
    functions = {"compute_reward": reward_if_reached, "compute_terminated": terminated_if_reached}
    HERBuffer(20, "cpu", None, SimpleNamespace(gamma=GAMMA), envs, None, **functions)
    with pytest.raises(AssertionError, match="made in vain"):
        HERBuffer(20, "cpu", None, SimpleNamespace(gamma=GAMMA), envs, None, compute_reward=reward_if_reached)


def test_observations_without_goals_are_refused() -> None:
    memory = make_memory()
    with pytest.raises(SchemaError, match=keys.ACHIEVED_GOAL):
        memory.insert_data_slice(make_slice(5))
    assert len(memory) == 0


@pytest.mark.parametrize(
    ("name", "dtype", "dim"), [(keys.ACHIEVED_GOAL, np.float64, 1), (keys.DESIRED_GOAL, np.float32, 2)]
)
def test_goals_that_cannot_take_each_others_place_are_refused(name: str, dtype: type, dim: int) -> None:
    memory = make_memory()
    steps = with_goals(make_slice(5))
    for key in (keys.OBS, keys.NEXT_OBS):
        steps[key][name] = np.repeat(steps[key][name], dim, axis=-1).astype(dtype)
    with pytest.raises(SchemaError, match=r"desired_goal.*expected.*got.*her_function"):
        memory.insert_data_slice(steps)
    assert len(memory) == 0
    memory.insert_data_slice(with_goals(make_slice(5)))
    assert len(memory.sample(8)[keys.REWARD]) == 8


@pytest.mark.parametrize("her_function", [None, lambda *given: given[:5]])
def test_windows_take_no_more_room_than_the_longest_episode_needs(her_function: Any) -> None:
    options = {"her_function": her_function} | ({"compute_reward": None} if her_function else {})
    memory = make_memory(300, n_step=10**9, num_envs=2, **options)
    memory.insert_data_slice(with_goals(make_slice(500, num_envs=2, truncated={0: range(9, 500, 10)})))
    batch = memory.sample(256)
    lengths, last = batch[keys.N_STEP].ravel(), numbers_of(batch) % 10
    assert torch.equal(lengths, torch.where(lanes_of(batch) == 0, 10 - last, 500 - numbers_of(batch)))


def test_a_her_function_sees_every_step_of_the_windows() -> None:
    calls: list[dict[str, Any]] = []

    def rewrite(
        obs: Any, rhs: Any, next_obs: Any, next_rhs: Any, reward: Any, initial_state: Any, final_state: Any
    ) -> tuple[Any, ...]:
        calls.append({"obs": obs, "initial": initial_state, "final": final_state})
        return obs + 100, rhs, next_obs + 200, next_rhs, reward * 0 + 1

    memory = HERBuffer.standalone(50, gamma=GAMMA, seed=1, n_step=2, share=1.0, strategy="final", her_function=rewrite)
    memory.insert_data_slice(make_slice(10, truncated=[4]))
    memory.sample(64)  # the first batch is also tried row by row
    calls.clear()
    batch = memory.sample(64)
    numbers = numbers_of(batch)
    lengths = torch.where((numbers == 4) | (numbers == 9), 1, 2)
    assert len(calls) == 1
    seen = calls[0]["obs"][:, 0]
    assert len(seen) == lengths.sum()
    assert np.array_equal(calls[0]["initial"][:, 0], np.where(seen <= 4, 0, 5))
    assert np.array_equal(calls[0]["final"][:, 0], np.where(seen <= 4, 4.5, 10))
    assert torch.equal(batch[keys.OBS][:, 0], numbers + 100.0)
    after = numbers + lengths.float()
    assert torch.equal(batch[keys.NEXT_OBS][:, 0], torch.where(after == 5, 4.5, after) + 200)
    assert torch.equal(batch[keys.REWARD].ravel(), torch.where(lengths == 2, 1 + GAMMA, 1.0))


def test_lanes_have_goals_of_their_own() -> None:
    memory = make_memory(num_envs=3)
    steps = with_goals(make_slice(10, num_envs=3))
    for key in (keys.OBS, keys.NEXT_OBS):
        steps[key][keys.ACHIEVED_GOAL] += 1000 * np.arange(3, dtype=np.float32)[:, None]
    memory.insert_data_slice(steps)
    batch = memory.sample(500)
    assert torch.equal(goals_of(batch) // 1000, lanes_of(batch).float())
    assert (goals_of(batch) % 1000 > numbers_of(batch)).all()


def test_priorities_of_relabelled_rows_go_to_their_step() -> None:
    memory = make_memory(alpha=1.0, default_error=1.0)
    memory.insert_data_slice(with_goals(make_slice(4)))
    batch = memory.sample(64)
    memory.update_priorities(batch, numbers_of(batch) + 1.0)
    assert memory.tree.total == 1 + 2 + 3 + 4


def test_sequences_get_one_goal_for_each_episode_in_them_and_a_zero_state() -> None:
    memory = make_memory(40, share=0.5, strategy="future", sequence_length=6)
    steps = with_done(make_slice(12, truncated=[2, 8]))
    memory.insert_data_slice(with_goals(steps) | {keys.RHS: steps[keys.OBS] + 1})
    batch = memory.sample(6 * 40)
    is_new = goals_of(batch)[:, 0] != -1
    assert is_new.sum() == 20
    assert (batch[keys.RHS][is_new] == 0).all()
    assert (batch[keys.RHS][~is_new] != 0).any(dim=1).all()
    for start, goals in zip(numbers_of(batch)[is_new].tolist(), goals_of(batch)[is_new].tolist(), strict=True):
        allowed = [{1, 2, 2.5}, {4, 5, 6, 7, 8, 8.5}] if start == 0 else [{7, 8, 8.5}, {10, 11, 12}]
        for segment, possible in zip((goals[:3], goals[3:]), allowed, strict=True):
            assert len(set(segment)) == 1
            assert segment[0] in possible
