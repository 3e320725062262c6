"""Configs of runs: the parts of an agent and their options, from presets, files and overrides.

Used by runs, the learner, `Agent` and the command line; agents and schemes do not import it.
"""

from recollect.config.build import build
from recollect.config.files import parse_overrides
from recollect.config.run_config import RunConfig, resolve, settings

__all__ = ["RunConfig", "build", "parse_overrides", "resolve", "settings"]
