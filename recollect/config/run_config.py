"""`RunConfig`: everything that defines a run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from recollect import keys
from recollect.agent.registry import CALLBACKS, NAME
from recollect.agent.wrapping import name_wrappers
from recollect.checks import check_count
from recollect.config import kinds, layers, presets
from recollect.config.files import Document, read_document, write_document
from recollect.config.parts import (
    ALGO,
    ENV,
    NAMED_PARTS,
    PARTS,
    STORAGE,
    check_options,
    class_of,
    given_name,
    is_on_policy,
    options_of,
    recommended,
)
from recollect.config.trust import check_trust
from recollect.errors import ConfigError
from recollect.options import Options, count, count_or_zero, number, one_of, option, optional

if TYPE_CHECKING:
    from recollect import roles

AUTO: Final = "auto"
# More than any machine steps at once; a file that asks for more would only take its memory.
_MAX_ENVS: Final = 1 << 16
_MAX_THREADS: Final = 1024
NO_PRESET: Final = "none"


def _check_threads(name: str, value: object) -> object:
    """Refuse threads that no machine has: each takes memory, and libraries end the process where there is none."""
    num_threads = check_count(name, value)
    if num_threads > _MAX_THREADS:
        raise ConfigError(f"{name} must be at most {_MAX_THREADS}, got {num_threads}; leave it out for as many as pay")
    return num_threads


def _name_of_device(name: str, value: object) -> object:
    """Turn a torch.device into its name, which files can hold; whether the device exists is checked later."""
    if value is None or isinstance(value, str):
        return value
    import torch

    return str(value) if isinstance(value, torch.device) else value


def _names_of_data(name: str, value: object) -> str | dict[str, str]:
    if isinstance(value, Mapping) and value and all(isinstance(part, str) for part in value):
        return {part: _name_of_data(f"{name}[{part!r}]", place) for part, place in value.items()}
    return _name_of_data(name, value)


def _env_count(name: str, value: object) -> int:
    number = check_count(name, value)
    if number > _MAX_ENVS:
        raise ConfigError(f"{name} must be at most {_MAX_ENVS:,}, got {number:,}; use several workers")
    return number


def _name_of_data(name: str, value: object) -> str:
    if not isinstance(value, (str, PathLike)):
        raise ConfigError(f"{name} must be the path or name of data, got {value!r}")
    return fspath(value)


def _name_wrappers(name: str, value: object) -> list[str | dict[str, Any]]:
    return [] if value is None else name_wrappers(value)


def _name_callbacks(name: str, value: object) -> list[str | dict[str, Any]]:
    for given in value if isinstance(value, (list, tuple)) else [value]:
        if not callable(given) and hasattr(given, "on_step"):
            raise ConfigError(
                f"a config names callbacks, got a {type(given).__name__} that is made already; write "
                f"{{'name': {type(given).__name__!r}, ...}} with its options, or give it to learn(callbacks=[...])"
            )
    return [] if value is None else CALLBACKS.named(value)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Options):
    """Everything that defines a run: the same config gives the same run.

    `recollect list options sac per` shows the options of the parts. An option that is left out has the default of
    the part's own class; `resolve` adds what the name of a storage promises.

    Examples
    --------
    >>> config = resolve("sac", "Pendulum-v1", overrides={"storage.alpha": 0.7, "seed": 3})
    >>> config.storage, config.storage_options["alpha"], config.seed
    ('per', 0.7, 3)
    """

    algo: str
    env: str
    storage: str
    seed: int = option(1, "Seed of everything: weights, environments, exploration, batches.", count_or_zero)
    steps: int = option(20_000, "Environment steps to train for, over all environments together.", count_or_zero)
    data: str | Mapping[str, str] | None = option(
        None,
        "Data to begin with: a run, a snapshot, an .npz file or a Minari dataset; one for each part of a mixed storage "
        "{expert: a.npz, medium: b.npz}.",
        optional(_names_of_data),
    )
    updates: int = option(0, "Updates from the data before anything is collected.", count_or_zero)
    num_envs: int = option(1, "Environments that are stepped together.", _env_count)
    wrappers: Sequence[str | Mapping[str, Any]] = option(
        (), "Wrappers of each environment, innermost first: Gymnasium's by name, or module:Name.", _name_wrappers
    )
    vec: str = option(
        keys.SYNC, "How they are stepped: sync, async (a process each), native or envpool.", one_of(*keys.VEC_KINDS)
    )
    num_test_envs: int = option(10, "Environments that evaluations are spread over.", _env_count)
    max_consecutive_failures: int = option(
        keys.MAX_CONSECUTIVE_FAILURES,
        "Times in a row that an environment may raise an error and be rebuilt; one more ends the run.",
        count_or_zero,
    )
    env_timeout_s: float | None = option(
        None,
        "Seconds after which an environment of --vec async counts as hung and is rebuilt; by default 300.",
        optional(number(0.0, above_low=True)),
    )
    callbacks: Sequence[str | Mapping[str, Any]] = option(
        (), "What runs in the training loop: callbacks by name, such as StopAt, or module:Name.", _name_callbacks
    )
    checkpoint_every: int | None = option(
        None, "Environment steps between checkpoints; none for ten a run.", optional(count)
    )
    checkpoint_minutes: float | None = option(
        None, "Minutes between checkpoints at most; none to count steps alone.", optional(number(0, above_low=True))
    )
    keep_checkpoints: int = option(keys.KEPT_CHECKPOINTS, "How many checkpoints to keep, the newest ones.", count)
    keep_checkpoint_days: float | None = option(
        None,
        "Days after which all but the newest checkpoint are removed; none to keep them.",
        optional(number(0, above_low=True)),
    )
    final_episodes: int = option(100, "Episodes of the evaluation at the end.", count)
    threads: int | None = option(
        None, "Threads of PyTorch; none for as many as pay, which is tried at the start.", optional(_check_threads)
    )
    device: str | None = option(
        None, "Where to compute: cpu, cuda, cuda:1; none for a GPU if there is one.", _name_of_device
    )
    algo_options: Mapping[str, Any] = field(default_factory=dict)
    env_options: Mapping[str, Any] = field(default_factory=dict)
    actor_options: Mapping[str, Any] = field(default_factory=dict)
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    scheme_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.updates and self.data is None:
            raise ConfigError(f"updates={self.updates} before the first env step need data; give --data")
        if not self.steps and not self.updates:
            raise ConfigError("steps must be at least 1, got 0; to learn from data alone give --data and --updates")

    def options(self, part: str) -> dict[str, Any]:
        """Return the options of a part: `"algo"`, `"env"`, `"actor"`, `"storage"` or `"scheme"`."""
        return dict(getattr(self, f"{part}_options"))

    def checkpoints(self) -> dict[str, Any]:
        """Return when checkpoints are written and how long they stay, as `Learner` takes it."""
        names = ("checkpoint_every", "checkpoint_minutes", "keep_checkpoints", "keep_checkpoint_days")
        return {name: getattr(self, name) for name in names}

    def with_defaults(self) -> Self:
        """Return the config with every default spelled out, so that it is complete by itself."""
        complete: dict[str, Any] = {
            f"{part}_options": {**_defaults(part, getattr(self, part, None)), **self.options(part)} for part in PARTS
        }
        return replace(self, **complete)

    def to_document(self) -> Document:
        """Return the config as files have it: every part with its name and options, then the settings."""
        document: Document = {}
        for part in PARTS:
            name = {NAME: getattr(self, part)} if part in NAMED_PARTS else {}
            document[part] = name | self.options(part)
        return document | {name: getattr(self, name) for name in settings()}

    @classmethod
    def from_document(
        cls, document: Document, *, trust: bool = False, given: Collection[str] = (), source: str = "the config"
    ) -> Self:
        """Make a config of what a file has, see `to_document`; names of parts and options are checked.

        Parameters
        ----------
        document : dict
            What the file has.
        trust : bool
            Whether code that it names as `module:Name` may be imported, and what it connects to be connected to.
        given : collection of str
            Code that may be imported in any case, as the caller named it.
        source : str
            Where it is from, for messages.
        """
        check_trust(document, source, trust=trust, given=given)
        parts, values = layers.split(document, settings())
        _check_names(parts)
        parts[STORAGE].setdefault(NAME, layers.default_storage(parts[ALGO][NAME]))
        names = {part: parts[part].pop(NAME) for part in NAMED_PARTS}
        _check_family(names[ALGO], names[STORAGE])
        for part in PARTS:
            check_options(part, names.get(part), parts[part])
        options: dict[str, Any] = {f"{part}_options": parts[part] for part in PARTS}
        return cls(**names, **values, **options)

    def save(self, path: Path | str) -> None:
        """Write the config as a YAML file."""
        write_document(self.to_document(), path)

    @classmethod
    def load(cls, path: Path | str, *, trust: bool = False) -> Self:
        """Read a config from a YAML or TOML file, see `from_document`."""
        return cls.from_document(read_document(path), trust=trust, source=str(path))


def settings() -> dict[str, "Field[Any]"]:
    """Fields of a `RunConfig` that belong to no part, by name; `RunConfig.docs` says what each is for."""
    docs = RunConfig.docs()
    return {entry.name: entry for entry in fields(RunConfig) if docs[entry.name]}


def resolve(
    algo: "str | type[roles.Algorithm] | None" = None,
    env: "str | roles.EnvFunction | None" = None,
    *,
    preset: str = AUTO,
    file: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> RunConfig:
    """Resolve a config from layers: a preset, over it a file, over both the overrides.

    Where a part is exchanged for another one, options that the new one does not have are dropped. A named storage
    does what its name promises unless options say otherwise: `per` has priorities, `ere` a window.

    Parameters
    ----------
    algo, env : str or callable, optional
        Names, `module:Name`, or the class and the function themselves; by default those of the preset or file, and
        without any those of the default preset.
    preset : str
        Name of a preset; "auto", where no file is given, for the one of this algorithm and environment or else
        of the kind of task that its spaces show; or "none".
    file : path, optional
        YAML or TOML, laid out as `RunConfig.to_document` says.
    overrides : mapping, optional
        Values by path: `{"storage": "per", "storage.alpha": 0.6, "seed": 3}`. The part may be left out
        where only one has such an option: `{"alpha": 0.6}`. Classes and functions can be given as such, too.
    trust : bool
        Whether code that the file names may be imported. What the caller names is not asked about.
    """
    algo_name, env_name = given_name(ALGO, algo), given_name(ENV, env)
    named = {part: name for part, name in ((ALGO, algo_name), (ENV, env_name)) if name is not None}
    document = _preset(preset, algo_name, env_name, overrides or {}, has_file=file is not None)
    if file is not None:
        from_file = read_document(file)
        check_trust(from_file, str(file), trust=trust)
        document = layers.overlay(document, from_file, settings())
    document = layers.overlay(document, named, settings())
    _check_names(layers.split(document, settings())[0])
    # The file has been checked, and the rest are the caller's own words.
    config = RunConfig.from_document(layers.override(document, overrides or {}, settings()), trust=True)
    given = config.options(STORAGE)
    return replace(config, storage_options=recommended(config.storage, given, config.num_envs) | given)


def _preset(
    preset: str, algo: str | None, env: str | None, overrides: Mapping[str, Any], *, has_file: bool
) -> Document:
    if preset == NO_PRESET or (preset == AUTO and has_file):
        return {}
    if preset != AUTO:
        return presets.load(preset)
    if algo is None and env is None:
        return presets.load(presets.DEFAULT)
    if (found := presets.find(algo, env)) is not None:
        return presets.load(found)
    return {} if algo is None or env is None else kinds.fitting(algo, env, overrides)


def _defaults(part: str, name: str | None) -> Document:
    """Defaults of a part's options as files have them; what has none follows from the run."""
    known = {option.name: option.default for option in options_of(part, name).values()}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in known.items() if value is not None
    }


def _check_names(parts: Mapping[str, Document]) -> None:
    if NAME in parts[ALGO]:
        class_of(ALGO, parts[ALGO][NAME])
    hints = {ALGO: "e.g. sac; `recollect list algorithms` shows all", ENV: "a Gymnasium id, e.g. Pendulum-v1"}
    for part, hint in hints.items():
        if NAME not in parts[part]:
            raise ConfigError(f"the run needs an {part}, {hint}")


def _check_family(algo: str, storage: str) -> None:
    from recollect.agent.storages import OFF_POLICY_STORAGES, ON_POLICY_STORAGES

    storage_class = class_of(STORAGE, storage)
    on_policy = is_on_policy(algo)
    fitting = [*(ON_POLICY_STORAGES if on_policy else OFF_POLICY_STORAGES)]
    others = OFF_POLICY_STORAGES if on_policy else ON_POLICY_STORAGES
    # A storage that is derived from none of ours says itself what it cannot do.
    if issubclass(storage_class, tuple(others.values())):
        raise ConfigError(f"{algo} cannot learn from the storage {storage!r}; use {' or '.join(fitting)}")
