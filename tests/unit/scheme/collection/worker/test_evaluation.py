"""An evaluation has exactly the episodes asked for, and does not favour short ones."""

import math

import numpy as np
import pytest

from recollect.errors import ConfigError, EnvError
from recollect.scheme.collection.worker import evaluation
from recollect.scheme.collection.worker.evaluation import Evaluation, evaluate
from tests.parts import CountingActor, CountingAlgo, ScriptedEnvs


def run(lengths: tuple[tuple[int, ...], ...], num_episodes: int) -> Evaluation:
    envs, actor = ScriptedEnvs(lengths), CountingActor()
    return evaluate(CountingAlgo(actor, envs), actor, envs, num_episodes)


@pytest.mark.parametrize("num_episodes", [1, 2, 3, 7, 20])
def test_number_of_episodes_is_exact(num_episodes: int) -> None:
    found = run(((2, 5), (9,), (1,)), num_episodes)
    assert len(found.returns) == len(found.lengths) == len(found.successes) == num_episodes


def test_every_env_gives_its_share_however_long_its_episodes_are() -> None:
    found = run(((1,), (50,)), 6)
    assert found.lengths == (1, 1, 1, 50, 50, 50)
    assert found.returns == (1.0, 1.0, 1.0, 1275.0, 1275.0, 1275.0)
    assert found.successes == (0.0, 0.0, 0.0, 1.0, 1.0, 1.0)


def test_an_evaluation_begins_new_episodes() -> None:
    envs, actor = ScriptedEnvs(((4,),)), CountingActor()
    algo = CountingAlgo(actor, envs)
    evaluate(algo, actor, envs, 1)
    envs.step(np.zeros((1, 1)))
    assert evaluate(algo, actor, envs, 2).lengths == (4, 4)


def test_an_episode_that_may_never_end_is_warned_of_once_and_not_cut(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(evaluation, "_LONG_EPISODE", 30)
    assert run(((30,), (7,)), 4).lengths == (30, 30, 7, 7)
    assert not caplog.records
    assert run(((50,), (40,)), 2).lengths == (50, 40)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not ended after 30 steps" in caplog.text
    assert "max_episode_steps" in caplog.text


def evaluated_with(failures: range) -> Evaluation:
    envs, actor = ScriptedEnvs(((10,),), failures=failures), CountingActor()
    return evaluate(CountingAlgo(actor, envs), actor, envs, 1)


def test_an_env_that_fails_in_every_episode_ends_the_evaluation() -> None:
    with pytest.raises(EnvError, match="env 0 of the evaluation failed in 100 episodes, and none of its episodes"):
        evaluated_with(range(9, 2000, 9))


def test_an_env_that_recovers_is_evaluated() -> None:
    assert evaluated_with(range(9, 900, 9)).lengths == (10,)


def test_no_episodes_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_episodes must be at least 1"):
        run(((1,),), 0)


def test_numbers_worked_by_hand() -> None:
    found = Evaluation((1.0, 2.0, 6.0), (1, 1, 1), (1.0, 0.0, 0.0))
    assert found.mean == 3.0
    assert found.standard_error == pytest.approx(math.sqrt(7 / 3))
    assert found.success_rate == pytest.approx(1 / 3)
    assert str(found) == "3.0 ± 1.5 over 3 episodes, success 33%"


def test_one_episode_has_no_spread() -> None:
    found = Evaluation((1200.0,), (3,))
    assert math.isnan(found.standard_error)
    assert found.success_rate is None
    assert str(found) == "1,200.0 over 1 episode"
