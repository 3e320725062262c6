"""The public surface of the algorithms as one table, and the checks that the code keeps it.

Documented parameters are the exact prefix of the real ones, in order, with their defaults. The abstract
methods end in `*args`, which lets subclasses take more.
"""

import importlib
import inspect
from abc import ABC
from typing import Any

import pytest

from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.algorithms.base import Algorithm
from tests.contract.test_storage_contract import differences, find_parameters, read_parameters

MODULES = "recollect.agent.algorithms"
METHODS = {
    "acting_step": "obs, rhs, done, deterministic=False, *args",
    "apply_gradients": "gradients=None, *args",
    "compute_gradients": "batch, grads_to_cpu=True, *args",
    "set_weights": "actor_weights, *args",
    "update_algorithm_parameter": "parameter_name, new_parameter_value, *args",
}
PROPERTIES = (
    "gamma",
    "mini_batch_size",
    "num_epochs",
    "num_mini_batch",
    "num_test_episodes",
    "start_steps",
    "test_every",
    "update_every",
)
FUNCTIONS = {
    "bt": "m",
    "btr": "m",
    "gaussian_kl": "mu1, mu2, cov1, cov2",
    "get_gradients": "*nets, grads_to_cpu=False",
    "set_gradients": "*nets, gradients, device",
}
PLACES = {
    "DDQN": f"{MODULES}.off_policy.ddqn",
    "DDPG": f"{MODULES}.off_policy.ddpg",
    "TD3": f"{MODULES}.off_policy.td3",
    "SAC": f"{MODULES}.off_policy.sac",
    "MPO": f"{MODULES}.off_policy.mpo",
    "PPO": f"{MODULES}.on_policy.ppo",
}
CLASSES = [pytest.param(Algorithm, id="Algorithm"), *(pytest.param(cls, id=name) for name, cls in ALGORITHMS.items())]


def test_the_base_is_abstract_in_exactly_what_is_documented() -> None:
    assert issubclass(Algorithm, ABC)
    assert Algorithm.__module__ == f"{MODULES}.base"
    assert Algorithm.__abstractmethods__ == {*METHODS, *PROPERTIES, "create_factory"}
    with pytest.raises(TypeError):
        Algorithm()  # type: ignore[abstract]


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", METHODS)
def test_methods_take_the_documented_parameters(cls: type, name: str) -> None:
    found = differences(read_parameters(METHODS[name]), find_parameters(cls, name))
    assert not found, f"{cls.__name__}.{name}({METHODS[name]}): {'; '.join(found)}"


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", PROPERTIES)
def test_numbers_that_pace_a_run_are_properties(cls: type, name: str) -> None:
    attribute = inspect.getattr_static(cls, name)
    assert isinstance(attribute, property)
    assert attribute.fset is None


@pytest.mark.parametrize("cls", CLASSES)
def test_factories_need_no_parameters(cls: type) -> None:
    assert isinstance(inspect.getattr_static(cls, "create_factory"), classmethod)
    required = [p.name for p in find_parameters(cls, "create_factory") if p.kind is not inspect.Parameter.VAR_KEYWORD]
    assert required == []


@pytest.mark.parametrize("cls", ALGORITHMS.values(), ids=list(ALGORITHMS))
def test_algorithms_leave_nothing_abstract(cls: type) -> None:
    assert issubclass(cls, Algorithm)
    assert not inspect.isabstract(cls)


@pytest.mark.parametrize("name", PLACES)
def test_algorithms_are_where_they_are_looked_for(name: str) -> None:
    cls = getattr(importlib.import_module(PLACES[name]), name)
    assert cls.__module__ == PLACES[name]
    assert cls in ALGORITHMS.values()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_exactly_the_documented_parameters(name: str) -> None:
    function = getattr(importlib.import_module(f"{MODULES}.utils"), name)
    actual: dict[str, Any] = dict(inspect.signature(function).parameters)
    documented = {parameter.name: parameter for parameter in read_parameters(FUNCTIONS[name])}
    assert list(actual) == list(documented)
    for key, parameter in documented.items():
        assert (actual[key].kind, actual[key].default) == (parameter.kind, parameter.default)
