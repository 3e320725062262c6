"""The public surface of the storages as one table, and the checks that the code keeps it.

A row gives a class as its documentation does. Documented parameters are the exact prefix of the real
ones, in order, with their defaults, and can be given by position or by name; whatever a method takes
beyond them is keyword-only and optional, so that documented calls never change their meaning.
"""

import importlib
import inspect
import pickle
from abc import ABC
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

import recollect

STORAGES = "recollect.agent.storages"
OFF_POLICY = f"{STORAGES}.off_policy"

# What storages keep of every step, and what those of off-policy algorithms keep beside it.
STEP_TENSORS = (
    "Observation",
    "RecurrentHiddenStates",
    "Done",
    "Action",
    "Reward",
    "IntrinsicReward",
    "NextObservation",
    "NextRecurrentHiddenStates",
    "NextDone",
)
STORAGE_TENSORS = (*STEP_TENSORS, "ActionProbs")


class NoneOrCallable:
    """Stands for a documented default that is an unnamed function: None or any callable will do."""

    def __repr__(self) -> str:
        return "<None or a callable>"


NONE_OR_CALLABLE = NoneOrCallable()


@dataclass(frozen=True, kw_only=True)
class Documented:
    """One class of the public surface, signatures written as a reader of the documents sees them."""

    module: str
    name: str
    constructor: str
    methods: dict[str, str]
    bases: tuple[str, ...] = ()
    classmethods: dict[str, str] = field(default_factory=dict)
    abstract: frozenset[str] = frozenset()
    storage_tensors: tuple[str, ...] | None = None

    def load(self) -> type:
        return getattr(importlib.import_module(self.module), self.name)


PER = "n_step=1, epsilon=0.0, alpha=0.0, beta=1.0, default_error=1000000"
ERE = f"{PER}, eta=1.0, cmin=5000"

# The documents give the abstract before_gradients and after_gradients other parameters than every subclass has. Classes
# may have either form, and the store finds out which.
STORAGE = Documented(
    module=f"{STORAGES}.base",
    name="Storage",
    bases=("abc.ABC",),
    constructor="size, device, actor, algorithm, *args",
    methods={
        "after_gradients": "actor, algo, info, *args",
        "before_gradients": "actor, algo, *args",
        "generate_batches": "num_mini_batch, mini_batch_size, num_epochs=1, *args",
        "get_all_buffer_data": "data_to_cpu=False, *args",
        "init_tensors": "sample, *args",
        "insert_data_slice": "new_data, *args",
        "insert_transition": "sample, *args",
        "reset": "*args",
        "update_storage_parameter": "parameter_name, new_parameter_value, *args",
    },
    classmethods={"create_factory": "size, *args"},
    abstract=frozenset(
        {
            "after_gradients",
            "before_gradients",
            "create_factory",
            "generate_batches",
            "get_all_buffer_data",
            "init_tensors",
            "insert_data_slice",
            "insert_transition",
            "reset",
            "update_storage_parameter",
        }
    ),
)

REPLAY_BUFFER = Documented(
    module=f"{OFF_POLICY}.replay_buffer",
    name="ReplayBuffer",
    bases=(f"{STORAGES}.base.Storage",),
    constructor="size, device, actor, algorithm, envs",
    methods={
        "after_gradients": "batch, info",
        "before_gradients": "",
        "generate_batches": "num_mini_batch, mini_batch_size, num_epochs=1",
        "get_all_buffer_data": "data_to_cpu=False",
        "get_data_slice": "start_pos, end_pos",
        "init_tensors": "sample",
        "insert_data_slice": "new_data",
        "insert_single_tensor_slice": "tensor_storage, tensor_key, tensor_values",
        "insert_transition": "sample",
        "reset": "",
        "update_storage_parameter": "parameter_name, new_parameter_value",
    },
    classmethods={"create_factory": "size"},
    storage_tensors=STORAGE_TENSORS,
)

NSTEP_REPLAY_BUFFER = Documented(
    module=f"{OFF_POLICY}.nstep_buffer",
    name="NStepReplayBuffer",
    bases=(f"{OFF_POLICY}.replay_buffer.ReplayBuffer",),
    constructor="size, device, actor, algorithm, envs, n_step=1",
    methods={
        "generate_batches": "num_mini_batch, mini_batch_size, num_epochs=1",
        "insert_transition": "sample",
        "update_storage_parameter": "parameter_name, new_parameter_value",
    },
    classmethods={"create_factory": "size, n_step=1"},
    storage_tensors=STORAGE_TENSORS,
)

