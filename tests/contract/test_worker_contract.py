"""The public surface of the workers as one table, and the checks that the code keeps it.

Documented parameters are the exact prefix of the real ones, in order, with their defaults; a documented
function without a name may be None or any callable, a documented empty list an empty tuple, a documented dict
None.
"""

import importlib
import inspect
from abc import ABC
from typing import Any

import pytest
import torch

from recollect.scheme.base.resources import default_resources
from recollect.scheme.base.worker import Worker
from recollect.scheme.base.worker_set import WorkerSet
from recollect.scheme.collection.c_worker import CWorker
from recollect.scheme.collection.c_worker_set import CWorkerSet
from tests.parts import CountingActor, CountingAlgo, RecordingStorage, ScriptedEnvs
from tests.unit.scheme.building import make_worker

NO_DEFAULT = inspect.Parameter.empty
UNNAMED_FUNCTION = object()
EMPTY_LIST = object()
RESOURCES = object()

CONSTRUCTOR = {
    "index_worker": NO_DEFAULT,
    "index_parent": NO_DEFAULT,
    "algo_factory": NO_DEFAULT,
    "actor_factory": NO_DEFAULT,
    "storage_factory": NO_DEFAULT,
    "fraction_samples": 1.0,
    "compress_data_to_send": False,
    "train_envs_factory": UNNAMED_FUNCTION,
    "test_envs_factory": UNNAMED_FUNCTION,
    "initial_weights": None,
    "device": None,
}
METHODS: dict[str, dict[str, Any]] = {
    "__init__": CONSTRUCTOR,
    "collect_data": {"listen_to": EMPTY_LIST, "data_to_cpu": True},
    "collect_train_data": {"num_steps": None, "listen_to": EMPTY_LIST},
    "evaluate": {},
    "replace_agent_component": {"component_name": NO_DEFAULT, "new_component_factory": NO_DEFAULT},
    "set_weights": {"actor_weights": NO_DEFAULT},
    "stop": {},
    "update_algorithm_parameter": {"parameter_name": NO_DEFAULT, "new_parameter_value": NO_DEFAULT},
    "update_storage_parameter": {"parameter_name": NO_DEFAULT, "new_parameter_value": NO_DEFAULT},
}
ATTRIBUTES = (
    "index_worker",
    "fraction_samples",
    "device",
    "compress_data_to_send",
    "actor",
    "algo",
    "envs_train",
    "envs_test",
    "storage",
    "iter",
    "actor_version",
    "update_every",
    "obs",
    "rhs",
    "done",
)


SET_CONSTRUCTOR = {
    "num_workers": NO_DEFAULT,
    "index_parent": NO_DEFAULT,
    "algo_factory": NO_DEFAULT,
    "actor_factory": NO_DEFAULT,
    "storage_factory": NO_DEFAULT,
    "local_device": None,
    "initial_weights": None,
    "fraction_samples": 1.0,
    "total_parent_workers": 0,
    "compress_data_to_send": False,
    "train_envs_factory": UNNAMED_FUNCTION,
    "test_envs_factory": UNNAMED_FUNCTION,
    "worker_remote_config": RESOURCES,
}
SET_FACTORY = {
    "num_workers": NO_DEFAULT,
    "algo_factory": NO_DEFAULT,
    "actor_factory": NO_DEFAULT,
    "storage_factory": NO_DEFAULT,
    "test_envs_factory": NO_DEFAULT,
    "train_envs_factory": NO_DEFAULT,
    "total_parent_workers": 0,
    "col_fraction_samples": 1.0,
    "compress_data_to_send": False,
    "col_worker_resources": RESOURCES,
}
SIGNATURES: list[tuple[type, str, dict[str, Any]]] = [
    *((CWorker, name, documented) for name, documented in METHODS.items()),
    (CWorkerSet, "__init__", SET_CONSTRUCTOR),
    (CWorkerSet, "create_factory", SET_FACTORY),
]


