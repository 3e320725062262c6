"""Quantities as people read them."""

from typing import Final

_UNITS_OF_BYTES: Final = ("B", "kB", "MB", "GB", "TB")


def human_bytes(num_bytes: float) -> str:
    """Write a number of bytes in a unit that keeps it short: `104.0 MB`."""
    for unit in _UNITS_OF_BYTES[:-1]:
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == _UNITS_OF_BYTES[0] else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} {_UNITS_OF_BYTES[-1]}"
