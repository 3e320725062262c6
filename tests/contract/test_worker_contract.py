"""The public surface of the workers as one table, and the checks that the code keeps it.

Documented parameters are the exact prefix of the real ones, in order, with their defaults; a documented
function without a name may be None or any callable, a documented empty list an empty tuple.
"""

import importlib
import inspect
from abc import ABC
from typing import Any

import pytest

from recollect.scheme.base.worker import Worker
from recollect.scheme.collection.c_worker import CWorker
from tests.unit.scheme.building import make_worker

NO_DEFAULT = inspect.Parameter.empty
UNNAMED_FUNCTION = object()
EMPTY_LIST = object()

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


def test_class_is_where_the_documents_put_it() -> None:
    module = importlib.import_module("recollect.scheme.collection.c_worker")
    assert module.CWorker.__module__ == module.__name__
    assert CWorker.__bases__ == (Worker,)
    assert Worker.__module__ == "recollect.scheme.base.worker"
    assert issubclass(Worker, ABC)
    assert not inspect.isabstract(CWorker)


@pytest.mark.parametrize("name", METHODS)
def test_signature_starts_with_the_documented_parameters(name: str) -> None:
    actual = list(inspect.signature(getattr(CWorker, name)).parameters.values())[1:]
    documented = METHODS[name]
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
    return type(documented) is type(actual) and documented == actual


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute_is_there(name: str) -> None:
    assert getattr(make_worker(), name) is not None


def test_results_have_the_documented_form() -> None:
    worker = make_worker()
    col_time, train_perf = worker.collect_train_data()
    assert isinstance(col_time, float)
    assert isinstance(train_perf, float)
    data, info = worker.collect_data()
    assert isinstance(data, dict)
    assert isinstance(info, dict)
    assert isinstance(worker.evaluate(), float)
