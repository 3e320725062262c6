"""Libraries that only some need: imported when they are, with an error that names the extra."""

from importlib import import_module
from types import ModuleType

from recollect.errors import ConfigError


def import_extra(module: str, extra: str, what: str) -> ModuleType:
    """Import a library of an optional extra.

    Parameters
    ----------
    module : str
        What to import.
    extra : str
        The extra of `pip install "recollect[extra]"` that brings it.
    what : str
        Who needs it, as the beginning of a sentence: "Exporting to ONNX".
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"{what} needs the extra '{extra}': pip install \"recollect[{extra}]\"") from error
