"""Registries of parts by name: built in, registered, from installed packages, or `package.module:Name`."""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, overload

from recollect.errors import ConfigError, closest

if TYPE_CHECKING:
    import gymnasium as gym

    from recollect.agent.actors.config import FeaturesBuilder, MemoryBuilder, NetworkBuilder
    from recollect.agent.algorithms.learning import LearningAlgorithm
    from recollect.agent.storages.base import Storage
    from recollect.agent.storages.base_buffer import BaseBuffer
    from recollect.callbacks import Callback, StepFunction
    from recollect.roles import EnvFunction, EnvWrapper

Kind = Literal["algorithm", "storage", "features", "memory", "head", "env", "wrapper", "callback", "function"]
PartT = TypeVar("PartT")

# Begins the name of a part that configs can tell but no process can import.
NOT_IMPORTABLE: Final = "not importable: "
_MAIN: Final = "__main__"
# Entry of a part that says which one it is; all others are its options.
NAME: Final = "name"
_REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w./-]*")
_NAME: Final = re.compile(r"[A-Za-z_][\w./-]*")


def is_reference(name: str) -> bool:
    """Whether a text is `package.module:Name`, which leads to code, or `package.module:Id` of an environment."""
    return _REFERENCE.fullmatch(name) is not None


def reference_to(part: object) -> str:
    """`module:Name` of a class or function; of one that no other process can import, what it is."""
    if not hasattr(part, "__qualname__"):  # an object that is called, such as a partial
        inner = getattr(part, "func", type(part))
        return f"{NOT_IMPORTABLE}{type(part).__name__} of {inner.__module__}:{inner.__qualname__}"
    module, name = part.__module__, part.__qualname__
    found: object = sys.modules.get(module)
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    return f"{'' if found is part and module != _MAIN else NOT_IMPORTABLE}{module}:{name}"


def title_of(name: str) -> str:
    """A part's name without the module that it is from."""
    return name.rpartition(":")[2]


