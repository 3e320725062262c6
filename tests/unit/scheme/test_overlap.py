"""Environments that step during updates: the same run, to the last bit, however long anything takes."""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.envs import VecEnv
from recollect.config import build, resolve
from recollect.errors import EnvError, NotFiniteError
from recollect.learner import Learner
from recollect.scheme import Scheme
from recollect.scheme.overlap import Overlap
from tests.schemes import make_scheme

OFF_POLICY = [name for name, algorithm in ALGORITHMS.items() if not algorithm.is_on_policy]
STORAGES: dict[str, dict[str, Any]] = {
    "replay": {"storage": "replay"},
    "per": {"storage": "per", "n_step": 3, "alpha": 0.6},
    "ere": {"storage": "ere", "alpha": 0.6, "eta": 0.99, "cmin": 20},
    "sequences": {"storage": "per", "alpha": 0.6, "memory": "gru"},
}


def build_scheme(algo: str, storage: str, **options: Any) -> Scheme:
    acts_in = ALGORITHMS[algo].action_spaces
    env = "Pendulum-v1" if gym.spaces.Box in acts_in else "CartPole-v1"
    pace = {"update_every": 8, "num_mini_batch": 3, "mini_batch_size": 16, "start_steps": 48}
    if storage == "her":
        env, options = "recollect/BitFlip-v0", {"storage": "her", **options}
    shared = {"hidden_sizes": (8,), "num_envs": 2, "seed": 1, "size": 400, "test_every": 0, "device": "cpu"}
    overrides = {**shared, **pace, **STORAGES.get(storage, {}), **options}
    return build(resolve(algo, env, preset="none", overrides=overrides))


def run(scheme: Scheme, num_stages: int = 12) -> dict[str, Any]:
    """All that a run leaves: weights, counters, chance, and what is stored with its priorities."""
    for _ in range(num_stages):
        scheme.update_worker.step()
    state = {"weights": dict(scheme.actor.state_dict()), "scheme": scheme.state()}
    state["stored"] = scheme.storage.get_all_buffer_data()  # type: ignore[attr-defined]
    state["drawn"] = [dict(batch) for batch in scheme.storage.generate_batches(3, 16)]
    scheme.stop()
    return state


