"""Config files: YAML and TOML in, YAML out, and the values of a command line."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

from recollect.errors import ConfigError

Document = dict[str, Any]

# YAML 1.1, which PyYAML reads, takes 1e-3 for a text, because it has no dot.
_FLOAT: Final = re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
_NONE: Final = re.compile(r"^[nN]one$")


def read_document(path: Path | str) -> Document:
    """Read a YAML or TOML file that holds one mapping."""
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"there is no config file {str(path)!r}")
    if path.suffix not in (".yaml", ".yml", ".toml"):
        raise ConfigError(f"a config file ends in .yaml, .yml or .toml, got {str(path)!r}")
    document = _read_toml(path) if path.suffix == ".toml" else _read_yaml(path.read_text(), str(path))
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must be a mapping of names to values, got {type(document).__name__}")
    return document


def write_document(document: Document, path: Path | str) -> None:
    """Write a mapping as YAML, in its own order."""
    import yaml

    Path(path).write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


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
        overrides[path.strip()] = parse_value(value)
    return overrides


def _read_toml(path: Path) -> Document:
    try:
        return tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no valid TOML: {error}") from error


def _read_yaml(text: str, source: str) -> Any:
    import yaml

    try:
        return yaml.load(text, _loader())
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is no valid YAML: {' '.join(str(error).split())}") from error


@cache
def _loader() -> Any:
    """PyYAML's safe loader, with floats as people write them and with `none` beside `null`."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:null", _NONE, list("nN"))
    return Loader
