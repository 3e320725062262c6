"""Storages that are chosen by name: a constructor's defaults switch every idea off, a name asks for one."""

from collections.abc import Mapping
from dataclasses import replace

from recollect.config.files import Document
from recollect.config.parts import STORAGE, Option, class_of, options_of


def recommended(storage: str, given: Document, num_envs: int) -> Document:
    """Options that make a storage do what its name says, where nobody gave them.

    Parameters
    ----------
    storage : str
        Name of the storage.
    given : dict
        Its options by preset, file and overrides; they win.
    num_envs : int
        Environments that it holds the steps of.
    """
    options: Document = class_of(STORAGE, storage).config_class.recommended(given, num_envs)
    return {name: value for name, value in options.items() if name not in given}


def listed_options(storage: str) -> Mapping[str, Option]:
    """Options of a storage that is chosen by its name, with the values that they have then."""
    values = recommended(storage, {}, 1)
    known = options_of(STORAGE, storage)
    return {name: replace(option, default=values.get(name, option.default)) for name, option in known.items()}
