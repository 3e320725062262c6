"""Merging the documents that describe a run: preset, file, overrides."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from recollect.agent.registry import CALLBACKS, FUNCTIONS, NAME
from recollect.agent.wrapping import name_wrappers
from recollect.config.files import Document
from recollect.config.parts import (
    ACTOR,
    ALGO,
    NAMED_PARTS,
    PARTS,
    STORAGE,
    Option,
    given_name,
    is_on_policy,
    named_value,
    names_with,
    options_of,
    plain_name,
)
from recollect.errors import ConfigError, closest
from recollect.other_names import translated

# Entries that list parts, each with options of its own, and what turns them into names.
_LISTS: Final[Mapping[str, Callable[[object], list[Any]]]] = {"wrappers": name_wrappers, "callbacks": CALLBACKS.named}
_ALL_OPTIONS: Final = "`recollect list options` shows those of a run, `recollect list options sac` those of SAC"


def split(document: Document, settings: Iterable[str]) -> tuple[dict[str, Document], Document]:
    """Split a document into its parts, each a mapping of its name and options, and the run's own settings."""
    known = {*PARTS, *settings}
    for entry in document:
        if entry not in known:
            raise ConfigError(f"a run has no entry {entry!r}; {closest(entry, known)}")
    parts = {part: _as_mapping(part, document.get(part, {})) for part in PARTS}
    return parts, {entry: value for entry, value in document.items() if entry not in PARTS}


def overlay(document: Document, layer: Document, settings: Iterable[str]) -> Document:
    """Lay one document over another; a part that is exchanged keeps the options that the new one has."""
    parts, own = split(document, settings)
    new_parts, new_own = split(layer, settings)
    merged = own | new_own
    for part in PARTS:
        old, new = parts[part], new_parts[part]
        if NAME in old and new.get(NAME, old[NAME]) != old[NAME]:
            old = {name: value for name, value in old.items() if name in options_of(part, new[NAME])}
        if old or new:
            merged[part] = old | new
    return merged


def override(document: Document, overrides: Mapping[str, Any], settings: Iterable[str]) -> Document:
    """Lay values by path over a document: `storage`, `storage.alpha`, `seed`; exchanged parts come first.

    Values are the caller's, who may give classes and functions where files have names.
    """
    exchanged = {path: _given_part(path, value) for path, value in overrides.items() if path in PARTS}
    document = overlay(document, exchanged, settings)
    document.setdefault(STORAGE, {}).setdefault(NAME, default_storage(document[ALGO][NAME]))
    for path, value in overrides.items():
        if path not in exchanged:
            part, option = _place(document, path, settings)
            layer = {option: value} if part is None else {part: _given_option(document, part, option, value)}
            document = overlay(document, layer, settings)
    return document


def _given_part(part: str, value: object) -> object:
    """A part as a document has it: its name, or a mapping of its name and options."""
    if part not in NAMED_PARTS or (isinstance(value, Mapping) and NAME not in value):
        return value
    return {**value, NAME: given_name(part, value[NAME])} if isinstance(value, Mapping) else given_name(part, value)


def _given_option(document: Document, part: str, option: str, value: object) -> Document:
    if option == NAME and part in NAMED_PARTS:
        return {NAME: given_name(part, value)}
    known = options_of(part, document.get(part, {}).get(NAME))
    return {option: named_value(known[option], value) if option in known else value}


def replace_given(document: Document, given: Mapping[str, Any]) -> Document:
    """Exchange parts of a run's document for those that the caller gives, without asking what is exchanged.

    Parameters
    ----------
    document : dict
        What the run's file has.
    given : mapping
        Parts by their names: `algo`, `env`, `storage`, `wrappers`, `callbacks`, or an option such as `features`.
    """
    document = document | {part: _as_mapping(part, document[part]) for part in PARTS if part in document}
    own = [name for name, option in options_of(ACTOR).items() if option.kind is not None]
    for name, value in given.items():
        owner = next((part for part in PARTS if name in document.get(part, {})), ACTOR if name in own else None)
        if name in NAMED_PARTS:
            document[name] = {**document.get(name, {}), NAME: given_name(name, value)}
        elif name in _LISTS:
            document[name] = _LISTS[name](value)
        elif owner is not None:
            known = options_of(ACTOR).get(name) if owner == ACTOR else Option(name, None, "", FUNCTIONS.kind)
            document.setdefault(owner, {})[name] = value if known is None else named_value(known, value)
        else:
            parts = (*NAMED_PARTS, *_LISTS, *own)
            raise ConfigError(f"{name!r} is no part that can be given again; {closest(name, parts)}")
    return document


def default_storage(algo: str) -> str:
    """Name of the plainest storage of an algorithm's family."""
    return "gae" if is_on_policy(algo) else "replay"


def _as_mapping(part: str, value: object) -> Document:
    if isinstance(value, str) and part in NAMED_PARTS:
        value = {NAME: value}
    if not isinstance(value, Mapping):
        expected = "a name, or a mapping of its name and options" if part in NAMED_PARTS else "a mapping of options"
        raise ConfigError(f"{part} must be {expected}, got {value!r}")
    named = NAME in value and part in NAMED_PARTS
    return {**value, NAME: plain_name(part, value[NAME])} if named else dict(value)


def _place(document: Document, path: str, settings: Iterable[str]) -> tuple[str | None, str]:
    """Find the part that a path leads to, None for the run itself, and the option's name there."""
    part, dot, option = path.partition(".")
    if dot and part in PARTS:
        return part, option
    if path in settings:
        return None, path
    known = {part: options_of(part, document.get(part, {}).get(NAME)) for part in PARTS}
    owners = [part for part, options in known.items() if path in options]
    if len(owners) > 1:
        raise ConfigError(f"{path!r} is an option of {' and '.join(owners)}; say which: {owners[0]}.{path}")
    if not owners and (others := [part for part in (STORAGE, ALGO) if names_with(part, path)]):
        return others[0], path  # refused there, with the names of those that have it
    if not owners:
        paths = {f"{part}.{name}" for part, options in known.items() for name in options}
        names = {name for options in known.values() for name in options}
        hint = translated(path, {*settings, *names}) or closest(
            path, {*settings, *(paths if dot else names)}, _ALL_OPTIONS
        )
        raise ConfigError(f"a run has no option {path!r}; {hint}")
    return owners[0], path