def differences(left: Any, right: Any, name: str = "") -> list[str]:
    """Names of what is not the same, bit for bit."""
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        return [found for key in left for found in differences(left[key], right[key], f"{name}/{key}")]
    if isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        return [found for pair in zip(left, right, strict=True) for found in differences(*pair, name)]
    if isinstance(left, torch.Tensor):
        return [] if torch.equal(left, right) else [name]
    if isinstance(left, np.ndarray):
        return [] if left.tobytes() == right.tobytes() else [name]
    return [] if left == right or left != left else [name]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every step of envs and every gradient take a while, now one longer and now the other."""
    chance = random.Random()

    def late(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            time.sleep(chance.choice((0.0, 0.0005, 0.002)))
            return method(*args, **kwargs)

        return call

    monkeypatch.setattr(VecEnv, "step", late(VecEnv.step))
    for name in OFF_POLICY:
        algorithm = ALGORITHMS.find(name)
        monkeypatch.setattr(algorithm, "apply_gradients", late(algorithm.apply_gradients))
        monkeypatch.setattr(algorithm, "compute_gradients", late(algorithm.compute_gradients))


FAMILIES = ("ddqn", "sac", "td3", "mpo")
CASES = [(algo, storage) for algo in OFF_POLICY for storage in (STORAGES if algo in FAMILIES else ("per", "sequences"))]
CASES += [("ddqn", "her"), ("sac-discrete", "her")]


@pytest.mark.slow
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(("algo", "storage"), CASES)
def test_a_run_is_the_same_with_and_without_overlap(algo: str, storage: str) -> None:
    during, before = (run(build_scheme(algo, storage, overlap=overlap)) for overlap in (True, False))
    assert differences(during, before) == []


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    "options",
    [
        {"update_every": 1, "num_mini_batch": 1},
        {"noise": "ou"},
        {"normalise_observations": True, "normalise_rewards": True},
        {"start_steps": 0},
        {"intrinsic": "rnd"},
    ],
    ids=["every step", "noise that drifts", "normalisers", "at once", "intrinsic rewards"],
)
def test_it_is_the_same_with_other_options(options: dict[str, Any]) -> None:
    during, before = (run(build_scheme("sac", "per", overlap=overlap, **options)) for overlap in (True, False))
    assert differences(during, before) == []


@pytest.mark.parametrize("overlap", [True, False])
def test_a_stage_learns_from_what_was_stored_before_it(overlap: bool) -> None:
    scheme = make_scheme("ddqn", "replay", workers={"overlap": overlap}, start_steps=16)
    num_stored = []

    def watch(*args: Any, **kwargs: Any) -> Any:
        num_stored.append(len(scheme.storage))
        return compute(*args, **kwargs)

    compute, scheme.algo.compute_gradients = scheme.algo.compute_gradients, watch  # type: ignore[method-assign]
    for _ in range(4):
        scheme.update_worker.step()
    # The stage in which there is first enough collects before it learns.
    assert num_stored == [16, 16, 16, 16, 24, 24]
    assert (scheme.num_steps, len(scheme.storage), scheme.num_updates) == (32, 32, 6)
    scheme.stop()


@pytest.mark.parametrize("update_every", [1, 4])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_stage_acts_with_the_weights_that_it_begins_with(overlap: bool, update_every: int) -> None:
    options = {"final_epsilon": 0.0, "initial_epsilon": 0.0, "update_every": update_every, "critic_lr": 1.0}
    scheme = make_scheme("ddqn", "replay", workers={"overlap": overlap}, num_mini_batch=8, **options)
    while scheme.num_updates == 0:
        scheme.update_worker.step()
    for _ in range(20):
        before = {name: weight.clone() for name, weight in scheme.actor.state_dict().items()}
        scheme.update_worker.step()
        after = {name: weight.clone() for name, weight in scheme.actor.state_dict().items()}
        newest = scheme.storage.get_all_buffer_data()  # type: ignore[attr-defined]
        scheme.actor.load_state_dict(before)  # type: ignore[attr-defined]
        for step in range(-update_every, 0):
            obs, done = newest["Observation"][step], newest["Done"][step]
            expected = scheme.algo.acting_step(obs, torch.zeros(2, 1), done, deterministic=True)[0]
            assert torch.equal(newest["Action"][step], expected)
        scheme.actor.load_state_dict(after)  # type: ignore[attr-defined]
    scheme.stop()


def test_envs_step_in_a_thread_of_their_own_only_if_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[bool, set[str]] = {True: set(), False: set()}
    step = VecEnv.step
    for overlap, names in threads.items():

        def note(envs: VecEnv, action: Any, names: set[str] = names) -> Any:
            names.add(threading.current_thread().name)
            return step(envs, action)

        monkeypatch.setattr(VecEnv, "step", note)
        run(make_scheme("sac", "per", workers={"overlap": overlap}), 8)
    assert threads[False] == {"MainThread"}
    assert len(threads[True]) == 2


def test_on_policy_algorithms_learn_from_the_stage_itself() -> None:
    scheme = make_scheme("ppo", "gae", workers={"overlap": True})
    for number in (1, 2):
        scheme.update_worker.step()
        assert (scheme.num_updates, len(scheme.storage)) == (8 * number, 8)
    scheme.stop()


@pytest.mark.parametrize("overlap", [True, False])
def test_an_error_of_an_env_is_raised_and_the_steps_before_it_are_kept(
    overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = make_scheme("ddqn", "per", workers={"overlap": overlap})
    run_until_learning(scheme)
    num_steps, calls, step = scheme.num_steps, [0], VecEnv.step

    def fail(envs: VecEnv, action: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise EnvError("no step today")
        return step(envs, action)

    monkeypatch.setattr(VecEnv, "step", fail)
    with pytest.raises(EnvError, match="no step today"):
        scheme.update_worker.step()
    assert scheme.num_steps == num_steps + 4 == len(scheme.storage)
    scheme.update_worker.step()
    assert scheme.num_steps == num_steps + 12 == len(scheme.storage)
    scheme.stop()


@pytest.mark.parametrize("part", ["compute_gradients", "apply_gradients"])
@pytest.mark.parametrize("error", [NotFiniteError("no loss today"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("overlap", [True, False])
def test_an_error_of_an_update_is_raised_and_the_run_continues(overlap: bool, error: BaseException, part: str) -> None:
    scheme = make_scheme("ddqn", "per", workers={"overlap": overlap})
    run_until_learning(scheme)
    num_steps = scheme.num_steps

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    method = getattr(scheme.algo, part)
    setattr(scheme.algo, part, fail)
    with pytest.raises(type(error)):
        scheme.update_worker.step()
    num_kept = scheme.num_steps
    is_whole = not overlap or (part, type(error)) == ("compute_gradients", NotFiniteError)
    assert num_steps + 8 * is_whole <= num_kept <= num_steps + 8
    assert num_kept == len(scheme.storage)
    setattr(scheme.algo, part, method)
    scheme.update_worker.step()
    assert scheme.num_steps == num_kept + 8 == len(scheme.storage)
    scheme.stop()


def run_until_learning(scheme: Scheme) -> None:
    while scheme.num_updates == 0:
        scheme.update_worker.step()


def test_a_resumed_run_is_the_run_with_overlap_on_or_off(tmp_path: Any) -> None:
    weights = []
    for overlap in (True, False):
        learner = Learner(
            make_scheme("sac", "per", workers={"overlap": overlap}), 200, tmp_path / str(overlap), config={}
        )
        for _ in range(6):
            learner.step()
        learner.save_checkpoint()
        learner.stop()
        scheme = make_scheme("sac", "per", workers={"overlap": not overlap})
        resumed = Learner(scheme, 200, tmp_path / str(overlap), resume=True)
        for _ in range(6):
            resumed.step()
        weights.append({name: weight.clone() for name, weight in scheme.actor.state_dict().items()})
        resumed.stop()
    assert differences(*weights) == []


class OneThread(gym.Wrapper[Any, Any, Any, Any]):
    """An env that only the thread that made it can step, as some databases and renderers."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._thread = threading.get_ident()

    def step(self, action: Any) -> Any:
        if threading.get_ident() != self._thread:
            raise RuntimeError("another thread")
        return super().step(action)