class Registry(Mapping[str, PartT]):
    """Parts of one kind by name, each loaded when it is first asked for.

    Iteration gives the names of those that are built in, registered or of installed packages.

    Parameters
    ----------
    kind : str
        What they are.
    group : str
        Group of the entry points by which packages bring theirs.
    built_in : mapping or callable
        Where each of ours is, as `module:Name`, or what tells so when it is first asked.
    """

    def __init__(self, kind: str, group: str, built_in: Mapping[str, str] | Callable[[], Mapping[str, str]]) -> None:
        self.kind = kind
        self.group = f"recollect.{group}"
        self._built_in_or_function = built_in
        self._registered: dict[str, PartT | str] = {}
        # What the caller gave as such, or named, by its reference.
        self._given: dict[str, PartT | str] = {}

    def register(self, name: str, part: PartT | str) -> None:
        """Let a part, or that at `module:Name`, be found by a name."""
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise ConfigError(f"the name of a part is a word such as 'my-{self.kind}', got {name!r}")
        if not callable(part) and not (isinstance(part, str) and is_reference(part)):
            raise ConfigError(f"register a class, a function or its 'module:Name' as {name!r}, got {part!r}")
        if name in self.built_in:
            raise ConfigError(f"{self.kind} {name!r} is built in; register yours under another name")
        self._registered[name] = part

    def find(self, name: str) -> PartT:
        """The part that goes by a name, in any case, or the one at `module:Name`.

        A reference is imported: whether the one who named it may have that done is for the caller to decide.
        """
        known = self.spelled(name)
        if known in self:
            return self[known]
        if is_reference(name):
            return self._load(name)
        if name.startswith(NOT_IMPORTABLE):
            raise ConfigError(
                f"the {self.kind} was {name.removeprefix(NOT_IMPORTABLE)}, which cannot be imported; "
                "give it again from Python, or move it to a module"
            )
        are = "are" if self.kind.endswith("s") else "is"
        module, _, path = name.rpartition(".")
        hint = f"did you mean '{module}:{path}'?" if is_reference(f"{module}:{path}") else closest(known.lower(), self)
        raise ConfigError(f"there {are} no {self.kind} {name!r}; {hint}")

    def spelled(self, name: str) -> str:
        """A name as it is registered, whatever its case; one that is not known, as it is."""
        if not isinstance(name, str):
            raise ConfigError(f"{self.kind} must be a name or 'module:Name', got {name!r}")
        if name in self or is_reference(name):
            return name
        return next((known for known in self if known.lower() == name.lower()), name)

    def name_of(self, part: PartT | str) -> str:
        """Name under which configs keep a part that the caller gives, as such or by name; it is known from then on."""
        if isinstance(part, str):
            if is_reference(part):
                self._given.setdefault(part, part)
            return self.spelled(part)
        if not callable(part):
            raise ConfigError(f"{self.kind} must be a name, 'module:Name', a class or a function, got {part!r}")
        reference = reference_to(part)
        for name, place in {**self.built_in, **self._registered}.items():
            if place is part or (_ends_like(place, part) and self[name] is part):
                return name
        # Classes that are defined again, and functions in functions, are others by the same name.
        names = chain([reference], (f"{reference} #{number}" for number in count(2)))
        name = next(name for name in names if (place := self._given.get(name, part)) is part or place == name)
        self._given[name] = part
        return name

    def entries(self, given: object) -> Iterator[tuple[PartT | str, dict[str, Any]]]:
        """Parts as a caller lists them, each with its options.

        Parameters
        ----------
        given : list
            Of names, classes or functions, or mappings of a `name` (any of these) and options. One alone needs no list.
        """
        for entry in given if isinstance(given, (list, tuple)) else [given]:
            options = dict(entry) if isinstance(entry, Mapping) else {NAME: entry}
            part = options.pop(NAME, None)
            if not isinstance(part, str) and not callable(part):
                raise ConfigError(
                    f"a {self.kind} is a name, 'module:Name', a class, a function, or a mapping of its name and "
                    f"options, got {entry!r}"
                )
            yield part, options

    def named(self, given: object) -> list[str | dict[str, Any]]:
        """The same as configs keep them: names, each with its options where there are any."""
        entries = ((self.name_of(part), _named_options(options)) for part, options in self.entries(given))
        return [{NAME: name, **options} if options else name for name, options in entries]

    def check(self, option: str, value: object) -> Any:
        """Check an option that is such a part; None is none.

        What is not built in is looked up now, so that processes that the option is sent to need not know its name.
        """
        if value is None or callable(value):
            return value
        if not isinstance(value, str):
            raise ConfigError(f"{option} must be a name, 'module:Name', a class or a function, got {value!r}")
        name = self.spelled(value)
        return name if name in self.built_in else self.find(value)

    @cached_property
    def built_in(self) -> Mapping[str, str]:
        """Where each of the built-in ones is."""
        known = self._built_in_or_function
        return known() if callable(known) else known

    @cached_property
    def _installed(self) -> Mapping[str, str]:
        from importlib.metadata import entry_points  # late: most runs ask for none

        return {point.name: point.value for point in entry_points(group=self.group)}

    def _load(self, reference: str) -> PartT:
        module, _, path = reference.partition(":")
        try:
            found: Any = import_module(module)
        except ImportError as error:
            raise ConfigError(f"{self.kind} {reference!r} cannot be imported: {error}") from error
        for attribute in path.split("."):
            if not hasattr(found, attribute):
                raise ConfigError(
                    f"{self.kind} {reference!r} is not there; {closest(attribute, _public(found), 'see ' + module)}"
                )
            found = getattr(found, attribute)
        if not callable(found):
            raise ConfigError(f"{self.kind} {reference!r} must be a class or a function, got {found!r}")
        part: PartT = found
        return part

    def __getitem__(self, name: str) -> PartT:
        for places in (self.built_in, self._registered, self._given, self._installed):
            if name in places:
                place = places[name]
                return self._load(place) if isinstance(place, str) else place
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(name in places for places in (self.built_in, self._registered, self._given, self._installed))

    def __iter__(self) -> Iterator[str]:
        return iter({**self.built_in, **self._registered, **self._installed})

    def __len__(self) -> int:
        return len(list(iter(self)))


def _named_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a listed part as configs keep them: classes and functions by their names."""
    return {name: FUNCTIONS.name_of(value) if callable(value) else value for name, value in options.items()}


def found_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same as the part takes them: what a text names as `module:Name` is the class or function itself."""
    return {name: FUNCTIONS.find(value) if _names_code(value) else value for name, value in options.items()}


def _names_code(value: object) -> bool:
    return isinstance(value, str) and (is_reference(value) or value.startswith(NOT_IMPORTABLE))


def _ends_like(place: object, part: object) -> bool:
    """Whether a place may be that of a part; packages also offer parts under other modules than their own."""
    return isinstance(place, str) and place.rpartition(":")[2] == getattr(part, "__qualname__", None)


def _public(found: object) -> list[str]:
    return [name for name in dir(found) if not name.startswith("_")]


def checked_imports(file: Path) -> dict[str, str]:
    """Names that a source file imports for type checkers alone, each with its module, so that they are listed once."""
    blocks = (node for node in ast.parse(file.read_text()).body if isinstance(node, ast.If))
    lines = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(line.module) for line in lines for alias in line.names if alias.name != "*"}


def _gymnasium_wrappers() -> Mapping[str, str]:
    from gymnasium import wrappers

    return {name: f"{wrappers.__name__}:{name}" for name in wrappers.__all__ if name != "vector"}


def _by_module(classes: Mapping[str, str], suffix: str = "") -> dict[str, str]:
    """Places of classes, which go by the names of their modules without a suffix."""
    return {
        path.rpartition(".")[2].removesuffix(suffix).replace("_", "-"): f"{path}:{name}"
        for name, path in classes.items()
    }


