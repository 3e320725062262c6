"""What a storage's name promises: a constructor's defaults switch every idea off, a name asks for one."""

from collections.abc import Mapping
from typing import Any, Final

from recollect.config.files import Document
from recollect.config.parts import STORAGE, Option, options_of

_ALPHA: Final = "alpha"
_CMIN: Final = "cmin"
_PRIORITISED: Final[Document] = {_ALPHA: 0.6, "beta": 0.4, "epsilon": 0.01, "default_error": 1.0}
_PROMISED: Final[Mapping[str, Document]] = {
    "nstep": {"n_step": 3},
    "per": _PRIORITISED,
    "ere": {"eta": 0.996},
}
# ERE's window is at least this share of all that the storage can hold, or the class's own cmin if that is less.
_LEAST_SHARE: Final = 0.05


def promised(storage: str, given: Document, num_envs: int) -> Document:
    """Options that make a storage what its name says, where nobody gave them.

    ERE does not bring priorities along; where it is given some, by an alpha, it gets the rest of what PER gets.

    Parameters
    ----------
    storage : str
        Name of the storage.
    given : dict
        Its options by preset, file and overrides; they count.
    num_envs : int
        Environments that it holds the steps of.
    """
    options = dict(_PROMISED.get(storage, {}))
    if storage == "ere":
        options |= _PRIORITISED if given.get(_ALPHA) else {}
        options |= _window(given.get("size"), num_envs)
    return {name: value for name, value in options.items() if name not in given}


def listed_options(storage: str) -> Mapping[str, Option]:
    """Options of a storage that is chosen by its name, with the values that they have then."""
    values = _PROMISED.get(storage, {})
    known = options_of(STORAGE, storage)
    return {name: Option(name, values.get(name, option.default), option.about) for name, option in known.items()}


def _window(size: Any, num_envs: int) -> Document:
    """`cmin` of a storage of some size; none where the class's own fits, or the size is to be refused elsewhere."""
    most = options_of(STORAGE, "ere")[_CMIN].default
    least = min(most, _LEAST_SHARE * size * num_envs) if isinstance(size, int | float) else most
    return {_CMIN: max(1, int(least))} if least < most else {}
