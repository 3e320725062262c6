"""One exception tree: each message says what is wrong, what was given, what was expected and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class RecollectError(Exception):
    """Base of every error that Recollect raises on purpose."""


class ConfigError(RecollectError, ValueError):
    """A parameter has a value that cannot work."""


class PartError(ConfigError):
    """A part of the user's own raised an error."""


class SchemaError(RecollectError, ValueError):
    """Data do not have the keys, shapes, dtypes or values that the receiver holds."""


class OutOfMemoryError(RecollectError, MemoryError):
    """What was asked for needs more memory than there is."""


class StorageError(RecollectError, RuntimeError):
    """A storage cannot do what was asked in the state it is in."""


class InUseError(RecollectError, RuntimeError):
    """A run's folder belongs to another process."""


class WorkerError(RecollectError, RuntimeError):
    """A worker failed or answered with an error."""


class CallbackError(RecollectError, RuntimeError):
    """A callback or a writer of the user's own raised an error."""


class EnvError(RecollectError, RuntimeError):
    """An environment failed, and rebuilding it did not help."""


class NotFiniteError(RecollectError, ArithmeticError):
    """A loss became NaN or infinite."""


class RecollectWarning(UserWarning):
    """Something works, but the user should change it."""


def closest(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Phrase a hint for a mistyped `name`: the closest known one, else `otherwise` or all of them."""
    names = sorted(known)
    matches = get_close_matches(name, names, n=1)
    if matches:
        return f"did you mean {matches[0]!r}?"
    return f"known: {', '.join(names)}" if otherwise is None else otherwise


class OwnPart:
    """Says what is expected of a part of the user's own, in a block in which it may raise whatever it likes."""

    def __init__(self, expected: str) -> None:
        self._expected = expected

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, RecollectError) or _is_of_memory(error):
            return
        # The kind of an error that comes of being called with something else says nothing.
        name = "" if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: "
        raise PartError(f"{self._expected}: {name}{' '.join(str(error).split())}") from error


class MemoryExplained:
    """Says of what takes more memory than there is, in a block, which options make it smaller."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if _is_of_memory(error) and not isinstance(error, RecollectError):
            raise OutOfMemoryError(
                f"{self._what} needs more memory than there is ({error}); use fewer environments, smaller networks or "
                "batches"
            ) from error


def _is_of_memory(error: BaseException | None) -> bool:
    """Whether there was too little memory, for which PyTorch has no error of its own."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error))
