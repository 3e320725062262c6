"""`NStepReplayStorage` against plain lists of steps."""

import gc
import multiprocessing
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from recollect import keys
from recollect.agent.storages.experience.sampling.outputs import OutputPlan
from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayBatch, NStepReplayStorage
from recollect.errors import ConfigError, RecollectError, RecollectWarning, SchemaError, StorageError
from tests.waiting import PATIENCE_S, wait_until

OBSERVATIONS = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACTIONS = gym.spaces.Box(-1, 1, (1,), np.float32)
GAMMA = 0.9


@contextmanager
def storage(
    observation_space: gym.Space[Any] = OBSERVATIONS, action_space: gym.Space[Any] = ACTIONS, **options: Any
) -> Iterator[NStepReplayStorage]:
    defaults = {"storage_size": 60, "batch_size": 64, "num_workers": 2, "discount": GAMMA, "seed": 1}
    with NStepReplayStorage(observation_space, action_space, **(defaults | options)) as made:
        yield made


@dataclass
class Step:
    """One step of one env; every observation of a test is unique."""

    obs: np.ndarray
    action: float
    reward: float
    terminated: bool
    truncated: bool
    next_obs: np.ndarray


@dataclass
class Envs:
    """Random environments and, as plain lists, every step that they took."""

    num_envs: int
    seed: int = 0
    end_probability: float = 0.2
    lanes: list[list[Step]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.lanes = [[] for _ in range(self.num_envs)]
        self.number = 0
        self.obs = self.fresh()

    def fresh(self) -> np.ndarray:
        """Observations that were never seen before."""
        self.number += 1
        return np.array([[self.number, env] for env in range(self.num_envs)], np.float32)

    def step(self) -> dict[str, Any]:
        """Arguments of `add` for one step."""
        ended = self.rng.random(self.num_envs) < self.end_probability
        terminated = ended & (self.rng.random(self.num_envs) < 0.5)
        obs, next_obs = self.obs, self.fresh()
        actions = self.rng.uniform(-1, 1, (self.num_envs, 1)).astype(np.float32)
        rewards = self.rng.standard_normal(self.num_envs).astype(np.float32)
        for env, lane in enumerate(self.lanes):
            flags = bool(terminated[env]), bool(ended[env] & ~terminated[env])
            lane.append(Step(obs[env], actions[env, 0], rewards[env], *flags, next_obs[env]))
        self.obs = np.where(ended[:, None], self.fresh(), next_obs)
        return {
            "observations": obs,
            "actions": actions,
            "rewards": rewards,
            "terminateds": terminated,
            "truncateds": ended & ~terminated,
            "infos": {},
            "next_observations": next_obs,
        }

    def add_to(self, *made: NStepReplayStorage, num_steps: int = 1) -> None:
        for _ in range(num_steps):
            arguments = self.step()
            for each in made:
                each.add(**arguments)


def expected_row(lane: list[Step], position: int, n_step: int) -> tuple[float, float, np.ndarray]:
    """Return, discount and bootstrap observation, step by step."""
    total, power = 0.0, 1.0
    for step in lane[position : position + n_step]:
        total += power * float(step.reward)
        power *= GAMMA
        if step.terminated or step.truncated:
            break
    return total, 0.0 if step.terminated else power, step.next_obs


def check(batch: NStepReplayBatch, lanes: list[list[Step]], n_step: int = 3) -> set[tuple[int, int]]:
    """Compare a batch with the steps in `lanes`; returns which of them occur."""
    places = {tuple(step.obs): (env, t) for env, lane in enumerate(lanes) for t, step in enumerate(lane)}
    rows = [places[tuple(obs)] for obs in batch.observations.tolist()]
    expected = {(env, t): expected_row(lanes[env], t, n_step) for env, t in set(rows)}
    totals, discounts, next_obs = zip(*(expected[row] for row in rows), strict=True)
    np.testing.assert_array_equal(batch.actions[:, 0], [lanes[env][t].action for env, t in rows])
    np.testing.assert_allclose(batch.rewards[:, 0], totals, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.discounts[:, 0], discounts, rtol=1e-6)
    np.testing.assert_array_equal(batch.next_observations, next_obs)
    return set(rows)


def copies(batch: NStepReplayBatch) -> list[np.ndarray]:
    return [tensor.numpy().copy() for tensor in batch]


def same(left: Any, right: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("n_step", [1, 3, 7])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_batches_are_those_of_plain_lists_and_no_step_is_left_out(num_envs: int, n_step: int, num_workers: int) -> None:
    envs = Envs(num_envs, seed=n_step)
    options = {"num_envs": num_envs, "n_step": n_step, "num_workers": num_workers, "fetch_every": 0}
    with storage(storage_size=20 * num_envs + num_envs - 1, batch_size=1000, **options) as made:
        for num_steps in (1, 1, 2, 9, 5, 30, 1):
            envs.add_to(made, num_steps=num_steps)
            stored = [lane[-20:] for lane in envs.lanes]
            seen = check(made.sample(), stored, n_step)
            assert seen == {(env, t) for env, lane in enumerate(stored) for t in range(len(lane))}
            assert len(made) == sum(map(len, stored))


def test_a_batch_is_a_named_tuple_of_tensors() -> None:
    with storage() as made:
        Envs(1).add_to(made, num_steps=5)
        batch = made.sample()
    assert batch._fields == ("observations", "actions", "rewards", "discounts", "next_observations")
    shapes = [tuple(tensor.shape) for tensor in batch]
    assert shapes == [(64, 2), (64, 1), (64, 1), (64, 1), (64, 2)]
    assert {tensor.dtype for tensor in batch} == {torch.float32}


def test_replay_iter_continues_and_sees_new_data() -> None:
    envs = Envs(1)
    with storage(fetch_every=0) as made:
        envs.add_to(made, num_steps=2)
        iterator = iter(made.replay_iter())
        seen = [check(batch, envs.lanes) for batch in islice(iterator, 5)]
        assert seen[-1] == {(0, 0), (0, 1)}
        envs.add_to(made)
        assert (0, 2) in check(next(iterator), envs.lanes)


# Looks: what is drawn when.


@pytest.mark.parametrize(("fetch_every", "num_batches"), [(0, 1), (1, 1), (64, 1), (65, 2), (200, 4), (10**6, 16)])
def test_new_data_are_seen_after_fetch_every_rows(fetch_every: int, num_batches: int) -> None:
    envs = Envs(1, end_probability=0)
    with storage(fetch_every=fetch_every, n_step=1) as made:
        for _ in range(3):
            envs.add_to(made)
            newest = (0, len(envs.lanes[0]) - 1)
            for number in range(num_batches):
                has_newest = newest in check(made.sample(), [lane[: newest[1] + 1] for lane in envs.lanes], 1)
                assert has_newest == (newest[1] == len(envs.lanes[0]) - 1) or number
                envs.add_to(made)
            made.reset()
            envs.lanes[0].clear()


def test_batches_of_a_look_are_those_of_the_store_as_it_was() -> None:
    """Also if every step that they hold is overwritten before they are taken."""
    envs = Envs(2)
    with storage(storage_size=20, num_envs=2, fetch_every=64 * 8, num_workers=3) as made:
        for _ in range(20):
            envs.add_to(made, num_steps=7)
            stored = [list(lane[-10:]) for lane in envs.lanes]
            for _ in range(8):
                check(made.sample(), stored)
                envs.add_to(made, num_steps=3)


def run_program(num_workers: int, fetch_every: int) -> list[list[np.ndarray]]:
    """A random program of adds, samples and resets; returns all batches."""
    pixels = gym.spaces.Box(0, 255, (3, 32, 32), np.uint8)
    rng = np.random.default_rng(4)
    frames = rng.integers(0, 255, (50, 2, 3, 32, 32), np.uint8)
    batches = []
    with storage(
        pixels, num_envs=2, storage_size=30, num_workers=num_workers, fetch_every=fetch_every, batch_size=40
    ) as made:
        for number in range(120):
            ended = rng.random(2) < 0.1
            after = frames[(number + 1) % 50].copy()
            after[ended] = 0
            made.add(
                frames[number % 50],
                np.full((2, 1), number, np.float32),
                np.full(2, number),
                ended,
                np.zeros(2),
                {},
                after,
            )
            batches += [copies(made.sample()) for _ in range(rng.integers(0, 4))]
            if number == 70:
                made.reset()
    return batches


@pytest.mark.parametrize("fetch_every", [0, 100, 500])
def test_batches_do_not_depend_on_the_number_of_threads(fetch_every: int) -> None:
    first, *others = (run_program(num_workers, fetch_every) for num_workers in (0, 1, 4))
    assert len(first) > 100
    for other in others:
        assert all(same(left, right) for left, right in zip(first, other, strict=True))


def test_seeds_make_a_difference() -> None:
    envs = Envs(1)
    with storage(seed=1) as one, storage(seed=1) as same_seed, storage(seed=2) as other:
        envs.add_to(one, same_seed, other, num_steps=20)
        batch = copies(one.sample())
        assert same(batch, same_seed.sample())
        assert not same(batch, other.sample())


def test_a_batch_that_is_kept_does_not_change() -> None:
    envs = Envs(1)
    with storage(fetch_every=300) as made:
        envs.add_to(made, num_steps=30)
        kept = [made.sample() for _ in range(20)]
        before = [copies(batch) for batch in kept]
        for _ in range(50):
            made.sample()
        assert all(same(batch, copy) for batch, copy in zip(kept, before, strict=True))


# Threads.


def test_all_but_the_first_batch_of_a_look_are_gathered_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    gather = OutputPlan.gather

    def recorded(self: OutputPlan, *arguments: Any) -> Any:
        names.append(threading.current_thread().name)
        return gather(self, *arguments)

    monkeypatch.setattr(OutputPlan, "gather", recorded)
    envs = Envs(1)
    with storage(fetch_every=64 * 4) as made:
        envs.add_to(made, num_steps=5)
        for _ in range(8):
            made.sample()
    own = threading.current_thread().name
    assert [name == own for name in names].count(True) == 2
    assert len(names) == 8


def test_learning_continues_while_batches_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    gather = OutputPlan.gather
    may_gather = threading.Event()

    def slow(self: OutputPlan, *arguments: Any) -> Any:
        if threading.current_thread().name.startswith("recollect"):
            assert may_gather.wait(PATIENCE_S)
        return gather(self, *arguments)

    monkeypatch.setattr(OutputPlan, "gather", slow)
    envs = Envs(1)
    with storage(fetch_every=64 * 3) as made:
        envs.add_to(made, num_steps=5)
        made.sample()  # returns, though the other two batches of the look are not there yet
        assert not may_gather.is_set()
        may_gather.set()
        check(made.sample(), envs.lanes)


def test_an_error_in_a_loader_surfaces_in_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    gather = OutputPlan.gather
    envs = Envs(1)

    def failing(self: OutputPlan, *arguments: Any) -> Any:
        if threading.current_thread().name.startswith("recollect"):
            raise MemoryError("on purpose")
        return gather(self, *arguments)

    monkeypatch.setattr(OutputPlan, "gather", failing)
    with storage(fetch_every=64 * 2) as made:
        envs.add_to(made, num_steps=5)
        made.sample()
        envs.add_to(made)
        with pytest.raises(MemoryError, match="on purpose"):
            made.sample()
        check(made.sample(), envs.lanes)


def test_threads_end_with_the_storage() -> None:
    before = set(threading.enumerate())
    envs = Envs(1)
    made = NStepReplayStorage(OBSERVATIONS, ACTIONS, storage_size=50, num_workers=3)
    envs.add_to(made, num_steps=5)
    made.sample()
    assert set(threading.enumerate()) > before
    made.close()
    made.close()
    assert set(threading.enumerate()) <= before

    forgotten = NStepReplayStorage(OBSERVATIONS, ACTIONS, storage_size=50, num_workers=3)
    envs.add_to(forgotten, num_steps=5)
    forgotten.sample()
    reference = weakref.ref(forgotten)
    del forgotten

    def has_ended() -> bool:
        gc.collect()  # each time: a batch that a thread still gathers holds the storage
        return set(threading.enumerate()) <= before

    wait_until(has_ended, "the threads of a forgotten storage to end")
    assert reference() is None


@pytest.mark.parametrize("num_workers", [0, 1, 4])
def test_a_process_that_is_forked_continues_with_the_same_batches(num_workers: int) -> None:
    with storage(num_workers=num_workers, batch_size=4, fetch_every=40) as made:
        Envs(1).add_to(made, num_steps=30)
        made.sample()
        receiver, sender = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        process = context.Process(target=lambda: sender.send([made.sample().rewards.tolist() for _ in range(25)]))
        process.start()
        assert receiver.poll(PATIENCE_S), "the forked process hangs"
        found = receiver.recv()
        process.join()
        assert found == [made.sample().rewards.tolist() for _ in range(25)]


def test_an_iterator_continues_after_an_empty_storage() -> None:
    with storage() as made:
        batches = made.replay_iter()
        with pytest.raises(StorageError, match="empty"):
            next(batches)
        Envs(1).add_to(made, num_steps=3)
        assert len(next(batches).rewards) == len(next(batches).rewards) == made.batch_size


def test_last_observations_that_are_announced_and_missing_are_refused() -> None:
    with storage() as made:
        Envs(1).add_to(made, num_steps=2)
        obs, action = np.zeros((1, 2), np.float32), np.zeros((1, 1), np.float32)
        infos = {keys.FINAL_OBS: np.array([None], object), keys.HAS_FINAL_OBS: [1]}
        with pytest.raises(SchemaError, match="holds None"):
            made.add(obs, action, [1.0], [0], [1], infos, obs)
        assert len(made) == 2


def test_a_closed_storage_says_so() -> None:
    envs = Envs(1)
    with storage() as made:
        envs.add_to(made, num_steps=2)
    for call in (made.sample, made.update, made.reset, lambda: envs.add_to(made), lambda: next(made.replay_iter())):
        with pytest.raises(StorageError, match="closed"):
            call()


def test_add_and_sample_from_two_threads() -> None:
    """No order is promised then, but every row is a true one."""
    envs = Envs(2)
    with storage(storage_size=4000, num_envs=2, fetch_every=64 * 4, batch_size=64) as made:
        envs.add_to(made, num_steps=5)
        writer = threading.Thread(target=envs.add_to, args=(made,), kwargs={"num_steps": 1500})
        writer.start()
        batches = []
        while writer.is_alive():
            batches.append(copies(made.sample()))
        writer.join()
    for batch in batches[:: max(1, len(batches) // 50)]:
        rows = NStepReplayBatch(*map(torch.from_numpy, batch))
        alive = rows.discounts > 0
        steps = rows.next_observations[:, 0] - rows.observations[:, 0]
        assert (rows.next_observations[:, 1] == rows.observations[:, 1]).all()
        assert (steps >= 1).all()
        assert torch.isin(rows.discounts[alive], torch.tensor([GAMMA, GAMMA**2, GAMMA**3])).all()


# Ends of episodes.

DICT_SPACE = gym.spaces.Dict({"position": OBSERVATIONS, "image": gym.spaces.Box(0, 255, (4, 4), np.uint8)})


class Counter(gym.Env[Any, np.ndarray]):
    """Counts its steps; ends after `length` steps, by truncation or termination in turn."""

    action_space = ACTIONS

    def __init__(self, length: int, *, dictionary: bool = False) -> None:
        self.length, self.dictionary = length, dictionary
        self.observation_space = DICT_SPACE if dictionary else OBSERVATIONS
        self.episode = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.episode += 1
        self.number = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.number += 1
        ended = self.number == self.length
        return self._observe(), 1.0, ended and self.episode % 2 == 0, ended and self.episode % 2 == 1, {}

    def _observe(self) -> Any:
        values = np.array([self.episode, self.number], np.float32)
        image = np.full((4, 4), self.number, np.uint8)
        return {"position": values, "image": image} if self.dictionary else values


def feed(made: NStepReplayStorage, envs: gym.vector.VectorEnv, num_steps: int) -> None:
    obs, _ = envs.reset()
    for _ in range(num_steps):
        actions = np.zeros((envs.num_envs, 1), np.float32)
        after, rewards, terminated, truncated, infos = envs.step(actions)
        made.add(obs, actions, rewards, terminated, truncated, infos, after)
        obs = after


def vector_env(mode: AutoresetMode, *, dictionary: bool = False) -> gym.vector.SyncVectorEnv:
    lengths = (2, 5, 3)
    return gym.vector.SyncVectorEnv(
        [lambda length=length: Counter(length, dictionary=dictionary) for length in lengths],  # type: ignore[misc]
        autoreset_mode=mode,
    )


def check_counters(batch: NStepReplayBatch, positions: torch.Tensor, next_positions: torch.Tensor) -> None:
    """Every window stays in its episode, and its discount is that of the steps it has."""
    steps = next_positions[:, 1] - positions[:, 1]
    assert (positions[:, 0] == next_positions[:, 0]).all()
    assert ((steps >= 1) & (steps <= 3)).all()
    folded = torch.tensor([1, 1 + GAMMA, 1 + GAMMA + GAMMA**2])[steps.long() - 1]
    torch.testing.assert_close(batch.rewards[:, 0], folded)
    bootstraps = batch.discounts[:, 0] > 0
    torch.testing.assert_close(batch.discounts[bootstraps, 0], GAMMA ** steps[bootstraps])
    assert (positions[~bootstraps, 0] % 2 == 0).all()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("dictionary", [False, True])
def test_vector_envs_of_both_modes(mode: AutoresetMode, dictionary: bool) -> None:
    space = DICT_SPACE if dictionary else OBSERVATIONS
    options = {"num_envs": 3, "storage_size": 300, "batch_size": 2000, "autoreset_mode": mode}
    with storage(space, **options) as made:
        feed(made, vector_env(mode, dictionary=dictionary), 60)
        batch = made.sample()
        num_resets = 60 // 3 + 60 // 6 + 60 // 4 if mode is AutoresetMode.NEXT_STEP else 0
        assert len(made) == 180 - num_resets
    positions, next_positions = batch.observations, batch.next_observations
    if dictionary:
        assert batch.observations["image"].dtype == torch.uint8
        assert (batch.observations["image"][:, 0, 0] == batch.observations["position"][:, 1]).all()
        assert (batch.next_observations["image"][:, 3, 3] == batch.next_observations["position"][:, 1]).all()
        positions, next_positions = positions["position"], next_positions["position"]
    check_counters(batch, positions, next_positions)
    # The last step of each kind of episode leads to the episode's true last observation.
    assert {2.0, 3.0, 5.0} <= set(next_positions[batch.discounts[:, 0] == 0, 1].tolist())


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("num_before", range(1, 7))
@pytest.mark.parametrize("num_resets", [1, 2])
def test_an_env_that_ended_before_a_reset_still_begins_again_after_it(
    num_resets: int, num_before: int, dictionary: bool
) -> None:
    space, mode = DICT_SPACE if dictionary else OBSERVATIONS, AutoresetMode.NEXT_STEP
    envs = vector_env(mode, dictionary=dictionary)
    obs, _ = envs.reset()
    with storage(space, num_envs=3, batch_size=200, autoreset_mode=mode, fetch_every=0) as made:
        for number in range(num_before + 4):
            after, *others = envs.step(np.zeros((3, 1), np.float32))
            made.add(obs, np.zeros((3, 1), np.float32), *others, after)
            obs = after
            for _ in range(num_resets if number == num_before - 1 else 0):
                made.reset()
        batch = made.sample()
        # Episodes of 2, 5 and 3 steps, each followed by a step that only begins the next one.
        added = range(num_before, num_before + 4)
        assert len(made) == sum(number % (length + 1) != length for number in added for length in (2, 5, 3))
    positions, next_positions = batch.observations, batch.next_observations
    if dictionary:
        positions, next_positions = positions["position"], next_positions["position"]
    check_counters(batch, positions, next_positions)


def test_the_wrong_mode_is_noticed() -> None:
    with storage(num_envs=3) as made, pytest.warns(RecollectWarning, match="NextStep"):
        feed(made, vector_env(AutoresetMode.NEXT_STEP), 30)


def test_missing_last_observations_are_noticed() -> None:
    obs = np.arange(40, dtype=np.float32).repeat(2).reshape(-1, 1, 2)
    flag, no = np.ones(1, bool), np.zeros(1, bool)
    with storage() as made:
        for before, after in pairwise(obs[:11]):
            made.add(before, np.zeros((1, 1), np.float32), np.ones(1), no, flag, {}, after)
        with pytest.warns(RecollectWarning, match="final_obs"):
            made.add(obs[10], np.zeros((1, 1), np.float32), np.ones(1), no, flag, {}, obs[11])


def test_right_modes_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        with storage(num_envs=3, autoreset_mode=mode.value) as made:
            feed(made, vector_env(mode), 60)
    assert not [warning for warning in recwarn if issubclass(warning.category, RecollectWarning)]


def test_a_store_of_resets_alone_gives_nothing() -> None:
    with storage(storage_size=1, autoreset_mode="NextStep", fetch_every=0) as made:
        zeros, no = np.zeros((1, 2), np.float32), np.zeros(1, bool)
        action = np.zeros((1, 1), np.float32)
        made.add(zeros, action, np.ones(1), ~no, no, {}, zeros + 1)
        made.sample()
        made.add(zeros + 1, action, np.zeros(1), no, no, {}, zeros)
        assert len(made) == 0
        with pytest.raises(StorageError, match="reset"):
            made.sample()


def as_objects(finals: np.ndarray, mask: np.ndarray) -> Any:
    entries = np.full(len(finals), None, dtype=object)
    for env in np.flatnonzero(mask):
        entries[env] = finals[env]
    return entries


CONVERTERS: dict[str, Any] = {
    "objects": as_objects,
    "array": lambda finals, mask: finals,
    "list": lambda finals, mask: list(as_objects(finals, mask)),
    "tensor": lambda finals, mask: torch.from_numpy(finals),
}


@pytest.mark.parametrize("has_mask", [True, False])
@pytest.mark.parametrize("name", CONVERTERS)
def test_last_observations_in_infos(name: str, has_mask: bool) -> None:
    ended = np.array([True, False, True])
    finals = np.array([[10, 0], [11, 0], [12, 0]], np.float32)
    infos = {keys.FINAL_OBS: CONVERTERS[name](finals, ended)} | ({keys.HAS_FINAL_OBS: ended} if has_mask else {})
    obs = np.array([[1, 0], [1, 1], [1, 2]], np.float32)
    with storage(num_envs=3) as made:
        made.add(obs, np.zeros((3, 1), np.float32), np.ones(3), np.zeros(3, bool), ended, infos, obs + 1)
        batch = made.sample()
    found = {
        int(row[1]): after.tolist() for row, after in zip(batch.observations, batch.next_observations, strict=True)
    }
    assert found == {0: [10, 0], 1: [2, 2], 2: [12, 0]}


def test_last_observations_as_a_dict_of_arrays_and_only_where_an_episode_ended() -> None:
    obs = {"position": np.zeros((2, 2), np.float32), "image": np.zeros((2, 4, 4), np.uint8)}
    finals = {"position": np.full((2, 2), 7.0, np.float32), "image": np.full((2, 4, 4), 7, np.uint8)}
    mask = np.array([True, True])
    infos = {keys.FINAL_OBS: finals, keys.HAS_FINAL_OBS: mask}
    obs["position"][:, 0] = [1, 2]
    with storage(DICT_SPACE, num_envs=2) as made:
        ended = np.array([True, False])
        made.add(obs, np.zeros((2, 1), np.float32), np.ones(2), ended, np.zeros(2), infos, obs)
        batch = made.sample()
    first = batch.observations["position"][:, 0] == 1
    assert (batch.next_observations["position"][first] == 7).all()
    assert (batch.next_observations["image"][first] == 7).all()
    assert (batch.next_observations["image"][~first] == 0).all()


# Spaces and dtypes.


def test_spaces_keep_their_dtypes_and_shapes() -> None:
    observation_space = gym.spaces.Dict(
        {
            "pixels": gym.spaces.Box(0, 255, (3, 8, 8), np.uint8),
            "inner": gym.spaces.Dict({"room": gym.spaces.Discrete(5), "keys": gym.spaces.MultiBinary(3)}),
            "exact": gym.spaces.Box(-1, 1, (1,), np.float64),
        }
    )
    action_space = gym.spaces.MultiDiscrete([3, 4])
    with storage(observation_space, action_space, num_envs=2) as made:
        samples = [[observation_space.sample() for _ in range(2)] for _ in range(2)]
        obs, after = (
            gym.vector.utils.concatenate(observation_space, each, make(observation_space)) for each in samples
        )
        actions = np.array([[1, 2], [2, 3]])
        made.add(obs, actions, np.ones(2), np.ones(2), np.zeros(2), {}, after)
        batch = made.sample()
    dtypes = {
        "pixels": batch.observations["pixels"].dtype,
        "room": batch.observations["inner"]["room"].dtype,
        "keys": batch.observations["inner"]["keys"].dtype,
        "exact": batch.next_observations["exact"].dtype,
        "action": batch.actions.dtype,
    }
    assert list(dtypes.values()) == [torch.uint8, torch.int64, torch.int8, torch.float64, torch.int64]
    assert batch.observations["inner"]["room"].shape == (64,)
    row = int(batch.actions[0, 0]) - 1
    assert np.array_equal(batch.observations["pixels"][0], obs["pixels"][row])
    assert np.array_equal(batch.next_observations["exact"][0], after["exact"][row])
    assert batch.observations["inner"]["room"][0] == obs["inner"]["room"][row]


def make(space: gym.spaces.Dict) -> Any:
    return gym.vector.utils.create_empty_array(space, 2)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_numbers_may_be_columns(shape: tuple[int, ...], as_tensor: bool) -> None:
    convert = torch.from_numpy if as_tensor else np.asarray
    with storage(gym.spaces.Discrete(10), gym.spaces.Discrete(4), num_envs=2) as made:
        numbers = convert(np.array([3, 4]).reshape(shape))
        flags = convert(np.zeros(shape, np.float32))
        made.add(numbers, numbers - 1, convert(np.ones(shape)), flags, flags, {}, numbers + 1)
        batch = made.sample()
    assert batch.observations.shape == batch.actions.shape == (64,)
    assert (batch.actions == batch.observations - 1).all()
    assert (batch.next_observations == batch.observations + 1).all()


def test_frame_stacks_come_back_as_they_were() -> None:
    space = gym.spaces.Box(0, 255, (4, 6, 6), np.uint8)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (40, 6, 6), np.uint8)
    stacks = np.stack([frames[np.maximum(np.arange(t - 3, t + 1), 0)] for t in range(40)])[:, None]
    no = np.zeros(1, bool)
    with storage(space, frame_stack=4) as made, storage(space) as plain:
        for number in range(39):
            action = np.full((1, 1), number, np.float32)
            for each in (made, plain):
                each.add(stacks[number], action, np.ones(1), no, no, {}, stacks[number + 1])
        assert made.num_bytes < plain.num_bytes / 2
        for _ in range(5):
            assert same(made.sample(), plain.sample())


BAD_STEPS: dict[str, dict[str, Any]] = {
    "one env too few": {"observations": np.zeros((1, 2), np.float32)},
    "no env axis": {"observations": np.zeros(2, np.float32)},
    "other shape": {"next_observations": np.zeros((2, 3), np.float32)},
    "complex": {"observations": np.zeros((2, 2), np.complex64)},
    "int64 action": {"actions": np.zeros((2, 1), np.int64)},
    "text": {"actions": np.array([["a"], ["b"]])},
    "a dict": {"observations": {"a": np.zeros((2, 2), np.float32)}},
    "NaN reward": {"rewards": np.array([0, np.nan])},
    "infinite reward": {"rewards": np.array([np.inf, 0])},
    "reward beyond float32": {"rewards": np.array([1e300, 0])},
    "two rewards": {"rewards": np.zeros((2, 2))},
    "flag of 2": {"terminateds": np.array([0, 2])},
    "flag of NaN": {"truncateds": np.array([0, np.nan])},
    "three flags": {"terminateds": np.zeros(3, bool)},
    "infos of another kind": {"infos": [{}]},
    "final of another shape": {
        "truncateds": np.ones(2, bool),
        "infos": {keys.FINAL_OBS: np.zeros((2, 5), np.float32)},
    },
    "final of another kind": {
        "truncateds": np.ones(2, bool),
        "infos": {keys.FINAL_OBS: {"a": np.zeros((2, 5), np.float32)}},
    },
    "finals of fewer envs": {
        "truncateds": np.ones(2, bool),
        "infos": {keys.FINAL_OBS: np.zeros((1, 2), np.float32)},
    },
    "a final that is a number": {"truncateds": np.ones(2, bool), "infos": {keys.FINAL_OBS: 5}},
    "lists of different lengths": {"observations": [[1.0], [1.0, 2.0]]},
    "rewards of different lengths": {"rewards": [[1.0], [1.0, 2.0]]},
    "rewards that NumPy lacks": {"rewards": torch.zeros(2, dtype=torch.bfloat16)},
}


@pytest.mark.parametrize("name", BAD_STEPS)
def test_bad_steps_are_refused_and_change_nothing(name: str) -> None:
    envs = Envs(2)
    with storage(num_envs=2) as victim, storage(num_envs=2) as twin:
        envs.add_to(victim, twin, num_steps=5)
        good = Envs(2, seed=8, end_probability=0).step()
        with pytest.raises(SchemaError):
            victim.add(**(good | BAD_STEPS[name]))
        for _ in range(3):
            assert same(victim.sample(), twin.sample())
            envs.add_to(victim, twin)


def test_pixels_are_not_rounded_into_a_uint8_space() -> None:
    space = gym.spaces.Box(0, 255, (2,), np.uint8)
    with storage(space) as made, pytest.raises(SchemaError, match="uint8"):
        made.add(np.zeros((1, 2), np.float32), np.zeros((1, 1)), [0], [0], [0], {}, np.zeros((1, 2), np.uint8))


def test_floats_are_rounded_to_the_precision_of_the_space() -> None:
    with storage() as made:
        third = np.full((1, 2), 1 / 3)
        made.add(third, np.zeros((1, 1)), [1], [False], [False], {}, third)
        assert (made.sample().observations == np.float32(1 / 3)).all()


@pytest.mark.parametrize(
    "options",
    [
        {"storage_size": 0},
        {"storage_size": 3, "num_envs": 4},
        {"num_envs": 0},
        {"batch_size": 0},
        {"num_workers": -1},
        {"n_step": 0},
        {"discount": 1.5},
        {"discount": float("nan")},
        {"fetch_every": -1},
        {"fetch_every": 0.5},
        {"autoreset_mode": "sometimes"},
        {"frame_stack": 3},
        {"backing": "file"},
    ],
)
def test_parameters_that_cannot_work(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        NStepReplayStorage(OBSERVATIONS, ACTIONS, **options)


@pytest.mark.parametrize(
    "space", [gym.spaces.Text(5), gym.spaces.Tuple([OBSERVATIONS]), gym.spaces.Sequence(OBSERVATIONS)]
)
def test_spaces_that_are_not_known(space: gym.Space[Any]) -> None:
    with pytest.raises(ConfigError, match="Box"):
        NStepReplayStorage(space, ACTIONS)
    with pytest.raises(ConfigError, match="Box"):
        NStepReplayStorage(gym.spaces.Dict({"a": OBSERVATIONS, "b": space}), ACTIONS)


def test_an_empty_storage_gives_no_batch_and_stays_as_it_is() -> None:
    envs = Envs(1)
    with storage() as made, storage() as twin:
        for _ in range(2):
            with pytest.raises(StorageError, match="empty"):
                made.sample()
            envs.add_to(made, twin, num_steps=5)
            assert same(made.sample(), twin.sample())
            made.reset()
            twin.reset()
            assert len(made) == 0


def test_reset_forgets_batches_drawn_ahead() -> None:
    envs = Envs(1)
    with storage(fetch_every=64 * 8) as made:
        envs.add_to(made, num_steps=5)
        made.sample()
        made.reset()
        envs.lanes[0].clear()
        envs.add_to(made, num_steps=3)
        assert check(made.sample(), envs.lanes) == {(0, 0), (0, 1), (0, 2)}


def test_without_cuda_nothing_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with storage(pin_memory=True) as made:
        Envs(1).add_to(made, num_steps=3)
        assert not made.sample().observations.is_pinned()


# Snapshots.


@pytest.mark.parametrize("num_workers", [0, 3])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_a_new_instance_continues_as_the_old_one_would(mode: str, num_workers: int, tmp_path: Path) -> None:
    envs = Envs(2)
    options = {"num_envs": 2, "storage_size": 50, "save_snapshot": True, "autoreset_mode": mode, "fetch_every": 250}
    with storage(snapshot_path=tmp_path / "a", num_workers=0, **options) as lasting:
        interrupted = NStepReplayStorage(
            OBSERVATIONS, ACTIONS, discount=GAMMA, batch_size=64, seed=1, snapshot_path=tmp_path / "b", **options
        )
        for number in range(6):
            envs.add_to(lasting, interrupted, num_steps=11)
            for _ in range(number):
                assert same(lasting.sample(), interrupted.sample())
            lasting.update()
            if number % 2:
                interrupted.update({"any": "metrics"}, 1)
                abandoned = interrupted  # as if its process had been killed
            else:
                interrupted.close()
            interrupted = NStepReplayStorage(
                OBSERVATIONS,
                ACTIONS,
                discount=GAMMA,
                batch_size=64,
                num_workers=num_workers,
                seed=99,
                snapshot_path=tmp_path / "b",
                **options,
            )
            assert len(lasting) == len(interrupted)
        for _ in range(9):
            assert same(lasting.sample(), interrupted.sample())
            envs.add_to(lasting, interrupted)
        interrupted.close()
        del abandoned


@pytest.mark.parametrize("dictionary", [False, True])
def test_ends_before_a_reset_are_known_to_a_new_instance(dictionary: bool, tmp_path: Path) -> None:
    envs, space = vector_env(AutoresetMode.NEXT_STEP, dictionary=dictionary), DICT_SPACE if dictionary else OBSERVATIONS
    options = {"num_envs": 3, "autoreset_mode": "NextStep", "snapshot_path": tmp_path, "save_snapshot": True}
    obs, _ = envs.reset()
    actions, num_drawable = np.zeros((3, 1), np.float32), []
    for _ in range(6):
        with storage(space, **options) as made:
            after, rewards, terminated, truncated, infos = envs.step(actions)
            made.add(obs, actions, rewards, terminated, truncated, infos, after)
            num_drawable.append(len(made))
            made.reset()
        obs = after
    # Episodes of 2, 5 and 3 steps, and after each a step that is none.
    assert num_drawable == [3, 3, 2, 2, 3, 1]


def test_snapshots_are_written_when_wanted_only(tmp_path: Path) -> None:
    envs = Envs(1)
    folder = tmp_path / "here"
    with storage(snapshot_path=folder) as made:
        envs.add_to(made, num_steps=4)
        made.update()
    assert not folder.exists()
    with storage(snapshot_path=folder, save_snapshot=True) as made:
        envs.add_to(made, num_steps=4)
    names = sorted(path.name for path in folder.iterdir())
    with storage(snapshot_path=folder) as reader:
        assert len(reader) == 4
        envs.add_to(reader, num_steps=4)
    assert sorted(path.name for path in folder.iterdir()) == names


def test_update_writes_only_what_has_changed(tmp_path: Path) -> None:
    envs = Envs(1)
    with storage(snapshot_path=tmp_path, save_snapshot=True) as made:
        envs.add_to(made, num_steps=4)
        made.update()
        before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        made.update()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_snapshot_into_another_size_keeps_the_newest(tmp_path: Path) -> None:
    envs = Envs(2)
    with storage(num_envs=2, storage_size=40, snapshot_path=tmp_path, save_snapshot=True) as made:
        envs.add_to(made, num_steps=33)
    for size in (10, 40, 90):
        with storage(num_envs=2, storage_size=size, snapshot_path=tmp_path, batch_size=1000) as other:
            stored = [lane[-min(size, 40) // 2 :] for lane in envs.lanes]
            assert check(other.sample(), stored) == {(env, t) for env in range(2) for t in range(len(stored[0]))}


def test_a_snapshot_of_other_spaces_is_refused(tmp_path: Path) -> None:
    with storage(snapshot_path=tmp_path, save_snapshot=True) as made:
        Envs(1).add_to(made, num_steps=4)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    others: list[tuple[Any, dict[str, Any]]] = [
        (DICT_SPACE, {}),
        (gym.spaces.Box(-1, 1, (3,), np.float32), {}),
        (gym.spaces.Box(-1, 1, (2,), np.float64), {}),
        (OBSERVATIONS, {"num_envs": 2}),
        (gym.spaces.Box(-1, 1, (2,), np.float32), {"frame_stack": 2}),
    ]
    for space, options in others:
        with pytest.raises(RecollectError):
            NStepReplayStorage(space, ACTIONS, snapshot_path=tmp_path, save_snapshot=True, **options)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_it_says_how_full_it_is() -> None:
    with storage(num_envs=2, n_step=2) as made:
        Envs(2).add_to(made, num_steps=3)
        assert repr(made) == "NStepReplayStorage(6/60 transitions, num_envs=2, n_step=2)"
