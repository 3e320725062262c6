"""`Schedule`: changes an option of the algorithm or the storage while the training runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from recollect.agent.registry import FUNCTIONS, is_reference
from recollect.callbacks.callback import Callback
from recollect.config.parts import ALGO, STORAGE
from recollect.errors import ConfigError, closest
from recollect.files.records import as_count, as_number

if TYPE_CHECKING:
    from recollect.learner import Learner
    from recollect.scheme.scheme import Scheme

Points = Sequence[tuple[float, float]]
"""Env steps and the value there, in order; in between, values lie on a straight line."""

# A change reaches all workers, so that there are not more of them than a curve needs.
_NUM_CHANGES: Final = 1000
# Share of a training at which the last change comes.
_LAST_SHARE: Final = 1 - 1 / _NUM_CHANGES
_SHAPES: Final[dict[str, Callable[[float], float]]] = {
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: 0.5 * (1.0 + math.cos(math.pi * share)),
}


class Schedule(Callback):
    """Changes a numeric option from a start to an end value over the steps of a training.

    A resumed run continues the schedule where it was. The value in force is logged as `schedule/OPTION`.

    Parameters
    ----------
    option : str
        Name of an option that can change while running, such as `policy_lr`; `storage.gamma` says whose it is.
    how : str, sequence or callable
        `"linear"` or `"cosine"`; points `[(num_steps, value), ...]`; or a function of the share of the training that is
        done, 0 to 1, that returns the value, itself or as `"module:Name"`.
    start : float, optional
        Value at the beginning of `"linear"` and `"cosine"`; by default the one that the option has.
    end : float
        Value at their end.

    Examples
    --------
    >>> lr = Schedule("policy_lr", "cosine", end=1e-5)
    >>> beta = Schedule("storage.beta", [(0, 0.4), (50_000, 1.0)])
    >>> entropy = Schedule("entropy_weight", lambda share: 0.01 * 0.5 ** (10 * share))
    """

    def __init__(
        self,
        option: str,
        how: str | Points | Callable[[float], float] = "linear",
        *,
        start: float | None = None,
        end: float = 0.0,
    ) -> None:
        self.option = option
        self._how = _checked(how)
        self._start = start
        self._end = end
        # Where the present training began, in steps and in value; None before it does.
        self._origin: tuple[int, float] | None = None
        self._where = ("", "")
        self._is_whole = False
        self._present: float | None = None

    @property
    def name(self) -> str:
        return f"Schedule({self.option})"

    def check(self, scheme: "Scheme") -> None:
        part, name = self._target(scheme)
        value = _value_of(scheme, part, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"a schedule needs a number, and {self.option} is {value!r}")
        owner = _owner(scheme, part)
        for extreme in self._extremes(value if self._start is None else self._start):
            try:
                owner.config_with(name, round(extreme) if isinstance(value, int) else extreme)
            except ConfigError as error:
                raise ConfigError(f"{self.name} comes to a value that cannot be: {error}") from error

    def on_start(self, learner: "Learner") -> None:
        self._where = self._target(learner.scheme)
        value = _value_of(learner.scheme, *self._where)
        self._is_whole = isinstance(value, int)
        if self._origin is None:
            self._origin = learner.num_steps, value if self._start is None else self._start
            self._present = None
        self.on_step(learner)

    def on_step(self, learner: "Learner") -> None:
        if learner.done():
            return
        part, name = self._where
        value = round(self._value(learner)) if self._is_whole else self._value(learner)
        if value != self._present:
            self._present = value
            change = learner.update_storage_parameter if part == STORAGE else learner.update_algorithm_parameter
            change(name, value)
            learner.log({f"schedule/{name}": value})

    def on_end(self, learner: "Learner") -> None:
        self._origin = None  # another training has a schedule of its own

    def state(self) -> dict[str, Any]:
        return {} if self._origin is None else {"origin": self._origin, "present": self._present}

    def load_state(self, state: Mapping[str, Any]) -> None:
        first_step, start = state["origin"]
        self._origin = as_count(first_step), as_number(start)
        present = state.get("present")
        self._present = None if present is None else as_number(present)

    def _extremes(self, start: float) -> list[float]:
        """Values that the schedule comes to, its first and its last one among them."""
        if isinstance(self._how, str):
            return [start, self._along(self._how, start, _LAST_SHARE)]
        if callable(self._how):
            return [float(self._how(0.0)), float(self._how(_LAST_SHARE))]
        return [value for _, value in self._how]

    def _along(self, shape: str, start: float, share: float) -> float:
        return self._end + (start - self._end) * _SHAPES[shape](share)

    def _value(self, learner: "Learner") -> float:
        """The value of the present step; it depends on nothing else, so that a resumed run has the same."""
        first, start = self._origin or (0, 0.0)
        num_steps = learner.target_steps - first
        share = math.floor((learner.num_steps - first) / num_steps * _NUM_CHANGES) / _NUM_CHANGES
        if isinstance(self._how, str):
            return self._along(self._how, start, share)
        if callable(self._how):
            return float(self._how(share))
        steps, values = zip(*self._how, strict=True)
        return float(np.interp(first + share * num_steps, steps, values))

    def _target(self, scheme: "Scheme") -> tuple[str, str]:
        """The part that has the option, and the option's name there."""
        part, _, name = self.option.rpartition(".")
        known = {part: _changing(scheme, part) for part in (ALGO, STORAGE)}
        if part in known and name in known[part]:
            return part, name
        for owner, names in known.items():
            if not part and name in names:
                return owner, name
        every = [f"{owner}.{each}" for owner, names in known.items() for each in names]
        raise ConfigError(f"there is no option {self.option!r} that can change; {closest(self.option, every)}")


def _checked(how: str | Points | Callable[[float], float]) -> str | Points | Callable[[float], float]:
    """What a schedule follows, by whatever name it is given."""
    if isinstance(how, str) and how not in _SHAPES:
        if not is_reference(how) and how not in FUNCTIONS:
            raise ConfigError(f"a schedule is 'linear', 'cosine', points or a function, got {how!r}")
        how = FUNCTIONS.find(how)
    return how if isinstance(how, str) or callable(how) else _checked_points(how)


def _checked_points(points: Points) -> Points:
    steps = [step for step, _ in points]
    if not steps or steps != sorted(set(steps)):
        raise ConfigError(f"the points of a schedule must have rising env steps, got {steps}")
    return [(float(step), float(value)) for step, value in points]


def _changing(scheme: "Scheme", part: str) -> list[str]:
    """Options of a part that can change while running."""
    config = getattr(_owner(scheme, part), "config", None)
    if config is None:
        return []
    return list(config.docs()) if part == ALGO else list(config.changing())


def _value_of(scheme: "Scheme", part: str, name: str) -> Any:
    return getattr(_owner(scheme, part).config, name)


def _owner(scheme: "Scheme", part: str) -> Any:
    return scheme.algo if part == ALGO else scheme.storage
