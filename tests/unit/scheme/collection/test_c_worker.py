"""Collector stores what happened, and nothing else; components can be exchanged; words end it early."""

from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.errors import ConfigError, WorkerError
from recollect.scheme.collection.c_worker import CWorker
from tests.parts import CountingActor, CountingAlgo, RecordingStorage, ScriptedEnvs
from tests.unit.scheme.building import make_worker


def column(worker: Any, key: str) -> np.ndarray:
    return np.stack([np.asarray(sample[key]) for sample in worker.storage.samples])  # [time, num_envs, ...]


def test_steps_are_stored_as_they_happened() -> None:
    worker = make_worker(((3,), (5,)))
    worker.collect_train_data(4)
    obs, next_obs = column(worker, keys.OBS), column(worker, keys.NEXT_OBS)
    assert obs[:, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0]]
    assert next_obs[:, 0].tolist() == [[0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 1, 1]]
    assert column(worker, keys.REWARD)[:, 0, 0].tolist() == [1, 2, 3, 1]
    assert column(worker, keys.ACTION)[:, :, 0].tolist() == [[1, 1], [2, 2], [3, 3], [4, 4]]
    assert np.concatenate(worker.envs_train.actions)[:, 0].tolist() == [10, 10, 20, 20, 30, 30, 40, 40]


def test_flags_say_where_episodes_begin_and_how_they_end() -> None:
    worker = make_worker(((2,), (3,)))
    worker.collect_train_data(5)
    assert column(worker, keys.DONE)[:, :, 0].T.tolist() == [[1, 0, 1, 0, 1], [1, 0, 0, 1, 0]]
    assert column(worker, keys.NEXT_DONE)[:, :, 0].T.tolist() == [[0, 1, 0, 1, 0], [0, 0, 1, 0, 0]]
    assert column(worker, keys.NEXT_TERMINATED)[:, :, 0].T.tolist() == [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]
    assert not {keys.SKIP, keys.CUT, keys.RHS} & set(worker.storage.samples[0])


def test_the_first_steps_are_random_over_all_envs_together() -> None:
    worker = make_worker(start_steps=5)
    worker.collect_train_data(4)
    assert column(worker, keys.ACTION)[:, 0, 0].tolist() == [-1, -1, -1, 1]
    assert worker.num_steps == 8


def test_exploration_follows_the_steps_of_the_whole_run() -> None:
    worker = make_worker(start_steps=10)
    acted = []
    for num_run_steps in (8, 30, 30, 34):
        worker.acting.follow_run(num_run_steps)
        acted.append(worker.algo.num_acted)
    assert acted == [0, 20, 20, 24]


def test_a_memory_runs_on_while_actions_are_random() -> None:
    worker = make_worker(((3,), (9,)), is_recurrent=True, start_steps=6)
    worker.collect_train_data(5)
    assert column(worker, keys.ACTION)[:, 0, 0].tolist() == [-1, -1, -1, 1, 2]
    assert worker.algo.num_acted == 2
    # The state before each step; it is the memory that forgets where `Done` says so.
    assert column(worker, keys.RHS)[:, 1, 0].tolist() == [0, 1, 2, 3, 4]
    assert column(worker, keys.RHS)[:, 0, 0].tolist() == [0, 1, 2, 3, 1]


def test_only_what_the_storage_knows_is_stored_beside() -> None:
    worker = make_worker()
    worker.algo.other = {keys.VALUE: torch.ones(2, 1), keys.LOG_PROB: torch.ones(2, 1)}
    worker.collect_train_data(1)
    assert keys.VALUE in worker.storage.samples[0]
    assert keys.LOG_PROB not in worker.storage.samples[0]


@pytest.mark.parametrize("is_recurrent", [False, True])
def test_random_steps_are_stored_with_the_same_keys_as_later_ones(is_recurrent: bool) -> None:
    worker = make_worker(is_recurrent=is_recurrent, start_steps=6)
    worker.algo.other = {keys.VALUE: torch.ones(2, 1)}
    worker.collect_train_data(5)
    assert [list(sample) for sample in worker.storage.samples] == [list(worker.storage.samples[-1])] * 5
    assert keys.VALUE in worker.storage.samples[0]


