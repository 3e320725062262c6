"""Options of every off-policy storage."""

from dataclasses import KW_ONLY, dataclass
from os import PathLike

from recollect.agent.storages.config import StorageConfig
from recollect.agent.storages.experience.store.allocator import Backing
from recollect.agent.storages.experience.store.ring.ring_builder import SequenceShape
from recollect.checks import check_whole
from recollect.errors import ConfigError
from recollect.options import count, option, optional
from recollect.roles import Actor, Algorithm


@dataclass(frozen=True)
class ReplayConfig(StorageConfig):
    """Options of every off-policy storage."""

    _: KW_ONLY
    backing: Backing = option("ram", "Where the data live: ram, shared or file.")
    path: str | PathLike[str] | None = option(
        None, "Folder of a storage whose backing is file, which needs one; it is made if it is not there."
    )
    sequence_length: int | None = option(
        None, "Steps of a recurrent actor's sequences; none for the algorithm's update_every.", optional(count)
    )
    sequence_overlap: int | None = option(
        None,
        "Steps that neighbouring sequences share; none for the actor's sequence_overlap.",
        optional(check_whole),
    )

    def sequence_shape(self, actor: Actor, algorithm: Algorithm) -> SequenceShape | None:
        """Shape of the sequences that a recurrent actor, or the options, ask for; None for single steps."""
        length, overlap = self.sequence_length, self.sequence_overlap
        if length is None and not getattr(actor, "is_recurrent", False):
            if overlap is not None:
                raise ConfigError(
                    f"sequence_overlap={overlap!r} needs sequence_length=, or a recurrent actor: there are no "
                    "sequences that could overlap"
                )
            return None
        if length is None:
            length = count("sequence_length", algorithm.update_every)
        if overlap is None:
            overlap = check_whole("sequence_overlap", getattr(actor, "sequence_overlap", 0))
        return SequenceShape(length, overlap)