PER_BUFFER = Documented(
    module=f"{OFF_POLICY}.per_buffer",
    name="PERBuffer",
    bases=(f"{OFF_POLICY}.nstep_buffer.NStepReplayBuffer",),
    constructor=f"size, device, actor, algorithm, envs, {PER}",
    methods={
        "after_gradients": "batch, info",
        "before_gradients": "",
        "generate_batches": "num_mini_batch, mini_batch_size, num_epochs=1",
        "get_priority": "error",
        "get_sequence_priority": "sequence_data, eta=0.9",
        "insert_transition": "sample",
    },
    classmethods={"create_factory": f"size, {PER}"},
    storage_tensors=STORAGE_TENSORS,
)

ERE_BUFFER = Documented(
    module=f"{OFF_POLICY}.ere_buffer",
    name="EREBuffer",
    bases=(f"{OFF_POLICY}.per_buffer.PERBuffer",),
    constructor=f"size, device, actor, algorithm, envs, {ERE}",
    methods={
        "after_gradients": "batch, info",
        "generate_batches": "num_mini_batch, mini_batch_size, num_epochs=1",
        "update_eta": "info",
    },
    classmethods={"create_factory": f"size, {ERE}"},
    storage_tensors=STORAGE_TENSORS,
)

HER_BUFFER = Documented(
    module=f"{OFF_POLICY}.her_buffer",
    name="HERBuffer",
    bases=(f"{OFF_POLICY}.ere_buffer.EREBuffer",),
    constructor=f"size, device, actor, algorithm, envs, her_function, {ERE}",
    methods={
        "copy_single_tensor": "key, position",
        "handle_end_of_episode": "",
        "insert_transition": "sample",
    },
    classmethods={"create_factory": f"size, her_function=NONE_OR_CALLABLE, {ERE}"},
    storage_tensors=STORAGE_TENSORS,
)

NSTEP_REPLAY_STORAGE = Documented(
    module=f"{OFF_POLICY}.nstep_replay_storage",
    name="NStepReplayStorage",
    constructor=(
        "observation_space, action_space, device='cpu', storage_size=1000000, num_envs=1, batch_size=256, "
        "num_workers=4, pin_memory=True, n_step=3, discount=0.99, fetch_every=1000, save_snapshot=False"
    ),
    methods={
        "reset": "",
        "add": "observations, actions, rewards, terminateds, truncateds, infos, next_observations",
        "replay_iter": "",
        "sample": "",
        "update": "*args",
    },
)

BUFFERS = (REPLAY_BUFFER, NSTEP_REPLAY_BUFFER, PER_BUFFER, ERE_BUFFER, HER_BUFFER)
CONTRACT = (STORAGE, *BUFFERS, NSTEP_REPLAY_STORAGE)

# What every buffer offers beyond the documents: keyword-only options and the methods for one's own loop.
STORE_OPTIONS = {
    "seed": None,
    "frame_stack": None,
    "backing": "ram",
    "path": None,
    "sequence_length": None,
    "sequence_overlap": None,
}
HER_OPTIONS = {"strategy": "future", "share": 0.8, "compute_reward": None, "compute_terminated": None}
STANDALONE_OPTIONS = {"num_envs": 1, "gamma": 0.99, "device": "cpu"}
METHOD_OPTIONS = {
    "insert_data_slice": {"source": 0, "first_step": None},
    "get_all_buffer_data": {"source": 0},
    "get_data_slice": {"source": 0},
}
OWN_LOOP_METHODS = {
    "add": "obs, action, reward, next_obs, terminated, truncated",
    "sample": "batch_size",
    "update_priorities": "batch, errors",
}

Parameters = tuple[inspect.Parameter, ...]
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
STARRED = inspect.Parameter.VAR_POSITIONAL


def read_parameters(text: str) -> Parameters:
    """Turn a documented parameter list into parameters."""
    function = eval(f"lambda {text}: None", {"NONE_OR_CALLABLE": NONE_OR_CALLABLE})
    return tuple(inspect.signature(function).parameters.values())