def test_an_algorithm_that_tells_nothing_beside_actions_is_asked_once_while_they_are_random() -> None:
    worker = make_worker(start_steps=6)
    worker.collect_train_data(5)
    assert len(worker.algo.deterministic) == 1 + 2
    assert worker.algo.num_acted == 2


def test_a_failed_env_is_no_transition_and_no_episode() -> None:
    worker = make_worker(((4,), (6,)), failures=[2])
    worker.collect_train_data(6)
    broken = worker.storage.samples[1]
    assert broken[keys.SKIP][:, 0].tolist() == broken[keys.CUT][:, 0].tolist() == [True, False]
    assert keys.SKIP not in worker.storage.samples[2]
    assert column(worker, keys.DONE)[:, 0, 0].tolist() == [1, 0, 1, 0, 0, 0]
    assert worker.num_steps == 11
    assert [(episode.env, episode.total_reward, episode.num_steps) for episode in worker.episodes.recent] == [
        (0, 10.0, 4),
        (1, 21.0, 6),
    ]


def test_an_env_that_fails_after_a_step_cuts_the_stream_there() -> None:
    worker = make_worker(((4,), (6,)), late_failures=[2])
    worker.collect_train_data(4)
    assert worker.storage.samples[1][keys.CUT][:, 0].tolist() == [True, False]
    assert keys.SKIP not in worker.storage.samples[1]
    assert column(worker, keys.NEXT_OBS)[1, 0].tolist() == [0, 0, 2]
    assert column(worker, keys.DONE)[:, 0, 0].tolist() == [1, 0, 1, 0]
    assert worker.num_steps == 8


def test_returns_of_recent_episodes() -> None:
    worker = make_worker(((3, 1), (100,)))
    col_time, train_perf = worker.collect_train_data(2)
    assert col_time > 0
    assert np.isnan(train_perf)
    _, train_perf = worker.collect_train_data(3)
    assert train_perf == pytest.approx((6 + 1) / 2)
    assert worker.episodes.num_episodes == 2
    assert worker.storage.calls.count("end") == 2
    assert worker.iter == 2


