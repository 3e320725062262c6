"""Labels of nodes as resources that never run out: workers that select nodes by them are placed like all others."""

from collections.abc import Iterable, Mapping
from typing import Final

_LABEL: Final = "label "
_PLENTY: Final = 1e9


def is_label(name: str) -> bool:
    """Whether a resource stands for a label."""
    return name.startswith(_LABEL)


def labels_as_resources(labels: Mapping[str, str]) -> dict[str, float]:
    """What a node has by its labels."""
    return {f"{_LABEL}{key} {value}": _PLENTY for key, value in labels.items()}


def selector_as_resources(selector: Mapping[str, str]) -> dict[str, float]:
    """What a worker asks for by Ray's `label_selector`: a value, `!value`, `in(a, b)` or `!in(a, b)` for each key."""
    return {f"{_LABEL}{key} {wanted}": 1.0 for key, wanted in selector.items()}


def offered(node: Mapping[str, float], asked: Iterable[str]) -> dict[str, float]:
    """Those of the labels asked for that a node has, however they are asked for.

    Examples
    --------
    >>> node = labels_as_resources({"pool": "collect"})
    >>> sorted(offered(node, ["label pool in(learn, collect)", "label pool !collect", "label zone !in(a, b)"]))
    ['label pool in(learn, collect)', 'label zone !in(a, b)']
    """
    return {name: _PLENTY for name in asked if is_label(name) and _has(node, name)}


def _has(node: Mapping[str, float], name: str) -> bool:
    key, wanted = name.removeprefix(_LABEL).split(" ", 1)
    values = wanted.removeprefix("!")
    if values.startswith("in("):
        values = values[len("in(") :].removesuffix(")")
    has = any(f"{_LABEL}{key} {value.strip()}" in node for value in values.split(","))
    return has != wanted.startswith("!")