def find_parameters(cls: type, name: str) -> Parameters:
    """Parameters of a method or classmethod as a caller gives them, without self or cls."""
    attribute = inspect.getattr_static(cls, name)
    function = attribute.__func__ if isinstance(attribute, classmethod) else attribute
    return tuple(inspect.signature(function).parameters.values())[1:]


def same_default(documented: Any, actual: Any) -> bool:
    if documented is NONE_OR_CALLABLE:
        return actual is None or callable(actual)
    return type(documented) is type(actual) and documented == actual


def differences(documented: Parameters, actual: Parameters, *, abstract: bool = False) -> list[str]:
    """Say where the actual parameters break the documented ones; an abstract method may keep *args."""
    wanted = [parameter for parameter in documented if parameter.kind is POSITIONAL]
    positional = [parameter for parameter in actual if parameter.kind is POSITIONAL]
    found = []
    for parameter in actual:
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            found.append(f"{parameter.name} cannot be given by name")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            found.append(f"{parameter.name} is not documented and has no default")
    if [parameter.name for parameter in positional] != [parameter.name for parameter in wanted]:
        found.append(f"parameters are ({', '.join(map(str, positional))})")
    else:
        found += [
            f"{want.name} has the default {got.default!r}, not {want.default!r}"
            for want, got in zip(wanted, positional, strict=True)
            if not same_default(want.default, got.default)
        ]
    wants_star = any(parameter.kind is STARRED for parameter in documented)
    has_star = any(parameter.kind is STARRED for parameter in actual)
    if wants_star != has_star and not (abstract and has_star):
        found.append("*args is missing" if wants_star else "*args is not documented")
    return found


def documented_signatures(rows: tuple[Documented, ...]) -> Iterator[Any]:
    for row in rows:
        signatures = {"__init__": row.constructor, **row.methods, **row.classmethods}
        for name, text in signatures.items():
            yield pytest.param(row, name, text, id=f"{row.name}.{name}")


