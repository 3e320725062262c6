"""`Training`: what those who record or show a run ask of it."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from recollect.scheme.collection.worker.evaluation import Evaluation
    from recollect.scheme.scheme import Scheme


class Training(Protocol):
    """A training under way; `Learner` is one."""

    scheme: "Scheme"
    elapsed_s: float
    last_evaluation: "Evaluation | None"

    @property
    def num_steps(self) -> int: ...
    def done(self) -> bool: ...
    def get_metrics(self) -> dict[str, float]: ...