@pytest.mark.parametrize(
    ("module", "name", "base"),
    [
        ("recollect.scheme.collection.c_worker", "CWorker", Worker),
        ("recollect.scheme.collection.c_worker_set", "CWorkerSet", WorkerSet),
    ],
)
def test_class_is_where_the_documents_put_it(module: str, name: str, base: type) -> None:
    found = getattr(importlib.import_module(module), name)
    assert found.__module__ == module
    assert issubclass(found, base)
    assert not inspect.isabstract(found)


def test_bases_are_where_the_documents_put_them() -> None:
    assert Worker.__module__ == "recollect.scheme.base.worker"
    assert WorkerSet.__module__ == "recollect.scheme.base.worker_set"
    assert issubclass(Worker, ABC)
    assert callable(Worker.as_remote)


@pytest.mark.parametrize(
    ("owner", "name", "documented"), SIGNATURES, ids=[f"{owner.__name__}.{name}" for owner, name, _ in SIGNATURES]
)
def test_signature_starts_with_the_documented_parameters(owner: type, name: str, documented: dict[str, Any]) -> None:
    actual = [each for each in inspect.signature(getattr(owner, name)).parameters.values() if each.name != "self"]
    positional = [parameter for parameter in actual if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert [parameter.name for parameter in positional] == list(documented)
    for parameter in positional:
        assert same_default(documented[parameter.name], parameter.default), parameter
    for parameter in actual[len(positional) :]:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is not NO_DEFAULT


def same_default(documented: Any, actual: Any) -> bool:
    if documented is UNNAMED_FUNCTION:
        return actual is None or callable(actual)
    if documented is EMPTY_LIST:
        return actual in ((), None)
    if documented is RESOURCES:
        return actual is None
    return type(documented) is type(actual) and documented == actual


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute_is_there(name: str) -> None:
    assert getattr(make_worker(), name) is not None


def test_what_was_last_seen_is_tensors() -> None:
    worker = make_worker(is_recurrent=True)
    for _ in range(2):
        assert all(isinstance(value, torch.Tensor) for value in (worker.obs, worker.rhs, worker.done))
        worker.collect_train_data(1)
    assert worker.obs.tolist() == [[0, 0, 2], [1, 0, 2]]


def test_results_have_the_documented_form() -> None:
    worker = make_worker()
    col_time, train_perf = worker.collect_train_data()
    assert isinstance(col_time, float)
    assert isinstance(train_perf, float)
    data, info = worker.collect_data()
    assert all(isinstance(value, torch.Tensor) for value in data.values())
    assert isinstance(info, dict)
    assert isinstance(worker.evaluate(), float)


def make_set() -> CWorkerSet:
    factory = CWorkerSet.create_factory(
        0,
        lambda device, actor, envs: CountingAlgo(actor, envs),
        lambda device: CountingActor(),
        lambda device, actor, algo, envs: RecordingStorage(actor, algo, envs),
        None,
        lambda device, worker, parent: ScriptedEnvs(((3,),)),
        col_fraction_samples=0.5,
    )
    return factory("cpu", None, 0)


@pytest.mark.parametrize("name", ["worker_class", "remote_config", "worker_params", "num_workers"])
def test_attribute_of_a_set_is_there(name: str) -> None:
    assert hasattr(make_set(), name)


def test_attributes_of_a_set_have_the_documented_form() -> None:
    workers = make_set()
    assert workers.worker_class is CWorker
    assert workers.num_workers == 0
    assert workers.worker_params.keys() <= CONSTRUCTOR.keys()
    assert workers.worker_params["fraction_samples"] == 0.5
    assert workers.local_worker().fraction_samples == 0.5
    assert workers.remote_config == default_resources()
    assert workers.remote_config == {
        "memory": 5368709120,
        "num_cpus": 1,
        "num_gpus": 0.2,
        "object_store_memory": 2147483648,
    }


def test_the_resources_of_one_set_are_not_those_of_another() -> None:
    make_set().remote_config["num_cpus"] = 99
    assert make_set().remote_config["num_cpus"] == 1


def test_an_explicit_device_is_used() -> None:
    assert make_set().local_worker().device.type == "cpu"