@pytest.mark.parametrize("where", ["envs_train.step", "storage.insert_transition", "actor.observe"])
def test_after_an_interrupted_step_episodes_begin_again(where: str) -> None:
    worker = make_worker(((5,), (9,)))
    worker.collect_train_data(2)
    envs, (part, method) = worker.envs_train, where.split(".")
    call = getattr(getattr(worker, part), method)

    def interrupted(*args: Any, **options: Any) -> None:
        call(*args, **options)
        raise KeyboardInterrupt

    setattr(getattr(worker, part), method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.collect_train_data(2)
    setattr(getattr(worker, part), method, call)
    num_stored = len(worker.storage)
    worker.collect_train_data(5)
    assert envs.is_closed
    assert worker.envs_train.reseeded == worker.num_steps - 10
    first = worker.storage.samples[num_stored]
    assert first[keys.DONE].tolist() == [[1], [1]]
    assert first[keys.OBS][:, 2].tolist() == [0, 0]
    assert [episode.num_steps for episode in worker.episodes.recent] == [5]


def test_normalisers_see_every_step() -> None:
    worker = make_worker(((2,),))
    worker.collect_train_data(3)
    assert [obs.tolist() for obs, _, _, _ in worker.actor.observed] == column(worker, keys.OBS).tolist()
    assert [done.item() for _, _, done, _ in worker.actor.observed] == [False, True, False]
    assert {gamma for *_, gamma in worker.actor.observed} == {0.9}


def test_normalisers_hear_which_rows_are_no_steps() -> None:
    worker = make_worker(((4,), (6,)), failures=[2])
    worker.collect_train_data(3)
    assert [skip if skip is None else skip[:, 0].tolist() for skip in worker.actor.skipped] == [
        None,
        [True, False],
        None,
    ]
    assert [done[:, 0].tolist() for _, _, done, _ in worker.actor.observed][1] == [True, False]


def test_collect_data_hands_the_steps_over() -> None:
    worker = make_worker(((3,), (8,)), update_every=4)
    data, info = worker.collect_data()
    assert data[keys.REWARD].shape == (4, 2, 1)
    assert len(worker.storage) == 0
    assert info[keys.EPISODES] == {keys.TRAIN_REWARD: [6.0]}
    assert [episode.num_steps for episode in info[keys.ENDED]] == [3]
    assert info[keys.COLLECTION][keys.TIME_S] > 0
    assert worker.collect_data()[1][keys.EPISODES][keys.TRAIN_REWARD] == [6.0, 36.0]


@pytest.mark.parametrize(("data_to_cpu", "expected"), [(True, "cpu"), (False, "meta")])
def test_data_are_handed_over_where_they_are_wanted(data_to_cpu: bool, expected: str) -> None:
    worker = make_worker()
    worker.device = torch.device("meta")  # stands for a GPU
    data, _ = worker.collect_data(data_to_cpu=data_to_cpu)
    assert {value.device.type for value in data.values()} == {expected}


@pytest.mark.parametrize(("fraction", "expected"), [(1.0, 10), (0.55, 6), (0.0, 0)])
def test_a_word_ends_collection_once_enough_is_there(fraction: float, expected: int) -> None:
    worker = make_worker(fraction_samples=fraction)
    worker.signal("stop")
    worker.collect_train_data(10, listen_to=["stop"])
    assert len(worker.storage) == expected


def test_words_that_nobody_listens_to_change_nothing_and_are_forgotten() -> None:
    worker = make_worker(fraction_samples=0.5)
    worker.signal("stop")
    worker.collect_train_data(4, listen_to=["other"])
    worker.collect_train_data(4, listen_to=["stop"])
    assert len(worker.storage) == 8


def test_weights_can_be_given_from_the_start_and_later() -> None:
    first, second = {"w": torch.zeros(1)}, {"w": torch.ones(1)}
    worker = make_worker(initial_weights=first)
    assert worker.actor.weights is first
    worker.set_weights(second)
    assert worker.actor.weights is second
    assert worker.actor_version == 2


def test_every_worker_explores_in_its_own_way() -> None:
    seeds = [make_worker(index=index).actor.generator.initial_seed() for index in [(0, 0), (1, 0), (0, 1), (1, 1)]]
    assert seeds[0] == CountingActor().generator.initial_seed()
    assert len(set(seeds)) == 4


def test_parameters_reach_algorithm_and_storage() -> None:
    worker = make_worker()
    worker.update_algorithm_parameter("gamma", 0.5)
    worker.update_storage_parameter("alpha", 0.6)
    assert worker.algo.parameters == {"gamma": 0.5}
    assert worker.storage.parameters == {"alpha": 0.6}


def test_replacing_the_actor_gives_it_an_algorithm_of_its_own() -> None:
    worker = make_worker()
    old = worker.algo
    worker.collect_train_data(2)
    worker.replace_agent_component("actor", lambda device: CountingActor(is_recurrent=True))
    assert worker.algo is not old
    assert worker.actor is worker.algo.actor is worker.storage.actor
    worker.collect_train_data(1)
    assert worker.storage.samples[-1][keys.DONE].tolist() == [[1], [1]]


def test_replacing_algorithm_and_storage() -> None:
    worker = make_worker()
    worker.collect_train_data(2)
    worker.replace_agent_component("algo", lambda device, actor, envs: CountingAlgo(actor, envs, update_every=7))
    assert worker.storage.algorithm is worker.algo
    assert worker.update_every == 7
    worker.replace_agent_component("storage", lambda device, actor, algo, envs: RecordingStorage(actor, algo, envs))
    assert len(worker.storage) == 0
    assert worker.storage.algorithm is worker.algo
    assert worker.counts.num_steps_lost == worker.num_steps == 4


def test_replacing_environments() -> None:
    worker = make_worker(((3,), (4,)))
    train, test = worker.envs_train, worker.envs_test
    worker.collect_train_data(2)
    worker.replace_agent_component("envs_train", lambda device, index, parent: ScriptedEnvs(((2,), (2,))))
    worker.replace_agent_component("envs_test", lambda device, index, parent, mode: ScriptedEnvs(((7,),)))
    assert train.is_closed
    assert test.is_closed
    assert worker.envs_train is worker.algo.envs is worker.storage.envs
    worker.collect_train_data(2)
    assert [episode.num_steps for episode in worker.episodes.recent] == [2, 2]
    assert worker.evaluate() == 28.0
    with pytest.raises(ConfigError, match="made for 2 train environments, got 1"):
        worker.replace_agent_component("envs_train", lambda device, index, parent: ScriptedEnvs(((2,),)))


def test_an_unknown_component_is_refused() -> None:
    with pytest.raises(ConfigError, match="no component 'storag'; did you mean 'storage'"):
        make_worker().replace_agent_component("storag", RecordingStorage)


def test_going_on_from_a_state() -> None:
    worker, other = make_worker(start_steps=4), make_worker(start_steps=4)
    worker.collect_train_data(5)
    other.load_state(worker.state())
    assert other.state() == worker.state()
    assert other.envs_train.reseeded == 10
    assert list(other.episodes.recent) == list(worker.episodes.recent)
    other.collect_train_data(1)
    assert other.storage.samples[0][keys.DONE].tolist() == [[1], [1]]
    assert other.storage.samples[0][keys.ACTION][0].item() == 1


def test_evaluation_is_separate_and_deterministic() -> None:
    worker = make_worker()
    worker.collect_train_data(2)
    obs = worker.acting.latest_obs
    worker.algo.deterministic.clear()
    mean = worker.evaluate()
    assert set(worker.algo.deterministic) == {True}
    assert worker.acting.latest_obs is obs
    assert worker.last_evaluation.mean == mean
    assert len(worker.last_evaluation.returns) == 5
    assert len(worker.storage) == 2
    assert len(worker.actor.observed) == 2


def test_stopping_closes_all_environments() -> None:
    worker = make_worker()
    worker.stop()
    assert worker.envs_train.is_closed
    assert worker.envs_test.is_closed


def test_what_a_worker_lacks_is_named() -> None:
    def build(**factories: Any) -> CWorker:
        return CWorker(
            3,
            0,
            lambda device, actor, envs: CountingAlgo(actor, envs),
            lambda device: CountingActor(),
            lambda device, actor, algo, envs: RecordingStorage(actor, algo, envs),
            device="cpu",
            **factories,
        )

    with pytest.raises(WorkerError, match="worker 3 has no train environments"):
        build(test_envs_factory=lambda *place: ScriptedEnvs(((2,),))).collect_train_data()
    with pytest.raises(WorkerError, match="worker 3 has no test environments"):
        build(train_envs_factory=lambda *place: ScriptedEnvs(((2,),))).evaluate()


def test_the_device_is_the_one_that_was_given() -> None:
    devices: list[Any] = []

    def make_envs(device: Any, *place: Any) -> ScriptedEnvs:
        devices.append(device)
        return ScriptedEnvs(((2,),))

    worker = CWorker(
        0,
        0,
        lambda device, actor, envs: devices.append(device) or CountingAlgo(actor, envs),
        lambda device: devices.append(device) or CountingActor(),
        lambda device, actor, algo, envs: devices.append(device) or RecordingStorage(actor, algo, envs),
        train_envs_factory=make_envs,
        device="meta",
    )
    assert worker.device == torch.device("meta")
    assert devices == [torch.device("meta")] * 4


def test_a_worker_that_replaces_its_envs_says_that_it_builds() -> None:
    worker = make_worker()
    found = []

    def make_envs(*place: Any) -> ScriptedEnvs:
        found.append(worker.progress())
        return ScriptedEnvs(((3, 5), (4,)))

    worker.replace_agent_component("envs_train", make_envs)
    assert found == [None]
    assert worker.progress() == 0
