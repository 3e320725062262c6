"""Episodes are followed to their ends, each env by itself."""

import numpy as np
import pytest

from recollect.agent.envs.step import Step
from recollect.scheme.collection.worker.episodes import NUM_RECENT_EPISODES, Episode, EpisodeHistory, EpisodeLog


def make_step(
    rewards: list[float], ended: list[bool], skip: list[bool] | None = None, cut: list[bool] | None = None
) -> tuple[Step, np.ndarray]:
    def as_column(values: list[bool]) -> np.ndarray:
        return np.array(values)[:, None]

    flags = as_column(ended)
    step = Step(
        None,
        np.array(rewards, np.float32)[:, None],
        flags,
        np.zeros_like(flags),
        as_column(cut or [False] * len(ended)),
        None if skip is None else as_column(skip),
        None,
        {"is_success": np.array([1.0, 0.0]), "_is_success": np.array([True, False])},
    )
    return step, flags


def test_sums_start_again_after_an_end() -> None:
    log = EpisodeLog(2)
    assert log.follow(*make_step([1, 5], [False, False])) == []
    assert log.follow(*make_step([2, 5], [True, False])) == [Episode(0, 3.0, 2, 1.0)]
    assert log.follow(*make_step([7, 5], [True, True])) == [Episode(0, 7.0, 1, 1.0), Episode(1, 15.0, 3, None)]


def test_skipped_rows_do_not_count() -> None:
    log = EpisodeLog(2)
    log.follow(*make_step([1, 1], [False, False], skip=[True, False]))
    assert log.follow(*make_step([1, 1], [True, True])) == [Episode(0, 1.0, 1, 1.0), Episode(1, 2.0, 2, None)]


def test_a_cut_loses_the_episode() -> None:
    log = EpisodeLog(2)
    log.follow(*make_step([4, 4], [False, False]))
    log.follow(*make_step([0, 4], [False, False], skip=[True, False], cut=[True, False]))
    assert log.follow(*make_step([1, 1], [True, True])) == [Episode(0, 1.0, 1, 1.0), Episode(1, 9.0, 3, None)]


def test_a_cut_after_a_step_loses_the_episode_too() -> None:
    log = EpisodeLog(2)
    assert log.follow(*make_step([4, 4], [False, False], cut=[False, True])) == []
    assert log.follow(*make_step([1, 1], [True, True])) == [Episode(0, 5.0, 2, 1.0), Episode(1, 1.0, 1, None)]


def test_history_keeps_the_latest_and_hands_each_out_once() -> None:
    history = EpisodeHistory()
    assert np.isnan(history.mean_return)
    assert history.success_rate is None
    history.add([Episode(0, float(number), 2 * number, None) for number in range(NUM_RECENT_EPISODES)])
    history.add([Episode(1, 100.0, 1, 1.0), Episode(1, 200.0, 1, 0.0)])
    assert history.num_episodes == NUM_RECENT_EPISODES + 2
    assert history.mean_return == pytest.approx((sum(range(2, NUM_RECENT_EPISODES)) + 300) / NUM_RECENT_EPISODES)
    assert history.mean_length == pytest.approx((2 * sum(range(2, NUM_RECENT_EPISODES)) + 2) / NUM_RECENT_EPISODES)
    assert history.success_rate == 0.5
    assert len(history.take_new()) == NUM_RECENT_EPISODES + 2
    assert history.take_new() == []


def test_a_resumed_history_hands_out_what_nobody_had_asked_for() -> None:
    history, resumed = EpisodeHistory(), EpisodeHistory()
    history.add([Episode(0, 1.0, 2, None)])
    history.take_new()
    history.add([Episode(1, 3.0, 4, 1.0)])
    resumed.load_state(history.state())
    assert resumed.take_new() == [Episode(1, 3.0, 4, 1.0)]
    assert resumed.mean_return == 2.0


def test_each_new_episode_of_several_histories_is_handed_out_once() -> None:
    histories = [EpisodeHistory(), EpisodeHistory()]
    for number, history in enumerate(histories):
        history.add([Episode(0, float(number), 2, None)])
    shares = EpisodeHistory.share(EpisodeHistory.merge([history.state() for history in histories]), 2)
    for history, share in zip(histories, shares, strict=True):
        history.load_state(share)
    assert [[episode.total_reward for episode in history.take_new()] for history in histories] == [[0.0, 1.0], []]
