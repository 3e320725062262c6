"""What every storage in the registry keeps to: its options are those of its config, wherever they are given."""

import inspect
import pickle
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from recollect import keys
from recollect.agent.storages import OFF_POLICY_STORAGES, STORAGES
from recollect.agent.storages.base_buffer import BaseBuffer

PARTS = ["device", "actor", "algorithm", "envs"]
each_storage = pytest.mark.parametrize("cls", STORAGES.values(), ids=STORAGES)


def make(cls: type[BaseBuffer], **options: Any) -> Any:
    envs = SimpleNamespace(num_envs=2, compute_reward=lambda achieved, desired, info: achieved[:, 0])
    actor = SimpleNamespace(is_recurrent=False)
    return cls.create_factory(16, **options)("cpu", actor, SimpleNamespace(gamma=0.99), envs)


@each_storage
def test_signatures_are_those_of_the_config(cls: type[BaseBuffer]) -> None:
    config = inspect.signature(cls.config_class).parameters
    factory, constructor = inspect.signature(cls.create_factory).parameters, inspect.signature(cls).parameters
    assert dict(factory) == dict(config)
    names = list(constructor)
    assert names[1:5] == PARTS
    assert [name for name in names if name not in PARTS] == list(config)
    defaults = {name: config[name].default for name in names[6:]}
    assert {name: constructor[name].default for name in names[6:]} == defaults


@each_storage
def test_the_factory_is_frozen_readable_and_survives_pickling(cls: type[BaseBuffer]) -> None:
    factory: Any = cls.create_factory(16)
    assert repr(factory) == f"StorageFactory({cls.__name__}, size=16)"
    with pytest.raises(AttributeError):
        factory.config = None
    again = pickle.loads(pickle.dumps(factory))
    assert (again.storage_class, again.config) == (cls, cls.config_class(size=16))


@each_storage
def test_what_is_recommended_is_accepted(cls: type[BaseBuffer]) -> None:
    recommended = cls.config_class.recommended({}, 2)
    storage = make(cls, **recommended)
    assert storage.config == replace(cls.config_class(size=16), **recommended)


@each_storage
def test_options_that_change_keep_to_the_checks_of_the_config(cls: type[BaseBuffer]) -> None:
    storage = make(cls)
    for name in cls.config_class.changing():
        before = storage.config
        with pytest.raises(ValueError, match=name):
            storage.update_storage_parameter(name, "much")
        assert storage.config is before
        storage.update_storage_parameter(name, getattr(before, name))
        assert storage.config == before
    assert list(storage.changed_parameters) == cls.config_class.changing()


@each_storage
def test_every_option_is_explained_and_can_be_read(cls: type[BaseBuffer]) -> None:
    config = make(cls).config
    assert all(config.docs()[entry.name].endswith(".") for entry in fields(config))


@pytest.mark.parametrize("cls", OFF_POLICY_STORAGES.values(), ids=OFF_POLICY_STORAGES)
def test_a_batch_has_the_columns_that_the_class_declares(cls: type[Any]) -> None:
    goals = {name: np.zeros((1, 2), np.float32) for name in ("observation", keys.ACHIEVED_GOAL, keys.DESIRED_GOAL)}
    reward = {"compute_reward": lambda achieved, desired, info: achieved[:, 0]}
    memory = cls.standalone(16, **(reward if "compute_reward" in cls.config_class.docs() else {}))
    for _ in range(6):
        memory.add(goals, np.zeros((1, 1), np.float32), [1.0], goals, [False], [False])
    batch = memory.sample(4)
    assert {key: tuple(batch[key].shape) for key in cls.drawn_keys} == dict.fromkeys(cls.drawn_keys, (4, 1))
    assert batch[keys.IDXS].shape == (4,)
