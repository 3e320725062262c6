"""Wrappers of single environments: which ones, with what options, in which order."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recollect.agent.registry import NAME, WRAPPERS, found_options, reference_to
from recollect.errors import OwnPart

if TYPE_CHECKING:
    import gymnasium as gym

    from recollect.roles import EnvWrapper


@dataclass(frozen=True)
class Wrapping:
    """A wrapper and its options: `wrapping(env)` is the wrapped environment."""

    wrapper: "EnvWrapper"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, env: "gym.Env[Any, Any]") -> "gym.Env[Any, Any]":
        """Wrap an environment."""
        with OwnPart(f"the wrapper {reference_to(self.wrapper)} does not take the options {dict(self.options)}"):
            return self.wrapper(env, **self.options)


def wrapped(build: "Callable[[], gym.Env[Any, Any]]", wrappings: Iterable[Wrapping]) -> "gym.Env[Any, Any]":
    """Make an environment and wrap it, the first wrapper innermost."""
    env = build()
    for wrapping in wrappings:
        env = wrapping(env)
    return env


def parse_wrappers(given: object) -> tuple[Wrapping, ...]:
    """Wrappers as a caller lists them, see `Registry.entries`; the first one is innermost."""
    return tuple(
        Wrapping(WRAPPERS.find(wrapper) if isinstance(wrapper, str) else wrapper, found_options(options))
        for wrapper, options in WRAPPERS.entries(_plain(given))
    )


def name_wrappers(given: object) -> list[str | dict[str, Any]]:
    """The same as configs keep them: names, each with its options where there are any."""
    return WRAPPERS.named(_plain(given))


def _plain(given: object) -> list[object]:
    """A list in which no wrapper and its options are one object."""
    entries = given if isinstance(given, (list, tuple)) else [given]
    return [{NAME: each.wrapper, **each.options} if isinstance(each, Wrapping) else each for each in entries]
