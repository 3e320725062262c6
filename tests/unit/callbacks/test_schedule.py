"""An option changes over the steps of a training as its schedule says, resumed or not."""

import math
from pathlib import Path
from typing import Any

import pytest

from recollect.api import Agent
from recollect.callbacks import Schedule
from recollect.errors import ConfigError
from recollect.learner import Learner
from tests.schemes import make_scheme


def values_in(learner: Learner, read: Any) -> list[float]:
    """What is in force in each stage."""
    found: list[float] = []
    collect = learner.scheme.update_worker.step

    def note() -> None:
        found.append(read(learner.scheme))
        collect()

    learner.scheme.update_worker.step = note  # type: ignore[method-assign]
    learner.train()
    return found


def critic_lr(scheme: Any) -> float:
    return float(scheme.algo.config.critic_lr)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("linear", [0.4, 0.3, 0.2, 0.1]),
        ("cosine", [0.4, 0.2 + 0.2 * math.cos(math.pi / 4), 0.2, 0.2 - 0.2 * math.cos(math.pi / 4)]),
        ([(8, 0.4), (16, 0.2)], [0.4, 0.4, 0.2, 0.2]),
        (lambda share: 0.5 - share / 2, [0.5, 0.375, 0.25, 0.125]),
    ],
)
def test_values_follow_the_schedule(how: Any, expected: list[float]) -> None:
    learner = Learner(make_scheme(critic_lr=0.4), 32, callbacks=[Schedule("critic_lr", how)])
    assert values_in(learner, critic_lr) == pytest.approx(expected)


def test_start_and_end_can_be_given() -> None:
    learner = Learner(make_scheme(), 32, callbacks=[Schedule("critic_lr", start=0.9, end=0.1)])
    assert values_in(learner, critic_lr) == pytest.approx([0.9, 0.7, 0.5, 0.3])


def halved(share: float) -> float:
    return 0.5 - share / 2


def test_a_function_may_be_named() -> None:
    learner = Learner(make_scheme(critic_lr=0.4), 32, callbacks=[Schedule("critic_lr", f"{__name__}:halved")])
    assert values_in(learner, critic_lr) == pytest.approx([0.5, 0.375, 0.25, 0.125])


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Schedule("n_step"), r"Schedule\(n_step\) comes to a value that cannot be: n_step must be at least 1, got 0"),
        (Schedule("critic_lr", [(0, 0.1), (9, -1.0)]), "critic_lr must be a number at least 0, got -1"),
        (Schedule("gamma", lambda share: 1 + share), "gamma must be a number at least 0 and at most 1, got 1.999"),
        (Schedule("storage.beta", start=-0.5), "beta must be a number at least 0, got -0.5"),
    ],
)
def test_a_schedule_that_comes_to_a_wrong_value_is_refused_at_once(schedule: Schedule, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Learner(make_scheme(), 32, callbacks=[schedule])


def test_what_networks_are_built_from_is_refused_at_once() -> None:
    scheme = Agent("qr-dqn", "CartPole-v1", num_test_envs=1, preset="none", hidden_sizes=[4]).scheme
    with pytest.raises(ConfigError, match="num_quantiles of QR-DQN cannot change while it runs, got 100"):
        Learner(scheme, 32, callbacks=[Schedule("num_quantiles", end=100)])


def test_options_of_storages_change_too() -> None:
    callbacks = [Schedule("storage.beta", start=0.0, end=1.0), Schedule("n_step", start=1, end=4)]
    learner = Learner(make_scheme(), 24, callbacks=callbacks)
    found = values_in(learner, lambda scheme: (scheme.storage.beta, scheme.storage.n_step))
    assert [beta for beta, _ in found] == pytest.approx([0, 0.333, 0.666])
    assert [n_step for _, n_step in found] == [1, 2, 3]


def test_a_resumed_run_has_the_schedule_of_an_undisturbed_one(tmp_path: Path) -> None:
    whole = values_in(Learner(make_scheme(critic_lr=0.4), 64, callbacks=[Schedule("critic_lr", "cosine")]), critic_lr)
    learner = Learner(make_scheme(critic_lr=0.4), 64, tmp_path, callbacks=[Schedule("critic_lr", "cosine")])
    for _ in range(3):
        learner.step()
    learner.save_checkpoint()
    learner.close()
    resumed = Learner(
        make_scheme(critic_lr=0.4), 64, tmp_path, callbacks=[Schedule("critic_lr", "cosine")], resume=True
    )
    assert values_in(resumed, critic_lr) == whole[3:]
    resumed.close()


def test_a_second_training_has_a_schedule_of_its_own() -> None:
    scheme = make_scheme(critic_lr=0.4)
    Learner(scheme, 32).train()
    schedule = Schedule("critic_lr")
    learner = Learner(scheme, 64, callbacks=[schedule])
    assert values_in(learner, critic_lr) == pytest.approx([0.4, 0.3, 0.2, 0.1])
    learner.close()
    learner.update_algorithm_parameter("critic_lr", 0.8)
    assert values_in(Learner(scheme, 96, callbacks=[schedule]), critic_lr)[:4] == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_the_value_is_a_metric() -> None:
    learner = Learner(make_scheme(critic_lr=0.4), 32, callbacks=[Schedule("critic_lr")])
    learner.step()
    assert learner.get_metrics()["schedule/critic_lr"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("critic_lrr", "no option 'critic_lrr' that can change; did you mean 'algo.critic_lr'"),
        ("storage.critic_lr", "no option 'storage.critic_lr'"),
        ("size", "no option 'size'"),
        ("optimiser", "a schedule needs a number, and optimiser is"),
    ],
)
def test_what_cannot_change_is_refused(option: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Learner(make_scheme(), 32, callbacks=[Schedule(option)])


@pytest.mark.parametrize("how", ["cubic", [], [(5, 1.0), (3, 2.0)]])
def test_what_is_no_schedule_is_refused(how: Any) -> None:
    with pytest.raises(ConfigError, match="schedule"):
        Schedule("critic_lr", how)
