"""Learning checks are safe, by the trials on record, and judge as they say."""

import pytest

from tests.calibrate_learning import CHECKS, SETTINGS
from tests.learning import MAX_FALSE_ALARMS, SEEDS, Check, read_trials, scores_of


@pytest.mark.parametrize("name", CHECKS)
def test_trials_say_that_false_alarms_are_rare(name: str) -> None:
    scores = scores_of(name, read_trials())
    assert CHECKS[name].false_alarm(scores) < MAX_FALSE_ALARMS
    assert CHECKS[name].trials == CHECKS[name].summary(scores)


@pytest.mark.parametrize("name", CHECKS)
def test_trials_were_run_under_every_setting(name: str) -> None:
    trials = [trial for trial in read_trials() if trial["check"] == name]
    assert {(trial["threads"], trial["instructions"]) for trial in trials} == set(SETTINGS)
    assert len({trial["seed"] for trial in trials}) == len(trials)


@pytest.mark.parametrize(("learns", "good", "bad"), [(True, 2.0, 1.0), (False, 0.0, 1.0)])
def test_a_check_fails_only_if_all_attempts_fail(learns: bool, good: float, bad: float) -> None:
    for num_failures in range(len(SEEDS)):
        tried: list[int] = []

        def train(seed: int, tried: list[int] = tried, num_failures: int = num_failures) -> float:
            tried.append(seed)
            return good if len(tried) > num_failures else bad

        Check(train=train, threshold=1.0, learns=learns).judge()
        assert tried == list(SEEDS[: num_failures + 1])
    with pytest.raises(AssertionError, match=r"none of the scores \[1\.0, 1\.0, 1\.0\]"):
        Check(train=lambda seed: bad, threshold=1.0, learns=learns).judge()


def test_false_alarms_are_estimated_from_all_failures() -> None:
    check = Check(train=float, threshold=1.0)
    assert check.false_alarm([2.0] * 20) == pytest.approx((1 / 22) ** 3)
    assert check.false_alarm([2.0] * 17 + [0.0] * 3) == pytest.approx((4 / 22) ** 3)
