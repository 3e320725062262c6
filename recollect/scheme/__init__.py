"""Schemes: which worker collects, computes gradients and applies updates.

Configs and the learner import from here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from recollect.scheme.config import SchemeConfig
    from recollect.scheme.scheme import Scheme

__all__ = ["Scheme", "SchemeConfig"]

# Looked up when first used, so that a command line can tell options without loading PyTorch.
_MODULES: Final = {"Scheme": "recollect.scheme.scheme", "SchemeConfig": "recollect.scheme.config"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'recollect.scheme' has no attribute {name!r}")
