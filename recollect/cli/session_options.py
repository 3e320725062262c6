"""Options of a run besides its config, kept in its folder so that `resume` does the same."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from recollect.errors import StorageError

_FILE: Final = "session.json"


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """How a run is recorded, which does not change what it learns.

    Attributes
    ----------
    saves_replay : bool
        Whether checkpoints come with the replay.
    wandb_project, wandb_id : str or None
        Project of Weights & Biases that gets the metrics, and the run there.
    """

    saves_replay: bool = True
    wandb_project: str | None = None
    wandb_id: str | None = None

    def write(self, folder: Path) -> None:
        """Keep the options in a run's folder."""
        (folder / _FILE).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the options of a run; runs that were not started by a command have the defaults."""
        path = folder / _FILE
        if not path.is_file():
            return cls()
        try:
            return cls(**json.loads(path.read_bytes()))
        except (TypeError, ValueError) as error:
            raise StorageError(f"{path} cannot be read: {error}; correct the file, or remove it") from error
