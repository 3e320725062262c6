"""`Callback`: user code in the training loop."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from recollect.errors import CallbackError, ConfigError, RecollectError

if TYPE_CHECKING:
    from recollect.learner import Learner
    from recollect.scheme.collection.worker.episodes import Episode
    from recollect.scheme.collection.worker.evaluation import Evaluation
    from recollect.scheme.scheme import Scheme

StepFunction = Callable[["Learner"], object]
"""A plain function in place of a callback: called after every update stage."""


class Callback:
    """Code that runs at certain points of a training; override the methods that you need.

    Each gets the learner. It may stop the training (`learner.request_stop`), change options
    (`learner.update_algorithm_parameter`, `learner.update_storage_parameter`) and log metrics (`learner.log`).

    Examples
    --------
    >>> class CountEpisodes(Callback):
    ...     num_long = 0
    ...
    ...     def on_episode_end(self, learner, episode):
    ...         self.num_long += episode.num_steps > 100
    ...         learner.log({"episodes/long": self.num_long})
    ...
    ...     def state(self):
    ...         return {"num_long": self.num_long}
    ...
    ...     def load_state(self, state):
    ...         self.num_long = state["num_long"]
    """

    @property
    def name(self) -> str:
        """Name in errors, and under which the state is saved."""
        return type(self).__name__

    def check(self, scheme: "Scheme") -> None:
        """Raise a `ConfigError` if the callback cannot work with a scheme; called before anything is written."""

    def on_start(self, learner: "Learner") -> None:
        """Run before the first update stage; if a run is resumed, after `load_state`."""

    def on_step(self, learner: "Learner") -> None:
        """Run after every update stage."""

    def on_episode_end(self, learner: "Learner", episode: "Episode") -> None:
        """Run for every training episode that ended in an update stage; for the newest 20 where there are more."""

    def on_evaluation(self, learner: "Learner", evaluation: "Evaluation") -> None:
        """Run after every evaluation."""

    def on_checkpoint(self, learner: "Learner", path: Path) -> None:
        """Run after every checkpoint, with its folder."""

    def on_end(self, learner: "Learner") -> None:
        """Run once the training has ended in whatever way, before environments and files are closed."""

    def state(self) -> dict[str, Any]:
        """What checkpoints keep of the callback: tensors and plain values, nested."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`."""


_EVENTS: Final = ("on_start", "on_step", "on_episode_end", "on_evaluation", "on_checkpoint", "on_end")


class _OnStep(Callback):
    """A function as a callback."""

    def __init__(self, function: StepFunction) -> None:
        self._function = function

    @property
    def name(self) -> str:
        return str(getattr(self._function, "__qualname__", type(self._function).__name__))

    def on_step(self, learner: "Learner") -> None:
        self._function(learner)


class Callbacks:
    """The callbacks of one training, each called only where it has something to do.

    Parameters
    ----------
    given : sequence of Callback or function
        In the order in which they are called.
    """

    def __init__(self, given: Sequence[Callback | StepFunction]) -> None:
        self._callbacks = [_as_callback(each) for each in given]
        self._listeners = {
            event: [callback for callback in self._callbacks if _overrides(callback, event)] for event in _EVENTS
        }

    def listens(self, event: str) -> bool:
        """Whether any callback has something to do at an event."""
        return bool(self._listeners[event])

    def check(self, scheme: "Scheme") -> None:
        """Refuse what cannot work with a scheme."""
        for callback in self._callbacks:
            callback.check(scheme)

    def call(self, event: str, *arguments: object) -> None:
        """Call all that listen to an event; an error is passed on with the callback's name."""
        for callback in self._listeners[event]:
            with _named(f"{callback.name}.{event}"):
                getattr(callback, event)(*arguments)

    def state(self) -> dict[str, Any]:
        """States by name, for a checkpoint."""
        states = {}
        for name, callback in self._by_name().items():
            with _named(f"{callback.name}.state"):
                states[name] = callback.state()
        return {name: state for name, state in states.items() if state}

    def load_state(self, states: Mapping[str, Any]) -> None:
        """Resume from `states`; callbacks that were not there before start from their beginning."""
        for name, callback in self._by_name().items():
            if name in states:
                with _named(f"{callback.name}.load_state"):
                    callback.load_state(states[name])

    def _by_name(self) -> dict[str, Callback]:
        """Callbacks by name, those of the same name numbered in their order."""
        counts: Counter[str] = Counter()
        named = {}
        for callback in self._callbacks:
            counts[callback.name] += 1
            number = counts[callback.name]
            named[callback.name if number == 1 else f"{callback.name}-{number}"] = callback
        return named


def _as_callback(given: Callback | StepFunction) -> Callback:
    if isinstance(given, Callback):
        return given
    if isinstance(given, type) or not callable(given):
        hint = f"; give an instance, {given.__name__}(...)" if isinstance(given, type) else ""
        raise ConfigError(f"callbacks must be instances of Callback or functions of the learner, got {given!r}{hint}")
    return _OnStep(given)


def _overrides(callback: Callback, event: str) -> bool:
    return getattr(type(callback), event) is not getattr(Callback, event)


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Name the callback in whatever error it raises."""
    try:
        yield
    except RecollectError as error:
        error.args = (f"{place}: {error}",)
        raise
    except Exception as error:
        raise CallbackError(f"{place} failed with {type(error).__name__}: {error}; correct the callback") from error
