"""Callbacks that a config names."""

from typing import Any

from recollect.agent.registry import CALLBACKS, found_options, reference_to
from recollect.callbacks.callback import Callback, StepFunction
from recollect.config import RunConfig
from recollect.errors import ConfigError


def named_callbacks(config: RunConfig) -> list[Callback | StepFunction]:
    """Make the callbacks of a config, for one training: classes with their options, functions as they are."""
    return [
        _make(CALLBACKS.find(part) if isinstance(part, str) else part, found_options(options))
        for part, options in CALLBACKS.entries(config.callbacks)
    ]


def _make(part: type[Callback] | StepFunction, options: dict[str, Any]) -> Callback | StepFunction:
    name = reference_to(part)
    if not isinstance(part, type):
        if options:
            raise ConfigError(
                f"the callback {name} is a function of the learner and takes no options, got {options}; write a class "
                "that derives from Callback"
            )
        return part
    try:
        made: Callback = part(**options)
    except TypeError as error:
        raise ConfigError(f"the callback {name} does not take the options {options}: {error}") from error
    return made
