"""What a config file may do only with the caller's trust: import code, connect, or write elsewhere."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from recollect.agent.registry import NAME, NOT_IMPORTABLE, REGISTRIES, is_reference
from recollect.config.files import Document
from recollect.config.parts import NAMED_PARTS, SCHEME, STORAGE
from recollect.errors import ConfigError

# Options that reach beyond the process and the folder of its run, and what they do.
_REACHES: Final = {
    f"{SCHEME}.ray_address": "join the Ray cluster",
    f"{SCHEME}.runtime_env": "have Ray set up",
    f"{SCHEME}.journal_folder": "write to",
    f"{STORAGE}.path": "write to",
}


def check_trust(document: Document, source: str, *, trust: bool = False, given: Collection[str] = ()) -> None:
    """Refuse a file that names code or places that the caller has not allowed.

    Names that are built in, registered, or of installed packages are free, and so are objects of this process that
    cannot be imported.

    Parameters
    ----------
    document : dict
        What the file has.
    source : str
        Which file, or folder, it is.
    trust : bool
        Whether the caller allows what it names.
    given : collection of str
        References that are the caller's own words, see `references`.
    """
    for keyword, name in lost_parts(document).items():
        if not any(NOT_IMPORTABLE + name in registry for registry in REGISTRIES.values()):
            raise ConfigError(
                f"{keyword} of {source} was {name}, which cannot be imported; give it again from Python, as in "
                f"Agent.load(folder, {keyword}=...)"
            )
    if trust:
        return
    modules = sorted({text.partition(":")[0] for text in references(document).difference(given)})
    reaches = [f"{what} {value!r} ({path})" for path, what in _REACHES.items() if (value := _look_up(document, path))]
    if modules:
        reaches.insert(0, f"import {'the module' if len(modules) == 1 else 'the modules'} {', '.join(modules)}")
    if reaches:
        raise ConfigError(
            f"{source} asks to {', and to '.join(reaches)}; a file can name anything, so allow it only if you trust "
            "where it is from: trust=True"
        )


def lost_parts(document: Document) -> dict[str, str]:
    """Parts that no other process can import, by the argument of `Agent.load` that gives them again."""
    texts = ((_keyword(path), text) for path, text in _texts(document))
    return {path: text.removeprefix(NOT_IMPORTABLE) for path, text in texts if text.startswith(NOT_IMPORTABLE)}


def references(document: Document, parts: Collection[str] | None = None) -> set[str]:
    """Code that a document names; with `parts`, for those alone, each as `Agent.load` takes it."""
    named = {path: text for path, text in _texts(document) if _leads_to_code(path, text)}
    return {text for path, text in named.items() if parts is None or _keyword(path) in parts}


def _leads_to_code(path: str, text: str) -> bool:
    """Whether a text is a reference to code: a name of a part with a colon always is one."""
    is_name = path.endswith(f".{NAME}") or path in NAMED_PARTS
    return is_reference(text) or (is_name and ":" in text and not text.startswith(NOT_IMPORTABLE))


def _texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in nested mappings and lists, by its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{path}.{number}")


def _look_up(document: Document, path: str) -> object:
    part, _, option = path.partition(".")
    options = document.get(part)
    return options.get(option) if isinstance(options, Mapping) else None


def _keyword(path: str) -> str:
    """Argument of `Agent.load` that gives the part at a path again."""
    part, *options = path.split(".")
    return part if not options or options[0] == NAME or options[0].isdecimal() else options[0]
