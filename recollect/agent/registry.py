"""The algorithms by name, for actors too, which know of no algorithm; each is loaded when it is first asked for."""

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from recollect.errors import ConfigError, closest

if TYPE_CHECKING:
    import gymnasium as gym

    from recollect.agent.algorithms.learning import LearningAlgorithm

_CLASSES: Final = Path(__file__).with_name("algorithms") / "classes.py"


def checked_imports(file: Path) -> dict[str, str]:
    """Names that a source file imports for type checkers alone, each with its module, so that they are listed once."""
    blocks = (node for node in ast.parse(file.read_text()).body if isinstance(node, ast.If))
    lines = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(line.module) for line in lines for alias in line.names if alias.name != "*"}


class Algorithms(Mapping[str, "type[LearningAlgorithm]"]):
    """Classes by name, each loaded when it is first asked for.

    Parameters
    ----------
    modules : dict
        Module of each class, whose last part is the algorithm's name.

    Attributes
    ----------
    modules : dict
        As given.
    """

    def __init__(self, modules: dict[str, str]) -> None:
        self.modules = modules
        self._classes = {module.rpartition(".")[2].replace("_", "-"): name for name, module in modules.items()}

    def __getitem__(self, name: str) -> "type[LearningAlgorithm]":
        class_name = self._classes[name]
        algorithm: type[LearningAlgorithm] = getattr(import_module(self.modules[class_name]), class_name)
        return algorithm

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


ALGORITHMS: Final = Algorithms(checked_imports(_CLASSES))


def find_algorithm(name: str) -> "type[LearningAlgorithm]":
    """Class of the algorithm called `name`, in any case."""
    plain = name.lower()
    if plain not in ALGORITHMS:
        raise ConfigError(f"unknown algorithm {name!r}; {closest(plain, ALGORITHMS)}")
    return ALGORITHMS[plain]


def advice(action_space: "gym.Space[Any]") -> str:
    """Name the algorithms that can act in a space, for those who chose another."""
    able = sorted(name for name, algorithm in ALGORITHMS.items() if isinstance(action_space, algorithm.action_spaces))
    if not able:
        return "No algorithm can; wrap the environment so that its actions are a Box or Discrete."
    *some, last = able
    return f"Use the algorithm {', '.join(some)} or {last}." if some else f"Use the algorithm {last}."