def per_class(rows: tuple[Documented, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.name)


@per_class(CONTRACT)
def test_class_is_where_the_documents_put_it(row: Documented) -> None:
    cls = row.load()
    assert inspect.isclass(cls)
    assert (cls.__module__, cls.__qualname__) == (row.module, row.name)


@per_class(CONTRACT)
def test_bases_are_the_documented_ones(row: Documented) -> None:
    bases = {f"{base.__module__}.{base.__qualname__}" for base in row.load().__bases__}
    assert set(row.bases) <= bases


@pytest.mark.parametrize(("row", "name", "text"), list(documented_signatures(CONTRACT)))
def test_signature_starts_with_the_documented_parameters(row: Documented, name: str, text: str) -> None:
    found = differences(read_parameters(text), find_parameters(row.load(), name), abstract=row.name == STORAGE.name)
    assert not found, f"{row.name}.{name}({text}): {'; '.join(found)}"


@per_class(CONTRACT)
def test_classmethods_are_classmethods_and_methods_are_not(row: Documented) -> None:
    cls = row.load()
    kinds = {
        name: isinstance(inspect.getattr_static(cls, name), classmethod) for name in (*row.methods, *row.classmethods)
    }
    assert kinds == {**dict.fromkeys(row.methods, False), **dict.fromkeys(row.classmethods, True)}


@per_class(BUFFERS)
def test_storage_tensors_are_the_documented_ones(row: Documented) -> None:
    assert row.load().storage_tensors == row.storage_tensors


def test_storage_is_abstract_in_exactly_the_documented_methods() -> None:
    cls = STORAGE.load()
    assert issubclass(cls, ABC)
    assert cls.__abstractmethods__ == STORAGE.abstract
    with pytest.raises(TypeError):
        cls(8, "cpu", None, None)


@per_class((*BUFFERS, NSTEP_REPLAY_STORAGE))
def test_concrete_classes_leave_nothing_abstract(row: Documented) -> None:
    assert not inspect.isabstract(row.load())


def keyword_defaults(parameters: Parameters) -> dict[str, Any]:
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


@pytest.mark.parametrize("name", METHOD_OPTIONS)
@per_class(BUFFERS)
def test_keyword_options_of_methods(row: Documented, name: str) -> None:
    assert METHOD_OPTIONS[name].items() <= keyword_defaults(find_parameters(row.load(), name)).items()


@pytest.mark.parametrize("name", ["__init__", "create_factory"])
@per_class(BUFFERS)
def test_every_store_option_is_keyword_only(row: Documented, name: str) -> None:
    parameters = find_parameters(row.load(), name)
    options = STORE_OPTIONS | (HER_OPTIONS if row is HER_BUFFER else {})
    assert options.items() <= keyword_defaults(parameters).items()


@per_class(BUFFERS)
def test_own_loop_surface(row: Documented) -> None:
    cls = row.load()
    assert isinstance(inspect.getattr_static(cls, "standalone"), classmethod)
    assert not differences(read_parameters("size"), find_parameters(cls, "standalone"))
    assert STANDALONE_OPTIONS.items() <= keyword_defaults(find_parameters(cls, "standalone")).items()
    for name, text in OWN_LOOP_METHODS.items():
        assert not differences(read_parameters(text), find_parameters(cls, name)), name


@per_class(BUFFERS)
def test_standalone_takes_the_options_of_the_constructor(row: Documented) -> None:
    options = {"compute_reward": lambda achieved, desired, info: achieved[:, 0]} if row is HER_BUFFER else {}
    storage = row.load().standalone(16, num_envs=2, gamma=0.9, seed=1, sequence_length=4, **options)
    assert type(storage) is row.load()
    assert storage.max_size == 16
    assert len(storage) == 0


@per_class(BUFFERS)
def test_buffer_is_registered_and_exported(row: Documented) -> None:
    registry = importlib.import_module(STORAGES).STORAGES
    assert row.load() in registry.values()
    assert getattr(recollect, row.name) is row.load()


@pytest.fixture
def parts() -> tuple[Any, Any, Any]:
    """The least that a storage asks of an actor, an algorithm and environments."""
    envs = SimpleNamespace(num_envs=2, compute_reward=lambda achieved, desired, info: achieved[:, 0])
    return SimpleNamespace(is_recurrent=False), SimpleNamespace(gamma=0.99), envs


@per_class(BUFFERS)
def test_factory_is_frozen_readable_and_survives_pickling(row: Documented, parts: tuple[Any, Any, Any]) -> None:
    cls = row.load()
    factory = cls.create_factory(16)
    assert row.name in repr(factory)
    with pytest.raises(AttributeError):
        factory.size = 32
    for make in (factory, pickle.loads(pickle.dumps(factory))):
        storage = make("cpu", *parts)
        assert type(storage) is cls
        assert storage.max_size == 16
        assert len(storage) == 0


@per_class(BUFFERS)
def test_factory_hands_every_documented_parameter_on(row: Documented, parts: tuple[Any, Any, Any]) -> None:
    cls = row.load()
    changed = {"n_step": 3, "epsilon": 0.5, "alpha": 0.25, "beta": 0.75, "eta": 0.5, "cmin": 7}
    names = {parameter.name for parameter in read_parameters(row.classmethods["create_factory"])}
    values = {name: value for name, value in changed.items() if name in names}
    storage = cls.create_factory(16, **values)("cpu", *parts)
    assert {name: getattr(storage, name) for name in values} == values


def first(a: int, b: int = 1) -> None: ...
def keyword_only(a: int, *, b: int = 1) -> None: ...
def other_order(b: int, a: int) -> None: ...
def other_default(a: int, b: int = 2) -> None: ...
def other_type(a: int, b: float = 1.0) -> None: ...
def one_more(a: int, b: int = 1, c: int = 2) -> None: ...
def one_more_keyword(a: int, b: int = 1, *, c: int = 2) -> None: ...
def one_more_required(a: int, b: int = 1, *, c: int) -> None: ...
def positional_only(a: int, b: int = 1, /) -> None: ...
def starred(a: int, b: int = 1, *args: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (first, True),
        (one_more_keyword, True),
        (keyword_only, False),
        (other_order, False),
        (other_default, False),
        (other_type, False),
        (one_more, False),
        (one_more_required, False),
        (positional_only, False),
        (starred, False),
    ],
)
def test_the_check_itself_tells_a_kept_signature_from_a_broken_one(function: Callable[..., None], kept: bool) -> None:
    actual = tuple(inspect.signature(function).parameters.values())
    assert (not differences(read_parameters("a, b=1"), actual)) is kept
