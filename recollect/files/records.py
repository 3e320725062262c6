"""Records: JSON in a file that says what it is, of which version, and whether it is whole."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from recollect.errors import StorageError
from recollect.files.disk import read_file

MAX_BYTES: Final = 1 << 27
# Counts that int64 holds, sums of a few of them included.
MAX_COUNTED: Final = 1 << 60
# What parsing and picking apart JSON of a stranger may raise.
PARSE_ERRORS: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)


def dump_record(kind: str, version: int, content: Mapping[str, Any]) -> bytes:
    """Two lines of JSON: what it is with a checksum, and the content."""
    try:
        text = json.dumps(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"a {kind} must be JSON: {error}") from error
    head = {"format": kind, "version": version, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return (json.dumps(head) + "\n" + text + "\n").encode()


def load_record(data: bytes, kind: str, version: int, where: Path) -> dict[str, Any]:
    """The content of a record; one that is damaged, of another kind or of another version is refused."""
    first, _, rest = data.partition(b"\n")
    try:
        head = json.loads(first)
        if not isinstance(head, dict) or head.get("format") != kind:
            raise StorageError(f"{where} is no {kind}")
        if head["version"] != version:
            advice = (
                "a newer release wrote it, use that one" if _is_newer(head["version"], version) else "it is too old"
            )
            raise StorageError(f"{where} has the version {head['version']!r}, this release reads {version}; {advice}")
        text = rest.removesuffix(b"\n")
        if hashlib.sha256(text).hexdigest() != head["sha256"]:
            raise StorageError(f"{where} is damaged: its checksum does not fit")
        content = json.loads(text)
    except PARSE_ERRORS as error:
        raise StorageError(f"{where} is damaged: {error!r}") from error
    if not isinstance(content, dict):
        raise StorageError(f"{where} is damaged: it holds no mapping")
    return content


def read_record(path: Path, kind: str, version: int) -> dict[str, Any]:
    """Read a record from a file."""
    try:
        data = read_file(path, MAX_BYTES)
    except OSError as error:
        raise StorageError(f"no {kind} can be read from {path}: {error.strerror}") from error
    return load_record(data, kind, version, path)


def as_whole(value: object, low: int, high: int) -> int:
    """A whole number of a file, from `low` to `high`; a ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"expected a whole number from {low} to {high}, got {value!r}")
    return value


def as_count(value: object) -> int:
    """How often something happened, according to a file; a ValueError for what cannot be counted."""
    return as_whole(value, 0, MAX_COUNTED)


def as_number(value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number of a file, from `low` to `high`; a ValueError otherwise."""
    number = float(as_value(value))
    if not math.isfinite(number) or not low <= number <= high:
        raise ValueError(f"expected a finite number from {low:g} to {high:g}, got {value!r}")
    return number


def as_value(value: object) -> float:
    """A number of a file as it stands, whole ones included, finite or not; a ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, got {value!r}")
    return value


def _is_newer(found: object, version: int) -> bool:
    return isinstance(found, int) and found > version
