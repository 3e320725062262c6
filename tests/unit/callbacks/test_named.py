"""Callbacks that configs name run in every training of the config."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from recollect.api import Agent
from recollect.callbacks import Callback, Schedule, StopAt, named_callbacks
from recollect.config import RunConfig, resolve
from recollect.errors import ConfigError
from recollect.learner import Learner

SMALL: dict[str, Any] = {
    "hidden_sizes": [8],
    "start_steps": 20,
    "update_every": 10,
    "num_test_envs": 1,
    "preset": "none",
    "seed": 1,
}
STEPS: list[int] = []


class Watch(Callback):
    """Notes where trainings start, and how often."""

    starts: ClassVar[list[int]] = []

    def __init__(self, scale: int = 1) -> None:
        self.scale = scale

    def on_start(self, learner: Learner) -> None:
        self.starts.append(self.scale * learner.num_steps)


def watch(learner: Learner) -> None:
    STEPS.append(learner.num_steps)


def config(*callbacks: Any) -> RunConfig:
    return resolve("ddqn", "CartPole-v1", overrides={"callbacks": list(callbacks)})


def test_names_classes_and_functions_become_callbacks() -> None:
    stop, schedule, mine, function = named_callbacks(
        config({"name": "stopat", "score": 3}, {"name": "Schedule", "option": "critic_lr"}, Watch, f"{__name__}:watch")
    )
    assert isinstance(stop, StopAt)
    assert stop.score == 3
    assert isinstance(schedule, Schedule)
    assert (type(mine), function) == (Watch, watch)


def test_files_keep_what_they_are_called(tmp_path: Path) -> None:
    given = config({"name": Watch, "scale": 2}, StopAt, watch)
    assert given.callbacks == [{"name": f"{__name__}:Watch", "scale": 2}, "StopAt", f"{__name__}:watch"]
    given.save(tmp_path / "run.yaml")
    assert RunConfig.load(tmp_path / "run.yaml", trust=True) == given


def rate(share: float) -> float:
    return 1e-3 * (1 - share)


class Calls(Watch):
    """Has a function among its options."""

    def __init__(self, function: Any) -> None:
        self.function = function


def test_functions_among_options_are_named_too(tmp_path: Path) -> None:
    given = config({"name": Calls, "function": rate}, {"name": "Schedule", "option": "critic_lr", "how": rate})
    reference = f"{__name__}:rate"
    assert given.callbacks == [
        {"name": f"{__name__}:Calls", "function": reference},
        {"name": "Schedule", "option": "critic_lr", "how": reference},
    ]
    given.save(tmp_path / "run.yaml")
    with pytest.raises(ConfigError, match=f"asks to import the module {__name__}"):
        RunConfig.load(tmp_path / "run.yaml")
    calls, schedule = named_callbacks(RunConfig.load(tmp_path / "run.yaml", trust=True))
    assert isinstance(calls, Calls)
    assert calls.function is rate
    assert isinstance(schedule, Schedule)


def test_every_training_of_the_config_has_its_own(tmp_path: Path) -> None:
    Watch.starts.clear()
    STEPS.clear()
    agent = Agent("ddqn", "CartPole-v1", callbacks=[{"name": Watch, "scale": 10}, watch], **SMALL)
    agent.learn(30, log_dir=tmp_path / "run").learn(10)
    assert Watch.starts == [0, 300]
    assert STEPS[-1] == 40
    with Agent.load(tmp_path / "run", callbacks=[Watch]) as loaded:
        loaded.learn(10)
    assert Watch.starts[2:] == [30], "given again, with options of its own"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("StopAtt", r"there is no callback 'StopAtt'; did you mean 'StopAt'\?"),
        ({"name": "StopAt", "scroe": 3}, r"the callback .*:StopAt does not take the options \{'scroe': 3\}: .*'scroe'"),
        ({"name": watch, "scale": 3}, r"watch is a function of the learner and takes no options, got \{'scale': 3\}"),
        (3.0, "a callback is a name, 'module:Name', a class, a function, or a mapping .*got 3.0"),
        (StopAt(3.0), r"got a StopAt that is made already; write \{'name': 'StopAt', ...\} .* learn\(callbacks="),
    ],
)
def test_what_is_no_callback_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        named_callbacks(config(given))
