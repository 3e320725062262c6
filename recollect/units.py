"""Units, and the formatting of quantities and lines."""

import re
from typing import Final

MINUTE_S: Final = 60.0
DAY_S: Final = 86_400.0

_UNITS_OF_BYTES: Final = ("B", "kB", "MB", "GB", "TB")
# What stands between the parts of a line.
_BETWEEN: Final = re.compile("(   | · |; )")


def human_bytes(num_bytes: float) -> str:
    """Write a number of bytes in a unit that keeps it short: `104.0 MB`."""
    for unit in _UNITS_OF_BYTES[:-1]:
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == _UNITS_OF_BYTES[0] else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} {_UNITS_OF_BYTES[-1]}"


def folded(line: str, width: int) -> list[str]:
    """A line in as many rows as it takes to show it whole, broken between its parts."""
    first, *others = _BETWEEN.split(line)
    rows = [first]
    for separator, part in zip(others[::2], others[1::2], strict=True):
        if len(rows[-1] + separator + part) > width:
            rows.append(part)
        else:
            rows[-1] += separator + part
    return rows