_NETWORKS: Final = "recollect.agent.actors.networks"
ALGORITHM_MODULES: Final = checked_imports(Path(__file__).with_name("algorithms") / "classes.py")
STORAGE_MODULES: Final = checked_imports(Path(__file__).with_name("storages") / "classes.py")
ALGORITHMS: Final["Registry[type[LearningAlgorithm]]"] = Registry(
    "algorithm", "algorithms", _by_module(ALGORITHM_MODULES)
)
_BEST_KNOWN: Final = ("ddqn", "ddpg", "td3", "sac", "sac-discrete", "mpo", "ppo")
# `NStepReplayStorage` is made from spaces instead of factories, and so goes by no name.
STORAGES: Final["Registry[type[BaseBuffer]]"] = Registry("storage", "storages", _by_module(STORAGE_MODULES, "_buffer"))
FEATURES: Final["Registry[FeaturesBuilder]"] = Registry(
    "features",
    "features",
    {
        "auto": f"{_NETWORKS}.features.builders:build_features",
        "impala": f"{_NETWORKS}.features.builders:build_impala_features",
        "data-efficient": f"{_NETWORKS}.features.builders:build_data_efficient_features",
        "flat": f"{_NETWORKS}.features.builders:build_flat_features",
    },
)
MEMORIES: Final["Registry[MemoryBuilder]"] = Registry(
    "memory", "memories", {"gru": f"{_NETWORKS}.memory:GRUMemory", "lstm": f"{_NETWORKS}.memory:LSTMMemory"}
)
HEADS: Final["Registry[NetworkBuilder]"] = Registry("head", "heads", {})
# Ids of Gymnasium are not listed here: it has a registry of its own.
ENVS: Final["Registry[EnvFunction]"] = Registry("env", "envs", {})
WRAPPERS: Final["Registry[EnvWrapper]"] = Registry("wrapper", "wrappers", _gymnasium_wrappers)
CALLBACKS: Final["Registry[type[Callback] | StepFunction]"] = Registry(
    "callback",
    "callbacks",
    {
        name: f"recollect.callbacks:{name}"
        for name in ("StopAt", "StopWithoutImprovement", "KeepBest", "SaveEvery", "Schedule", "RecordVideo")
    },
)
FUNCTIONS: Final["Registry[Callable[..., Any]]"] = Registry("function", "functions", {})

REGISTRIES: Final[Mapping[str, Registry[Any]]] = {
    registry.kind: registry
    for registry in (ALGORITHMS, STORAGES, FEATURES, MEMORIES, HEADS, ENVS, WRAPPERS, CALLBACKS, FUNCTIONS)
}


@overload
def register(kind: Literal["algorithm"], name: str, part: "type[LearningAlgorithm] | str") -> None: ...
@overload
def register(kind: Literal["storage"], name: str, part: "type[Storage] | type[BaseBuffer] | str") -> None: ...
@overload
def register(kind: Literal["features"], name: str, part: "FeaturesBuilder | str") -> None: ...
@overload
def register(kind: Literal["memory"], name: str, part: "MemoryBuilder | str") -> None: ...
@overload
def register(kind: Literal["head"], name: str, part: "NetworkBuilder | str") -> None: ...
@overload
def register(kind: Literal["env"], name: str, part: "EnvFunction | str") -> None: ...
@overload
def register(kind: Literal["wrapper"], name: str, part: "EnvWrapper | str") -> None: ...
@overload
def register(kind: Literal["callback"], name: str, part: "type[Callback] | StepFunction | str") -> None: ...
@overload
def register(kind: Literal["function"], name: str, part: Callable[..., Any] | str) -> None: ...
def register(kind: Kind, name: str, part: object) -> None:
    """Let a part of your own be found by a name, wherever a built-in one is: in Python, configs, the command line.

    Parameters
    ----------
    kind : {"algorithm", "storage", "features", "memory", "head", "env", "wrapper", "callback", "function"}
        What it is.
    name : str
        How to call it.
    part : type, callable or str
        The class or function, or `"package.module:Name"`, which is imported when it is first asked for.

    Examples
    --------
    >>> register("features", "my-net", "my_networks:Transformer")
    """
    if kind not in REGISTRIES:
        raise ConfigError(f"there is no kind of part {kind!r}; {closest(str(kind), get_args(Kind))}")
    REGISTRIES[kind].register(name, part)


def advice(action_space: "gym.Space[Any]") -> str:
    """Name the algorithms that can act in a space, for those who chose another: the best known, not all."""
    able = sorted(name for name in _BEST_KNOWN if isinstance(action_space, ALGORITHMS[name].action_spaces))
    if not able:
        return "No algorithm can; wrap the environment so that its actions are a Box or Discrete."
    *some, last = able
    return f"Use the algorithm {', '.join(some)} or {last}." if some else f"Use the algorithm {last}."
