"""Options that storages share, and how a storage's constructor takes the fields of its config."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import wraps
from typing import Any

from recollect.agent.storages.experience.store.schema.planning import FrameStacks, check_frame_stacks
from recollect.checks import check_count, seeded_generator
from recollect.options import Options, about, option

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _check_seed(name: str, value: object) -> object:
    seeded_generator(value)
    return value


def _check_stacks(name: str, value: FrameStacks) -> FrameStacks:
    check_frame_stacks(value)
    return value


@dataclass(frozen=True)
class StorageConfig(Options):
    """Options of every storage. Those above `KW_ONLY` may be given by position, in their order."""

    size: int = field(metadata=about("Capacity along the time axis, for each environment.", check_count))
    _: KW_ONLY
    seed: int | None = option(None, "Seed of the storage's own generator.", _check_seed)
    frame_stack: FrameStacks = option(
        None,
        "Depth of frame stacks in the observation: 4, or (4, -1) with the stacking axis; of dict observations "
        "{pixels: 4}. Frames are then stored once.",
        _check_stacks,
    )

    @classmethod
    def recommended(cls, given: Mapping[str, Any], num_envs: int) -> dict[str, Any]:
        """Values that make a storage do what its name says, for one that is chosen by name.

        The defaults of the promised constructors switch every idea off.

        Parameters
        ----------
        given : mapping
            Options that were given; they win over what is recommended.
        num_envs : int
            Environments that the storage holds the steps of.
        """
        return {}


def spelled_out(method: Callable[..., None], config_class: type[Options]) -> Callable[..., None]:
    """A copy of a method whose signature names the config's fields in place of `*values` and `**given`."""
    method = inspect.unwrap(method)

    @wraps(method)
    def call(*values: object, **given: object) -> None:
        method(*values, **given)

    own = inspect.signature(method).parameters
    named = {name: parameter for name, parameter in own.items() if parameter.kind not in _VARIADIC}
    options = inspect.signature(config_class).parameters
    others = [parameter for name, parameter in options.items() if name not in named]
    call.__signature__ = inspect.Signature([*named.values(), *others])  # type: ignore[attr-defined]
    return call
