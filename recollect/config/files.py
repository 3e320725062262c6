"""Config files: YAML and TOML in, YAML out, and the values of a command line."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Final

from recollect.agent.registry import NAME
from recollect.errors import ConfigError, StorageError
from recollect.files.disk import read_file, write_file
from recollect.files.records import PARSE_ERRORS

Document = dict[str, Any]

_MAX_BYTES: Final = 1 << 20
_MAX_VALUES: Final = 100_000
_MAX_DIGITS: Final = 400
_MERGE: Final = "tag:yaml.org,2002:merge"
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

# YAML 1.1, which PyYAML reads, takes 1e-3 for a string, because it has no dot.
_FLOAT: Final = re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
_NONE: Final = re.compile(r"^[nN]one$")


def read_document(path: Path | str) -> Document:
    """Read a YAML or TOML file that holds one mapping; its names, and those of its parts, are strings."""
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"there is no config file {str(path)!r}")
    if path.suffix not in (".yaml", ".yml", ".toml"):
        raise ConfigError(f"a config file ends in .yaml, .yml or .toml, got {str(path)!r}")
    text = _read_text(path)
    document = _read_toml(text, str(path)) if path.suffix == ".toml" else _read_yaml(text, str(path))
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must be a mapping of names to values, got {type(document).__name__}")
    _check_names(document, str(path))
    return document


def write_document(document: Document, path: Path | str) -> None:
    """Write a mapping as YAML, in its own order."""
    write_file(Path(path), dump_document(document).encode())


def dump_document(document: Document) -> str:
    """Text of a mapping as YAML, in its own order; refuses values that cannot be read back."""
    import yaml

    try:
        return yaml.dump(document, Dumper=_dumper(), sort_keys=False, allow_unicode=True)
    except yaml.representer.RepresenterError as error:
        raise ConfigError(
            f"no file can hold {_path_to(error.args[-1], document)}={error.args[-1]!r}, only names and numbers; "
            "train without a folder, and save only the weights: `scheme.actor.save(path)`"
        ) from error


def parse_value(text: str) -> Any:
    """Read a value as it would stand in a YAML file: `0.6`, `1e-3`, `true`, `none`, `[64, 64]`, `relu`."""
    return _read_yaml(text, repr(text))


def parse_overrides(texts: Iterable[str]) -> Document:
    """Read overrides as a command line has them: `storage=per`, `storage.alpha=0.6`."""
    overrides = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise ConfigError(f"an override is written NAME=VALUE, e.g. storage.alpha=0.6, got {text!r}")
        path = path.strip()
        overrides[path] = value.strip() if path.endswith(f".{NAME}") else parse_value(value)
    return overrides


def _read_text(path: Path) -> str:
    try:
        return read_file(path.resolve(), _MAX_BYTES).decode()
    except StorageError as error:
        raise ConfigError(str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not in UTF-8: {error.reason} at byte {error.start}; save it as UTF-8") from error


def _check_names(document: Document, source: str) -> None:
    """Refuse names that YAML takes for something else than a string, as in `3: 4` or `name: 5`."""
    parts = {part: options for part, options in document.items() if isinstance(options, dict)}
    for name in (*document, *(name for options in parts.values() for name in options)):
        if not isinstance(name, str):
            raise ConfigError(f"{source}: names must be strings, got {name!r}; put it in quotes")
    for part, options in parts.items():
        if not isinstance(options.get(NAME, ""), str):
            raise ConfigError(f"{source}: the name of {part} must be a string, got {options[NAME]!r}")


def _read_toml(text: str, source: str) -> Document:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error


def _read_yaml(text: str, source: str) -> Any:
    import yaml

    try:
        value = yaml.load(text, _loader())
        _check_size(value)
        return value
    except (yaml.YAMLError, *PARSE_ERRORS) as error:  # what its tags call a date or a number, and is none
        raise ConfigError(f"{source} is not valid YAML: {_reason(error)}") from error


def _check_size(value: object) -> None:
    """Refuse what aliases unfold to more than a config has, or to something without end."""
    left, num_values = [value], 0
    while left:
        inner = left.pop()
        num_values += 1
        if num_values > _MAX_VALUES:
            raise ValueError(f"its aliases stand for more than {_MAX_VALUES:,} values")
        if isinstance(inner, Mapping):
            left += [*inner.keys(), *inner.values()]
        elif isinstance(inner, (list, tuple, set)):
            left += inner


def _reason(error: Exception) -> str:
    """What PyYAML found, in one line, with the place first."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _path_to(sought: object, value: object) -> str:
    """Dotted path of a value within nested mappings and lists of them, empty if it is not there."""
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        several = list(inner) if isinstance(inner, (list, tuple)) else []
        if inner is sought or any(each is sought for each in several):
            return str(name)
        for place, each in [("", inner), *((f"{number}.", each) for number, each in enumerate(several))]:
            if path := _path_to(sought, each):
                return f"{name}.{place}{path}"
    return ""


@cache
def _dumper() -> Any:
    """PyYAML's safe dumper, with NumPy's numbers as numbers and paths as strings."""
    import numpy as np
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    scalar: Any = np.generic
    Dumper.add_multi_representer(scalar, lambda dumper, value: dumper.represent_data(value.item()))
    Dumper.add_multi_representer(PurePath, lambda dumper, value: dumper.represent_data(str(value)))
    return Dumper


@cache
def _loader() -> Any:
    """PyYAML's safe loader, with floats as people write them, `none` beside `null`, and no entry given twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        # Checked as nodes are composed: later on, what `<<` merges in stands beside what it is overridden with.
        def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> "yaml.MappingNode":
            node = super().compose_mapping_node(anchor)
            seen: set[str] = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen:
                    reason = f"{key.value!r} is given twice; keep one of them"
                    raise yaml.composer.ComposerError(None, None, reason, key.start_mark)
                seen.add(key.value)
            return node

        # Aliases of aliases multiply what `<<` merges: it is counted before any of it is copied.
        def flatten_mapping(self, node: "yaml.MappingNode") -> None:
            merged = [value for key, value in node.value if key.tag == _MERGE]
            lists = [value.value if isinstance(value, yaml.SequenceNode) else [value] for value in merged]
            parts = [part for several in lists for part in several if isinstance(part, yaml.MappingNode)]
            for part in {id(part): part for part in parts}.values():
                self.flatten_mapping(part)
            if sum(len(part.value) for part in parts) > _MAX_VALUES:
                reason = f"it merges more than {_MAX_VALUES:,} values"
                raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark)
            super().flatten_mapping(node)

        def construct_scalar(self, node: Any) -> Any:
            value = super().construct_scalar(node)
            if node.tag in _NUMBERS and (len(value) > _MAX_DIGITS or ":" in value):
                reason = (
                    f"a number has at most {_MAX_DIGITS} digits and no colon, got {value[:20]!r}; put a text in quotes"
                )
                raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark)
            return value

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:null", _NONE, list("nN"))
    return Loader
