"""Commands to all workers: changes to a running training, repeated to workers that restart."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recollect.roles import ComponentFactory

if TYPE_CHECKING:
    from recollect.scheme.collection.agent_worker import AgentWorker
    from recollect.scheme.gradients.g_worker import GWorker


class Command:
    """One change on all workers. It must be safe to repeat: workers that restart get it again."""

    @property
    def key(self) -> tuple[object, ...]:
        """What it changes. A later command with the same key replaces this one for workers that restart."""
        return (type(self),)

    def apply_to_agent(self, worker: "AgentWorker") -> None:
        """Change the components of a worker; most commands to gradient workers have nothing to change there."""

    def apply_to_learner(self, worker: "GWorker") -> None:
        """Change a gradient worker: by default the components that it shares, and those of its collectors."""
        worker.col_workers.broadcast(self)


@dataclass(frozen=True)
class _SetParameter(Command):
    name: str
    value: object

    @property
    def key(self) -> tuple[object, ...]:
        return type(self), self.name


class SetAlgorithmParameter(_SetParameter):
    """Change a parameter of the algorithm."""

    def apply_to_agent(self, worker: "AgentWorker") -> None:
        worker.update_algorithm_parameter(self.name, self.value)


class SetStorageParameter(_SetParameter):
    """Change a parameter of the storage."""

    def apply_to_agent(self, worker: "AgentWorker") -> None:
        worker.update_storage_parameter(self.name, self.value)


@dataclass(frozen=True)
class ReplaceComponent(Command):
    """Replace a component by one that `factory` makes, see `CWorker.replace_agent_component`."""

    component: str
    factory: ComponentFactory

    @property
    def key(self) -> tuple[object, ...]:
        return type(self), self.component

    def apply_to_agent(self, worker: "AgentWorker") -> None:
        worker.replace_agent_component(self.component, self.factory)

    def apply_to_learner(self, worker: "GWorker") -> None:
        worker.abandon_stage()
        super().apply_to_learner(worker)


@dataclass(frozen=True)
class SetNumCollectors(Command):
    """Set the number of remote workers that collect for each gradient worker."""

    num_workers: int

    def apply_to_learner(self, worker: "GWorker") -> None:
        worker.set_num_collectors(self.num_workers)


@dataclass(frozen=True)
class BeginJournal(Command):
    """Have gradient workers begin another journal, because the storage is another."""

    number: int

    def apply_to_learner(self, worker: "GWorker") -> None:
        worker.begin_journal(self.number)
