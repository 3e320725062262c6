import traceback
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from recollect import keys
from recollect.agent.envs import VecEnv
from recollect.agent.envs.failures import FaultTolerantEnv, describe
from recollect.errors import EnvError
from tests.unit.agent.envs.toys import Misfit, Toy, ToyVector


class Building:
    """Makes toys with given options one after the other, and remembers them; None cannot be built."""

    def __init__(self, *options: dict[str, int] | None) -> None:
        self.options: Iterator[dict[str, int] | None] = iter(options)
        self.built: list[Toy] = []
        self.closed: list[Toy] = []

    def __call__(self) -> Toy:
        options = next(self.options)
        if options is None:
            raise RuntimeError("cannot be built")
        toy = Toy(**options)
        toy.close = lambda: self.closed.append(toy)  # type: ignore[method-assign]
        self.built.append(toy)
        return toy


def test_failures_of_one_call_are_all_counted() -> None:
    build = Building({}, {"failing_step": 1}, None, {"failing_reset": 1}, {})
    factory, _, _ = VecEnv.create_factory(build)
    envs = factory()
    envs.reset()
    assert envs.step([0]).skip.all()  # type: ignore[arg-type, union-attr]
    assert envs.num_failures == 3
    assert envs.step([0]).skip is None  # type: ignore[arg-type]


def test_a_vector_env_that_cannot_be_reset_loses_the_other_episodes_and_fails_once() -> None:
    options: Iterator[dict[str, int]] = iter([{}, {"failing_reset": 2}, {}])

    def build(num_envs: int) -> ToyVector:
        return ToyVector("Disabled", num_envs, **next(options))

    envs = VecEnv.create_factory(build, vec_env_size=2, kind="native")[0]()
    envs.reset()
    step = envs.step(np.zeros((2, 1), np.int64))
    while not step.begins.any():
        step = envs.step(np.zeros((2, 1), np.int64))
    ended = step.terminated | step.truncated
    assert ended.sum() == 1  # the episodes differ in length
    assert (step.cut == ~ended).all()
    assert step.skip is None
    assert step.begins.all()
    assert envs.num_failures == 1


def test_what_fails_is_closed() -> None:
    build = Building({"failing_step": 1}, {"failing_reset": 1}, {})
    env = FaultTolerantEnv(build, 5)
    env.reset(seed=0)
    env.step(0)
    assert build.closed == build.built[:2]


def test_every_new_env_has_a_seed_of_its_own() -> None:
    def seeds(first: int) -> list[Any]:
        build = Building({"failing_step": 1}, {"failing_step": 1}, {"failing_step": 1}, {})
        env = FaultTolerantEnv(build, 5)
        env.reset(seed=first)
        return [int(env.step(0)[0][0]) for _ in range(3)]

    assert len({7, *seeds(7)}) == 4
    assert seeds(7) == seeds(7)
    assert seeds(7) != seeds(8)


def test_good_step_forgives() -> None:
    build = Building(*[{"failing_step": 2}] * 10)
    env = FaultTolerantEnv(build, 1)
    env.reset(seed=0)
    lost = [bool(env.step(0)[-1].get(keys.EPISODE_LOST)) for _ in range(16)]
    assert lost == [False, True] * 8
    assert len(build.built) == 9


def test_the_error_that_ends_the_run_shows_the_traceback_of_the_env_once() -> None:
    env = FaultTolerantEnv(Building({"failing_step": 1}, None, None), 2)
    env.reset(seed=0)
    with pytest.raises(EnvError, match="failed 3 times in a row, at last with RuntimeError: cannot be built") as error:
        env.step(0)
    shown = "".join(traceback.format_exception(error.value))
    assert shown.count('raise ValueError("no step today")') == 1
    assert "failures.py" not in str(error.value), "only the frames of the env itself"
    assert isinstance(error.value.__context__, ValueError), "at hand for a debugger"


