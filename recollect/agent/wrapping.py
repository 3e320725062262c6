"""Wrappers of single environments: which ones, with what options, in which order."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from recollect.agent.registry import WRAPPERS, reference_to
from recollect.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium as gym

    from recollect.roles import EnvWrapper

_NAME: Final = "name"


@dataclass(frozen=True)
class Wrapping:
    """A wrapper and its options: `wrapping(env)` is the wrapped environment."""

    wrapper: "EnvWrapper"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, env: "gym.Env[Any, Any]") -> "gym.Env[Any, Any]":
        """Wrap an environment."""
        import gymnasium as gym  # late: configs name wrappers without it

        try:
            return self.wrapper(env, **self.options)
        except (TypeError, ValueError, gym.error.Error) as error:
            name = reference_to(self.wrapper)
            raise ConfigError(f"the wrapper {name} does not take the options {dict(self.options)}: {error}") from error


def wrapped(build: "Callable[[], gym.Env[Any, Any]]", wrappings: Iterable[Wrapping]) -> "gym.Env[Any, Any]":
    """Make an environment and wrap it, the first wrapper innermost."""
    env = build()
    for wrapping in wrappings:
        env = wrapping(env)
    return env


def parse_wrappers(given: object) -> tuple[Wrapping, ...]:
    """Wrappers as a caller lists them, the first one innermost.

    Parameters
    ----------
    given : list
        Of names, classes or functions, or mappings of a `name` (any of these) and options. One alone needs no list.
    """
    return tuple(
        Wrapping(WRAPPERS.find(wrapper) if isinstance(wrapper, str) else wrapper, options)
        for wrapper, options in _entries(given)
    )


def name_wrappers(given: object) -> list[str | dict[str, Any]]:
    """The same as configs keep them: names, each with its options where there are any."""
    entries = ((WRAPPERS.name_of(wrapper), options) for wrapper, options in _entries(given))
    return [{_NAME: name, **options} if options else name for name, options in entries]


def _entries(given: object) -> Iterable[tuple[Any, dict[str, Any]]]:
    for entry in given if isinstance(given, (list, tuple)) else [given]:
        if isinstance(entry, Wrapping):
            yield entry.wrapper, dict(entry.options)
            continue
        options = dict(entry) if isinstance(entry, Mapping) else {_NAME: entry}
        wrapper = options.pop(_NAME, None)
        if not isinstance(wrapper, str) and not callable(wrapper):
            raise ConfigError(
                "a wrapper is a name such as ClipReward, 'module:Name', a class, or a mapping of its name and options, "
                f"got {entry!r}"
            )
        yield wrapper, options
