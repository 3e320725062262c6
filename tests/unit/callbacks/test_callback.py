"""Callbacks are called when they should be, with what they need, and their errors name them."""

from pathlib import Path
from typing import Any

import pytest

from recollect import metrics
from recollect.callbacks import Callback
from recollect.errors import CallbackError, ConfigError, StorageError
from recollect.learner import Learner
from recollect.runs.writers import read_rows
from tests.schemes import make_scheme


class Diary(Callback):
    """Notes what happens."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.num_episodes = 0

    def on_start(self, learner: Learner) -> None:
        self.entries.append(f"start at {learner.num_steps}")

    def on_step(self, learner: Learner) -> None:
        self.entries.append(f"step {learner.num_steps}")

    def on_episode_end(self, learner: Learner, episode: Any) -> None:
        self.num_episodes += 1

    def on_evaluation(self, learner: Learner, evaluation: Any) -> None:
        assert learner.last_evaluation is evaluation
        self.entries.append(f"evaluation at {learner.num_steps}")

    def on_checkpoint(self, learner: Learner, path: Path) -> None:
        assert path.is_dir()
        self.entries.append(f"checkpoint {path.name}")

    def on_end(self, learner: Learner) -> None:
        self.entries.append(f"end at {learner.num_steps}")

    def state(self) -> dict[str, Any]:
        return {"num_episodes": self.num_episodes}

    def load_state(self, state: Any) -> None:
        self.num_episodes = state["num_episodes"]


def test_each_event_comes_in_its_place(tmp_path: Path) -> None:
    diary = Diary()
    options: dict[str, Any] = {"checkpoint_every": 24, "background_checkpoints": False}
    learner = Learner(make_scheme(test_every=2), 32, tmp_path, callbacks=[diary], **options)
    assert diary.entries == []
    learner.train()
    learner.stop()
    learner.stop()
    assert diary.entries == [
        "start at 0",
        "step 8",
        "evaluation at 16",
        "step 16",
        "evaluation at 24",
        "step 24",
        "checkpoint 000001-step-24",
        "evaluation at 32",
        "step 32",
        "checkpoint 000002-step-32",
        "end at 32",
    ]


def test_every_episode_is_told_once() -> None:
    diary = Diary()
    learner = Learner(make_scheme(start_steps=10_000), 800, callbacks=[diary])
    learner.train()
    assert diary.num_episodes == learner.scheme.status().episodes.num_episodes > 20


def test_a_callback_that_comes_late_hears_of_new_episodes_only() -> None:
    scheme = make_scheme(start_steps=10_000)
    Learner(scheme, 400).train()
    before = scheme.status().episodes.num_episodes
    diary = Diary()
    Learner(scheme, 440, callbacks=[diary]).train()
    assert diary.num_episodes == scheme.status().episodes.num_episodes - before


def test_a_function_is_called_after_every_stage() -> None:
    steps: list[int] = []
    Learner(make_scheme(), 24, callbacks=[lambda learner: steps.append(learner.num_steps)]).train()
    assert steps == [8, 16, 24]


def test_a_callback_can_stop_the_training() -> None:
    def stop(learner: Learner) -> None:
        if learner.num_steps == 16:
            learner.request_stop("enough")

    learner = Learner(make_scheme(), 80, callbacks=[stop])
    learner.train()
    assert (learner.num_steps, learner.stop_reason) == (16, "enough")


def test_a_callback_can_change_options() -> None:
    learner = Learner(make_scheme(), 24, callbacks=[lambda learner: learner.update_algorithm_parameter("gamma", 0.5)])
    learner.train()
    assert learner.scheme.algo.gamma == 0.5


def test_logged_metrics_stand_in_the_row_that_follows(tmp_path: Path) -> None:
    def log(learner: Learner) -> None:
        if learner.num_steps in (8, 24):
            learner.log({"mine/number": learner.num_steps / 8})

    rows: list[dict[str, float]] = []
    learner = Learner(make_scheme(), 32, tmp_path, callbacks=[log], writers=[rows.append], log_every=8)
    learner.train()
    assert learner.get_metrics()["mine/number"] == 3
    learner.close()
    assert [row.get("mine/number") for row in rows] == [1, None, 3, None, None]
    # The file has one row for the last two, which are of the same steps.
    assert [row["mine/number"] for row in read_rows(tmp_path / "metrics.csv")] == ["1.0", "", "3.0", ""]


def test_what_is_logged_at_the_end_is_written(tmp_path: Path) -> None:
    class Last(Callback):
        def on_end(self, learner: Learner) -> None:
            learner.log({"mine/last": 7})

    rows: list[dict[str, float]] = []
    learner = Learner(make_scheme(), 16, callbacks=[Last()], writers=[rows.append])
    learner.train()
    learner.close()
    assert rows[-1]["mine/last"] == 7


@pytest.mark.parametrize("values", [{"mine": "much"}, {"mine": float("nan")}, {metrics.STEPS: 3}])
def test_what_is_no_metric_is_refused(values: Any) -> None:
    with pytest.raises(ConfigError, match="the metric"):
        Learner(make_scheme(), 16).log(values)


def test_states_are_saved_and_restored(tmp_path: Path) -> None:
    first, second = Diary(), Diary()
    learner = Learner(make_scheme(), 80, tmp_path, callbacks=[first, second])
    learner.step()
    first.num_episodes, second.num_episodes = 11, 22
    learner.save_checkpoint()
    learner.close()
    again = [Diary(), Diary(), Diary()]
    resumed = Learner(make_scheme(), 80, tmp_path, callbacks=again, resume=True)
    assert [diary.num_episodes for diary in again] == [11, 22, 0]
    resumed.step()
    assert again[0].entries[0] == "start at 8"
    resumed.close()


def test_a_state_that_no_file_can_hold_names_its_place(tmp_path: Path) -> None:
    class Odd(Callback):
        def state(self) -> dict[str, Any]:
            return {"odd": {1, 2}}

    learner = Learner(make_scheme(), 80, tmp_path, callbacks=[Odd()])
    with pytest.raises(StorageError, match="cannot hold set at 'callbacks/Odd/odd'"):
        learner.save_checkpoint()


class Broken(Callback):
    """Fails at one event."""

    def __init__(self, event: str) -> None:
        self.event = event

    def on_start(self, learner: Learner) -> None:
        self.fail("on_start")

    def on_step(self, learner: Learner) -> None:
        self.fail("on_step")

    def on_evaluation(self, learner: Learner, evaluation: Any) -> None:
        self.fail("on_evaluation")

    def on_checkpoint(self, learner: Learner, path: Path) -> None:
        self.fail("on_checkpoint")

    def fail(self, event: str) -> None:
        if event == self.event:
            raise ZeroDivisionError("by me")


@pytest.mark.parametrize("event", ["on_start", "on_step", "on_evaluation", "on_checkpoint"])
def test_an_error_names_the_callback_and_the_run_is_saved_first(event: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint_every": 8, "background_checkpoints": False}
    learner = Learner(make_scheme(test_every=2), 80, tmp_path, callbacks=[Broken(event)], **options)
    with pytest.raises(
        CallbackError, match=rf"Broken\.{event} failed with ZeroDivisionError: by me.* is saved in "
    ) as e:
        learner.train()
    assert isinstance(e.value.__cause__, ZeroDivisionError)
    learner.close()
    resumed = Learner(make_scheme(), 80, tmp_path, resume=True)
    assert resumed.num_steps == learner.num_steps
    resumed.close()


def test_errors_of_our_own_keep_their_type() -> None:
    learner = Learner(make_scheme(), 80, callbacks=[lambda learner: learner.update_algorithm_parameter("gamma", 7.0)])
    with pytest.raises(ConfigError, match=r"<lambda>\.on_step: gamma must be"):
        learner.train()


@pytest.mark.parametrize(("given", "hint"), [(Diary, r"give an instance, Diary\(...\)"), (3, "got 3")])
def test_what_is_no_callback_is_refused(given: Any, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=hint):
        Learner(make_scheme(), 80, tmp_path / "run", callbacks=[given])
    assert not (tmp_path / "run").exists()


def test_a_callback_that_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    class Picky(Callback):
        def check(self, scheme: Any) -> None:
            raise ConfigError("not with this one")

    with pytest.raises(ConfigError, match="not with this one"):
        Learner(make_scheme(), 80, tmp_path / "run", callbacks=[Picky()])
    assert not (tmp_path / "run").exists()