@pytest.mark.parametrize("options", [{"wrappers": [OneThread]}, {"env.render_mode": "rgb_array"}], ids=["fail", "draw"])
def test_envs_that_are_bound_to_their_thread_stay_in_it(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.scheme.overlap.num_cores", lambda: 2)
    scheme = build_scheme("ddqn", "replay", num_envs=1, **options)
    names: list[str] = []
    step = VecEnv.step

    def note(envs: VecEnv, action: Any) -> Any:
        names.append(threading.current_thread().name)
        return step(envs, action)

    monkeypatch.setattr(VecEnv, "step", note)
    while scheme.num_updates < 30:
        scheme.update_worker.step()
    num_failures, num_elsewhere = scheme.status().num_env_failures, len(names) - names.count("MainThread")
    # One stage is tried where nothing tells beforehand; the env that it leaves is made by the thread, and fails once.
    assert num_failures == (2 if "wrappers" in options else 0)
    assert num_elsewhere == (8 if "wrappers" in options else 0)
    scheme.stop()


class Timed:
    """Collects nothing; a stage takes as long as it is told to during updates, and before them."""

    can_run_in_parallel = True
    draws_frames = False
    num_failures = 0

    def __init__(self, clock: list[float], during_s: float, before_s: float) -> None:
        self.ways: list[bool] = []
        self._clock = clock
        self._seconds = {True: during_s, False: before_s}

    def begin(self, *, is_parallel: bool) -> None:
        self.ways.append(is_parallel)

    def take(self) -> None:
        self._clock[0] += self._seconds[self.ways[-1]]

    def stop(self) -> None: ...

    def store(self) -> None: ...


@pytest.mark.parametrize(("during_s", "before_s", "expected"), [(1.0, 2.0, True), (2.0, 1.0, False), (1.0, 1.0, False)])
def test_the_faster_way_is_chosen_and_told(
    during_s: float,
    before_s: float,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("recollect.scheme.overlap.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("recollect.scheme.overlap.num_cores", lambda: 2)
    overlap, collection = Overlap(), Timed(clock, during_s, before_s)
    with caplog.at_level(logging.INFO):
        for _ in range(40):
            with overlap.running(collection):  # type: ignore[arg-type]
                pass
    overlap.close()
    assert set(collection.ways[:10]) == {True, False}
    assert set(collection.ways[-10:]) == {expected}
    told = [record.message for record in caplog.records if record.name == "recollect.scheme.overlap"]
    assert len(told) == 1
    assert f"step {'during' if expected else 'before'} updates" in told[0]


def test_one_core_has_nothing_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.scheme.overlap.num_cores", lambda: 1)
    overlap, collection = Overlap(), Timed([0.0], 0.0, 0.0)
    for _ in range(40):
        with overlap.running(collection):  # type: ignore[arg-type]
            pass
    assert set(collection.ways) == {False}
