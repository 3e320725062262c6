"""What a run is made of: the parts of an agent and their options, from presets, files and overrides."""

from recollect.config.build import build
from recollect.config.files import parse_overrides
from recollect.config.run_config import RunConfig, resolve, settings

__all__ = ["RunConfig", "build", "parse_overrides", "resolve", "settings"]
