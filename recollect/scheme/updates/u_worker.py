"""`UWorker`: applies gradients, which paces the training."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from recollect import keys
from recollect.files.records import as_count
from recollect.roles import GradientSource, Info
from recollect.scheme.base.commands import Command
from recollect.scheme.base.worker import Worker

if TYPE_CHECKING:
    from recollect.scheme.gradients.status import Gradient

NUM_RECENT_UPDATES: Final = 100


class UWorker(Worker):
    """Worker that applies gradients.

    Attributes
    ----------
    num_updates : int
        Updates applied.
    recent_updates : deque of dict
        What is known of the latest ones.
    """

    def __init__(self, index_worker: int, gradients: GradientSource) -> None:
        super().__init__(index_worker)
        self.gradients = gradients
        self.num_updates = 0
        self.recent_updates: deque[Info] = deque(maxlen=NUM_RECENT_UPDATES)

    def step(self) -> None:
        """Run one update stage: collect, and update as often as the algorithm says."""
        stage = self.gradients.stage()
        try:
            self.apply(stage)
        finally:
            stage.close()

    def apply(self, stage: Iterable["Gradient"]) -> None:
        """Apply one gradient after the other."""
        gradients = self.gradients
        for values, info, is_applied in stage:
            if not is_applied:
                gradients.algo.apply_gradients(values)
                gradients.col_worker.counts.actor_version += 1
            self.num_updates += 1
            self.recent_updates.append(info)

    def execute(self, command: Command) -> None:
        """Have all workers make a change, and wait until all have."""
        self.gradients.execute(command)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs of updates, the algorithm's optimisers included."""
        return {
            "num_updates": self.num_updates,
            "recent_updates": [_numbers(info) for info in self.recent_updates],
            "algorithm": self.gradients.algo.state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from `state`."""
        self.num_updates = as_count(state["num_updates"])
        self.gradients.algo.load_state(state["algorithm"])
        self.recent_updates = deque(map(_numbers, state["recent_updates"]), maxlen=NUM_RECENT_UPDATES)

    def stop(self) -> None:
        """Stop the workers below."""
        self.gradients.stop()


def _numbers(info: Info) -> dict[str, dict[str, float]]:
    """The numbers that the parts of an update report, without the errors of its batch."""
    return {
        part: {name: float(value) for name, value in values.items() if name != keys.ERRORS}
        for part, values in info.items()
        if part in (keys.ALGORITHM, keys.STORAGE)
    }