def test_a_traceback_that_was_shown_is_not_part_of_the_error_that_ends_the_run() -> None:
    env = FaultTolerantEnv(Building(*[{"failing_step": 1}] * 2), 1)
    env.reset(seed=0)
    assert 'raise ValueError("no step today")' in env.step(0)[-1][keys.FAILURE_TRACEBACK]
    with pytest.raises(EnvError, match="failed 2 times in a row, at last with ValueError: no step today") as error:
        env.step(0)
    assert "Traceback" not in str(error.value)


def test_a_limit_of_0_rebuilds_nothing() -> None:
    build = Building({"failing_step": 1}, {})
    env = FaultTolerantEnv(build, 0)
    env.reset(seed=0)
    with pytest.raises(EnvError, match="failed 1 times in a row, at last with ValueError: no step today"):
        env.step(0)
    assert len(build.built) == 1


def play(envs: VecEnv, num_steps: int) -> None:
    for _ in range(num_steps):
        envs.step(np.zeros((envs.num_envs, 1), np.int64))
    envs.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_failure_is_shown_once_and_counted_afterwards(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    envs = VecEnv.create_factory(Toy, {"failing_step": 2}, 2, kind=kind)[0]()
    envs.reset()
    play(envs, 14)
    assert envs.num_failures > 10
    shown = [record.getMessage() for record in caplog.records]
    assert [message.count("Traceback (most recent call last)") for message in shown] == [1, 0]
    assert shown[0].count('raise ValueError("no step today")') == 1
    assert shown[1] == "envs have failed 10 times so far, at last env 1 with ValueError: no step today"


def test_another_failure_is_shown_too(caplog: pytest.LogCaptureFixture) -> None:
    # The first is only asked for its spaces.
    build = Building({}, {"failing_step": 1}, {"failing_step": 1}, {"failing_reset": 1}, {"failing_reset": 1}, {})
    envs = VecEnv.create_factory(build)[0]()
    envs.reset()
    play(envs, 2)
    shown = [record.getMessage().splitlines()[-1] for record in caplog.records]
    assert shown == ["ValueError: no step today", "OSError: no reset today"]


def test_interrupt_is_no_failure() -> None:
    env = FaultTolerantEnv(Toy, 5)
    env.env.step = lambda action: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        env.step(0)


def test_errors_in_words() -> None:
    assert describe(ValueError("too hot")) == "ValueError: too hot"
    assert describe(ValueError()) == "ValueError"


@pytest.mark.filterwarnings("ignore")  # Gymnasium says as much in its own way
@pytest.mark.parametrize("part", ["reset", "step", "shape", "key"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_env_that_returns_what_it_must_not_is_a_clear_error(kind: str, part: str) -> None:
    envs = VecEnv.create_factory(Misfit, {"part": part}, 2, kind=kind)[0]()
    if part != "reset":
        envs.reset()
    with pytest.raises(EnvError, match=r"does not fit its spaces or Gymnasium's interface \(.*check_env"):
        envs.reset() if part == "reset" else envs.step(np.zeros((2, 1), np.int64))
    envs.close()


class Growing(gym.Env[Any, Any]):
    """Its third observation has a number too many, in one of its parts."""

    observation_space = gym.spaces.Dict({"first": gym.spaces.Box(0, 1, (2,)), "second": gym.spaces.Box(0, 1, (4,))})
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.num_steps = 0
        return self._obs(4), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.num_steps += 1
        return self._obs(5 if self.num_steps == 2 else 4), 0.0, False, False, {}

    def _obs(self, width: int) -> Any:
        return {"first": np.zeros(2, np.float32), "second": np.zeros(width, np.float32)}


@pytest.mark.filterwarnings("ignore:.*ERROR:UserWarning")  # of the subprocesses
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("sync", r"env 0: observation\['second'\] has the shape \(5,\), expected \(4,\)"),
        ("async", r"from shape \(5,\) into shape \(4,\)"),
    ],
)
def test_an_observation_of_the_wrong_shape_is_named_with_both_shapes(kind: str, message: str) -> None:
    factory, _, _ = VecEnv.create_factory(Growing, vec_env_size=2, kind=kind)
    envs = factory()
    envs.reset()
    envs.step(np.zeros((2, 1)))
    with pytest.raises(EnvError, match=message):
        envs.step(np.zeros((2, 1)))
    envs.close()
