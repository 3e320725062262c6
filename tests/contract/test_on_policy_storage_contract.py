"""The public surface of the on-policy storages, checked as that of the others is."""

import importlib
import inspect
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contract.test_storage_contract import (
    METHOD_OPTIONS,
    STEP_TENSORS,
    STORAGE,
    STORAGES,
    Documented,
    differences,
    documented_signatures,
    find_parameters,
    keyword_defaults,
    per_class,
    read_parameters,
)

ON_POLICY = f"{STORAGES}.on_policy"
VTRACE = "rho_bar=1.0, c_bar=1.0, trace_lambda=1.0"
STORAGE_TENSORS = (*STEP_TENSORS, "Value", "LogProb")

METHODS = {name: text.removesuffix("*args").removesuffix(", ") for name, text in STORAGE.methods.items()}
METHODS |= {"after_gradients": "batch, info", "before_gradients": ""}
METHODS["generate_batches"] += ", shuffle=True"

GAE_BUFFER = Documented(
    module=f"{ON_POLICY}.gae_buffer",
    name="GAEBuffer",
    constructor="size, device, actor, algorithm, envs, gae_lambda=0.95",
    methods=METHODS,
    classmethods={"create_factory": "size, gae_lambda=0.95"},
    storage_tensors=STORAGE_TENSORS,
)
VTRACE_BUFFER = Documented(
    module=f"{ON_POLICY}.vtrace_buffer",
    name="VTraceBuffer",
    constructor=f"size, device, actor, algorithm, envs, {VTRACE}",
    methods=METHODS,
    classmethods={"create_factory": f"size, {VTRACE}"},
    storage_tensors=STORAGE_TENSORS,
)
BUFFERS = (GAE_BUFFER, VTRACE_BUFFER)
OPTIONS = {"seed": None, "frame_stack": None, "sequence_length": None}
PARAMETERS = {"gae_lambda": 0.5, "rho_bar": 2.0, "c_bar": 3.0, "trace_lambda": 0.25}


@pytest.fixture
def parts() -> tuple[Any, Any, Any]:
    """The least that a storage asks of an actor, an algorithm and environments."""
    return SimpleNamespace(is_recurrent=False), SimpleNamespace(gamma=0.99), SimpleNamespace(num_envs=2)


@per_class(BUFFERS)
def test_buffer_is_a_storage_where_it_belongs(row: Documented) -> None:
    cls = row.load()
    assert (cls.__module__, cls.__qualname__) == (row.module, row.name)
    assert issubclass(cls, STORAGE.load())
    assert not inspect.isabstract(cls)
    assert cls.storage_tensors == row.storage_tensors


@pytest.mark.parametrize(("row", "name", "text"), list(documented_signatures(BUFFERS)))
def test_signature_starts_with_the_documented_parameters(row: Documented, name: str, text: str) -> None:
    found = differences(read_parameters(text), find_parameters(row.load(), name))
    assert not found, f"{row.name}.{name}({text}): {'; '.join(found)}"


@pytest.mark.parametrize("name", ["insert_data_slice", "get_all_buffer_data", "get_data_slice"])
@per_class(BUFFERS)
def test_keyword_options_of_methods(row: Documented, name: str) -> None:
    assert METHOD_OPTIONS[name].items() <= keyword_defaults(find_parameters(row.load(), name)).items()


@pytest.mark.parametrize("name", ["__init__", "create_factory"])
@per_class(BUFFERS)
def test_options_are_taken_by_keyword(row: Documented, name: str) -> None:
    assert OPTIONS.items() <= keyword_defaults(find_parameters(row.load(), name)).items()


@per_class(BUFFERS)
def test_buffer_is_registered_in_its_family(row: Documented) -> None:
    storages = importlib.import_module(STORAGES)
    assert row.load() in storages.ON_POLICY_STORAGES.values()
    assert row.load() not in storages.OFF_POLICY_STORAGES.values()
    assert storages.STORAGES == {**storages.OFF_POLICY_STORAGES, **storages.ON_POLICY_STORAGES}
    assert getattr(storages, row.name) is row.load()


@per_class(BUFFERS)
def test_factory_is_frozen_readable_and_survives_pickling(row: Documented, parts: tuple[Any, Any, Any]) -> None:
    cls = row.load()
    names = [parameter.name for parameter in read_parameters(row.classmethods["create_factory"])]
    values = {name: PARAMETERS[name] for name in names if name in PARAMETERS}
    factory = cls.create_factory(16, **values, seed=3, sequence_length=4)
    assert row.name in repr(factory)
    with pytest.raises(AttributeError):
        factory.size = 32
    for make in (factory, pickle.loads(pickle.dumps(factory))):
        storage = make("cpu", *parts)
        assert type(storage) is cls
        assert (storage.max_size, len(storage), storage.sequence_length) == (16, 0, 4)
        assert {name: getattr(storage, name) for name in values} == values
