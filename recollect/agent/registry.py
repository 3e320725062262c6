"""Algorithms and storages by name. Actors find algorithms here, of which they know nothing else."""

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from recollect.errors import ConfigError, closest

if TYPE_CHECKING:
    import gymnasium as gym

    from recollect.agent.algorithms.learning import LearningAlgorithm


PartT = TypeVar("PartT")


def checked_imports(file: Path) -> dict[str, str]:
    """Names that a source file imports for type checkers alone, each with its module, so that they are listed once."""
    blocks = (node for node in ast.parse(file.read_text()).body if isinstance(node, ast.If))
    lines = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(line.module) for line in lines for alias in line.names if alias.name != "*"}


class Registry(Mapping[str, PartT]):
    """Classes of one kind by name, each loaded when it is first asked for.

    Parameters
    ----------
    kind : str
        What they are, for messages.
    places : mapping
        Where each is, as `module:Name`.
    """

    def __init__(self, kind: str, places: Mapping[str, str]) -> None:
        self.kind = kind
        self._places = places

    def find(self, name: str) -> PartT:
        """The class called `name`, in any case."""
        plain = name.lower()
        if plain not in self:
            raise ConfigError(f"there is no {self.kind} {name!r}; {closest(plain, self)}")
        return self[plain]

    def __getitem__(self, name: str) -> PartT:
        module, _, attribute = self._places[name].partition(":")
        part: PartT = getattr(import_module(module), attribute)
        return part

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


ALGORITHM_MODULES: Final = checked_imports(Path(__file__).with_name("algorithms") / "classes.py")
ALGORITHMS: Final["Registry[type[LearningAlgorithm]]"] = Registry(
    "algorithm",
    # An algorithm goes by the name of its module.
    {path.rpartition(".")[2].replace("_", "-"): f"{path}:{name}" for name, path in ALGORITHM_MODULES.items()},
)


def advice(action_space: "gym.Space[Any]") -> str:
    """Name the algorithms that can act in a space, for those who chose another."""
    able = sorted(name for name, algorithm in ALGORITHMS.items() if isinstance(action_space, algorithm.action_spaces))
    if not able:
        return "No algorithm can; wrap the environment so that its actions are a Box or Discrete."
    *some, last = able
    return f"Use the algorithm {', '.join(some)} or {last}." if some else f"Use the algorithm {last}."
