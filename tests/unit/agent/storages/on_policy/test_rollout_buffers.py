"""What both on-policy storages do: room, epochs, early stops, parameters, nested observations, bad input."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import ON_POLICY_STORAGES, GAEBuffer
from recollect.errors import ConfigError, RecollectWarning, SchemaError, StorageError
from tests.unit.agent.storages.on_policy.rollouts import Critic, Sample, World, at, make_actor, rows_by_obs, without

STOP = {keys.ALGORITHM: {keys.EARLY_STOP: 1.0}}


def make(
    name: str = "gae",
    *,
    size: int = 8,
    num_envs: int = 2,
    is_recurrent: bool = False,
    overlap: int = 0,
    **options: Any,
) -> Any:
    factory = ON_POLICY_STORAGES[name].create_factory(size, **{"seed": 0, **options})
    actor = make_actor(is_recurrent=is_recurrent, overlap=overlap)
    return factory("cpu", actor, Critic(), SimpleNamespace(num_envs=num_envs))


def take(num_steps: int, num_envs: int = 2) -> Sample:
    return World(num_envs, np.random.default_rng(0)).take(num_steps)


def filled(name: str = "gae", num_steps: int = 8, **options: Any) -> Any:
    storage = make(name, **options)
    storage.insert_data_slice(take(num_steps))
    storage.before_gradients()
    return storage


def order_of(batches: list[Sample]) -> list[float]:
    return [obs for batch in batches for obs in batch[keys.OBS].flatten().tolist()]


each_storage = pytest.mark.parametrize("name", ON_POLICY_STORAGES)


@each_storage
def test_each_epoch_goes_through_all_steps_in_another_order(name: str) -> None:
    batches = list(filled(name).generate_batches(4, 1, num_epochs=2))
    assert [len(batch[keys.REWARD]) for batch in batches] == [4] * 8
    first, second = order_of(batches[:4]), order_of(batches[4:])
    assert sorted(first) == sorted(second)
    assert len(set(first)) == 16
    assert first != second


def test_shares_differ_by_one_at_most() -> None:
    batches = list(filled(num_steps=5).generate_batches(4, 1))
    assert sorted(len(batch[keys.REWARD]) for batch in batches) == [2, 2, 3, 3]


def test_there_are_no_empty_batches() -> None:
    assert [len(batch[keys.REWARD]) for batch in filled(num_steps=1).generate_batches(4, 1)] == [1, 1]


def test_same_seed_same_order_and_other_seed_another() -> None:
    orders = [order_of(list(filled(seed=seed).generate_batches(2, 1))) for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@each_storage
def test_an_early_stop_ends_this_rollout_only(name: str) -> None:
    storage = filled(name)
    batches = storage.generate_batches(4, 1, num_epochs=3)
    assert storage.after_gradients(next(batches), dict(STOP)) == STOP
    assert list(batches) == []
    assert list(storage.generate_batches(4, 1)) == []
    storage.before_gradients()
    assert len(list(storage.generate_batches(4, 1))) == 4


def test_other_infos_request_no_stop() -> None:
    storage = filled()
    batches = storage.generate_batches(4, 1)
    storage.after_gradients(next(batches), {keys.ALGORITHM: {keys.EARLY_STOP: 0.0}})
    storage.after_gradients(next(batches), {keys.EPISODES: {}})
    assert len(list(batches)) == 2


def test_batches_of_steps_that_were_let_go_end() -> None:
    storage = filled()
    batches = storage.generate_batches(4, 1)
    next(batches)
    storage.reset()
    assert list(batches) == []
    assert len(storage) == 0
    with pytest.raises(StorageError, match="before_gradients"):
        storage.generate_batches(4, 1)


def test_gradients_of_nothing_are_refused() -> None:
    storage = make()
    with pytest.raises(StorageError, match="empty"):
        storage.before_gradients()
    storage.insert_data_slice(take(2))
    storage.reset()
    with pytest.raises(StorageError, match="empty"):
        storage.before_gradients()


def test_overflow_is_refused_before_anything_is_stored() -> None:
    storage = make(size=3)
    steps = take(4)
    with pytest.raises(StorageError, match="no room for 4 more steps: 0 of 3"):
        storage.insert_data_slice(steps)
    for position in range(3):
        storage.insert_transition(at(steps, position))
    with pytest.raises(StorageError, match="call reset"):
        storage.insert_transition(at(steps, 3))
    assert storage.size == 3
    storage.reset()
    storage.insert_transition(at(steps, 3))
    assert storage.size == 1


def test_every_source_has_room_of_its_own() -> None:
    storage = make(size=3)
    worlds = [World(2, np.random.default_rng(source), first_obs=100.0 * source) for source in range(3)]
    for source, world in enumerate(worlds):
        storage.insert_data_slice(world.take(3), source=source)
    storage.before_gradients()
    rows = rows_by_obs(list(storage.generate_batches(1, 1)))
    assert sorted(rows) == sorted(step.obs for world in worlds for lane in world.lanes for step in lane)


def test_a_source_that_joins_takes_the_room_of_one_that_left() -> None:
    storage = make(size=3)
    storage.insert_data_slice(take(3), source="a")
    storage.insert_data_slice(take(3), source="b")
    num_lanes = len(storage.data[keys.REWARD])
    storage.release_source("a")
    storage.reset()
    storage.insert_data_slice(take(3), source="c")
    assert len(storage.data[keys.REWARD]) == num_lanes


def test_a_slice_that_came_before_takes_no_room() -> None:
    storage = make(size=3)
    steps = take(3)
    for _ in range(2):
        storage.insert_data_slice(steps, source="a", first_step=0)
    assert storage.size == 3


def test_truncation_bootstraps_from_the_last_observation_and_termination_from_none() -> None:
    storage = make(num_envs=1, gae_lambda=0.0)
    steps = World(1, np.random.default_rng(0)).take(3)
    steps[keys.NEXT_DONE][:] = True
    steps[keys.NEXT_TERMINATED][:, 0, 0] = [True, False, True]
    steps[keys.CUT][:] = False
    storage.insert_data_slice(steps)
    storage.before_gradients()
    assert storage.algorithm.asked == [steps[keys.NEXT_OBS][1, 0, 0]]


def test_without_next_terminated_every_end_is_terminal() -> None:
    storage = make(num_envs=1)
    steps = World(1, np.random.default_rng(0)).take(2)
    steps[keys.NEXT_DONE][:] = True
    steps[keys.CUT][:] = False
    storage.insert_data_slice(without(steps, keys.NEXT_TERMINATED))
    storage.before_gradients()
    assert storage.algorithm.asked == []


def test_rewards_are_normalised_and_intrinsic_ones_added() -> None:
    storage = make(num_envs=1, gae_lambda=0.0)
    storage.actor.normalise_reward = lambda reward: 10.0 * reward
    steps = World(1, np.random.default_rng(0)).take(1)
    steps[keys.NEXT_DONE][:] = steps[keys.NEXT_TERMINATED][:] = True
    steps[keys.IREWARD] = np.full_like(steps[keys.REWARD], 4.0)
    storage.insert_data_slice(steps)
    storage.before_gradients()
    (batch,) = storage.generate_batches(1, 1)
    assert batch[keys.RETURN].item() == pytest.approx(10.0 * steps[keys.REWARD].item() + 0.5 * 4.0)


def test_parameters_take_effect_on_what_is_stored() -> None:
    storage = filled(gae_lambda=1.0)
    before = rows_by_obs(list(storage.generate_batches(1, 1)))
    storage.update_storage_parameter("gae_lambda", 0.0)
    storage.before_gradients()
    after = rows_by_obs(list(storage.generate_batches(1, 1)))
    assert storage.gae_lambda == 0.0
    assert before.keys() == after.keys()
    assert before != after


@pytest.mark.parametrize(("parameter", "value"), [("rho_bar", 2.0), ("c_bar", 3.0), ("trace_lambda", 0.5)])
def test_parameters_of_vtrace(parameter: str, value: float) -> None:
    storage = make("vtrace")
    storage.update_storage_parameter(parameter, value)
    assert getattr(storage, parameter) == value
    with pytest.raises(ConfigError, match=parameter):
        storage.update_storage_parameter(parameter, -1.0)


def test_room_can_be_changed_while_running() -> None:
    storage = make(size=2)
    storage.insert_data_slice(take(2), source=0)
    storage.insert_data_slice(take(2), source=1)
    storage.update_storage_parameter("max_size", 4)
    storage.insert_data_slice(take(2), source=1)
    assert (storage.max_size, len(storage)) == (4, 12)


@each_storage
def test_unknown_parameter_warns_and_changes_nothing(name: str) -> None:
    with pytest.warns(RecollectWarning, match="did you mean 'sequence_length'"):
        make(name).update_storage_parameter("sequence_lenght", 3)


def test_sequence_length_can_be_changed_while_running() -> None:
    storage = filled(is_recurrent=True, num_steps=8)
    storage.update_storage_parameter("sequence_length", 2)
    storage.before_gradients()
    (batch,) = storage.generate_batches(1, 1)
    assert batch[keys.MASK].shape[1] <= 2


def test_sequences_continue_over_the_ends_of_episodes() -> None:
    storage = make(is_recurrent=True, num_envs=1, sequence_length=8)
    steps = World(1, np.random.default_rng(0)).take(8)
    steps[keys.CUT][:] = False
    steps[keys.NEXT_TERMINATED][:, 0, 0] = steps[keys.NEXT_DONE][:, 0, 0] = np.arange(8) == 3
    steps[keys.DONE][:, 0, 0] = np.isin(np.arange(8), [0, 4])
    steps[keys.NEXT_OBS][[0, 1, 2, 4, 5, 6]] = steps[keys.OBS][[1, 2, 3, 5, 6, 7]]
    storage.insert_data_slice(steps)
    storage.before_gradients()
    (batch,) = storage.generate_batches(1, 1)
    assert batch[keys.MASK].tolist() == [[[1.0]] * 8]


def test_sequences_that_would_only_warm_up_are_refused() -> None:
    for options in ({"overlap": 4}, {"overlap": 3, "sequence_length": 3}):
        with pytest.raises(ConfigError, match="0 <= overlap < length"):
            make(is_recurrent=True, **options)
    storage = make(is_recurrent=True, overlap=3)
    with pytest.raises(ConfigError, match="0 <= overlap < length"):
        storage.update_storage_parameter("sequence_length", 2)
    assert storage.sequence_length is None


@pytest.mark.parametrize("missing", [keys.VALUE, keys.LOG_PROB, keys.RHS, keys.DONE])
def test_a_first_sample_without_what_is_needed_is_refused(missing: str) -> None:
    storage = make(is_recurrent=True)
    steps = without(take(2), missing)
    for insert in (storage.insert_data_slice, storage.insert_transition, storage.init_tensors):
        with pytest.raises(SchemaError, match=f"lacks {missing}"):
            insert(steps)
    assert len(storage) == 0


def test_hidden_states_are_not_needed_without_memory() -> None:
    storage = make()
    storage.insert_data_slice(without(take(2), keys.RHS, keys.DONE))
    storage.before_gradients()
    assert len(list(storage.generate_batches(1, 1))) == 1


def test_nested_observations_stay_nested() -> None:
    storage = make(is_recurrent=True, sequence_length=4)
    storage.algorithm.next_values = lambda batch: batch[keys.NEXT_OBS]["a"]["b"]
    steps = take(4)
    for key in (keys.OBS, keys.NEXT_OBS):
        steps[key] = {"a": {"b": steps[key]}, "image": np.zeros((4, 2, 3, 5), np.uint8)}
    storage.insert_data_slice(steps)
    storage.before_gradients()
    (batch,) = storage.generate_batches(1, 1)
    num_seq, length = batch[keys.MASK].shape[:2]
    assert batch[keys.OBS]["a"]["b"].shape == (num_seq, length, 1)
    assert batch[keys.OBS]["image"].shape == (num_seq, length, 3, 5)
    assert batch[keys.OBS]["image"].dtype == torch.uint8


@pytest.mark.parametrize("options", [{"gae_lambda": 1.5}, {"sequence_length": 0}, {"frame_stack": 0}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        make(**options)


def test_unknown_options_are_refused_with_the_closest() -> None:
    for name, hint in {"sed": "seed", "gae_lamda": "gae_lambda"}.items():
        with pytest.raises(ConfigError, match=f"GAEBuffer has no option '{name}'; did you mean '{hint}'"):
            GAEBuffer.create_factory(8, **{name: 1})
        with pytest.raises(ConfigError, match=f"GAEBuffer has no option '{name}'; did you mean '{hint}'"):
            GAEBuffer(8, "cpu", make_actor(), Critic(), SimpleNamespace(num_envs=1), **{name: 1})


def test_data_can_be_read_back_and_handed_on() -> None:
    storage, copy = filled(num_steps=4), make()
    copy.insert_data_slice(storage.get_all_buffer_data())
    copy.before_gradients()
    found = [rows_by_obs(list(each.generate_batches(1, 1))) for each in (storage, copy)]
    assert found[0] == found[1]
