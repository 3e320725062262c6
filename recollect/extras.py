"""Optional libraries: imported on first use, with an error that names the extra."""

import importlib
from types import ModuleType

from recollect.errors import ConfigError


def the_extra(name: str) -> str:
    """Name an extra in an error, and say how to install it."""
    return f"the extra '{name}': pip install \"recollect[{name}]\""


def import_extra(module: str, extra: str, what: str, otherwise: str = "") -> ModuleType:
    """Import a library of an optional extra.

    Parameters
    ----------
    module : str
        What to import.
    extra : str
        The extra of `pip install "recollect[extra]"` that brings it.
    what : str
        What needs it, as the beginning of a sentence: "Exporting to ONNX needs".
    otherwise : str
        What to do without it, as the end of the sentence.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"{what} {the_extra(extra)}{otherwise}") from error
