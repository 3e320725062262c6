"""What a checkpoint holds of an agent: the weights of its actor and the state of its training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import torch
from safetensors.torch import save

from recollect.errors import NotFiniteError, StorageError
from recollect.roles import Actor
from recollect.runs.checkpointing.state_files import CapturedState, copy_tensors, read_state

ACTOR_FILE: Final = "actor.safetensors"
_STATE: Final = "state"


class CapturedAgent(NamedTuple):
    """Weights of an actor and the state of its training at one moment, copied."""

    weights: dict[str, torch.Tensor]
    state: CapturedState

    @classmethod
    def of(cls, actor: Actor, state: Mapping[str, Any]) -> Self:
        """Copy both.

        Parameters
        ----------
        actor : Actor
            Whose weights to write; they must be finite.
        state : dict
            Tensors and plain values, nested; tensors must be finite, too.
        """
        weights = actor.state_dict()
        check_finite("actor", weights)
        check_finite("state", state)
        return cls(copy_tensors(weights), CapturedState.of(state))

    def dump(self) -> dict[str, bytes]:
        """The files of a checkpoint by name."""
        return {ACTOR_FILE: save(self.weights), **self.state.dump(_STATE)}


def read_checkpoint(path: Path, actor: Actor) -> dict[str, Any]:
    """Load the weights of a checkpoint into `actor` and return the rest of its state."""
    state = read_state(path, _STATE)
    if not isinstance(state, dict):
        raise StorageError(f"{path} is damaged: its state is no mapping")
    actor.load(path / ACTOR_FILE)
    return state


def check_finite(owner: str, values: Mapping[str, Any]) -> None:
    """Refuse tensors that are NaN or infinite: no training could resume from them."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            check_finite(owner, value)
        elif isinstance(value, torch.Tensor) and value.is_floating_point() and not torch.isfinite(value).all():
            raise NotFiniteError(f"{name} of the {owner} is NaN or infinite, so no checkpoint was written")
