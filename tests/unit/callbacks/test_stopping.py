"""Training stops at a score, or when it has not improved for long enough."""

from pathlib import Path
from typing import Any

import pytest

from recollect.callbacks import StopAt, StopWithoutImprovement
from recollect.errors import ConfigError
from recollect.learner import Learner
from tests.schemes import make_scheme


def test_training_stops_at_a_score(scored: Any) -> None:
    learner = Learner(scored([1, 5, 9.5, 10, 20]), 400, callbacks=[StopAt(10)])
    learner.train()
    assert learner.num_steps == 4 * 8
    assert learner.stop_reason == "the evaluation reached 10.0"


def test_training_stops_without_improvement(scored: Any) -> None:
    learner = Learner(scored([1, 5, 4, 6, 6, 3, 8]), 400, callbacks=[StopWithoutImprovement(2)])
    learner.train()
    assert learner.num_steps == 6 * 8
    assert learner.stop_reason == "2 evaluations brought no more than 6.0"


def test_an_improvement_can_be_too_small_to_count(scored: Any) -> None:
    learner = Learner(scored([1, 1.5, 1.9, 5]), 400, callbacks=[StopWithoutImprovement(2, by=1.0)])
    learner.train()
    assert learner.num_steps == 3 * 8


def test_patience_is_kept_with_the_run(scored: Any, tmp_path: Path) -> None:
    learner = Learner(scored([5, 4]), 400, tmp_path, callbacks=[StopWithoutImprovement(2)])
    learner.step()
    learner.step()
    learner.save_checkpoint()
    learner.close()
    resumed = Learner(scored([4.5]), 400, tmp_path, callbacks=[StopWithoutImprovement(2)], resume=True)
    resumed.train()
    assert resumed.num_steps == 3 * 8
    resumed.close()


@pytest.mark.parametrize("callback", [StopAt(3), StopWithoutImprovement(3)])
def test_without_evaluations_it_is_refused(callback: Any) -> None:
    with pytest.raises(ConfigError, match="needs evaluations, and test_every is 0"):
        Learner(make_scheme(test_every=0), 80, callbacks=[callback])


def test_what_is_no_score_or_patience_is_refused() -> None:
    with pytest.raises(ConfigError, match="score must be"):
        StopAt("high")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="patience must be"):
        StopWithoutImprovement(0)
