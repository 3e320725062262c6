"""Both libraries are trained and evaluated alike."""

from typing import Any

import numpy as np
import pytest

from benchmarks.learn import ours, sb3
from benchmarks.learn.experiments import Cell
from benchmarks.learn.records import CURVE_POINTS


def test_ours_is_evaluated_at_equal_distances_and_at_the_end() -> None:
    cell = Cell(key="small", task="recall", agent="DDQN", steps=1_680, preset="recall-ddqn-gru", metric="success")
    trained = ours.train(cell, seed=1, num_episodes=12)
    steps = [steps for steps, _ in trained.curve]
    assert len(steps) == CURVE_POINTS
    assert steps == sorted(set(steps))
    assert steps[-1] == 1_680
    assert len(trained.evaluation.returns) == len(trained.evaluation.lengths) == 12
    assert trained.evaluation.successes is not None
    assert trained.evaluation.success_rate == pytest.approx(np.mean(trained.evaluation.returns))


class Leaning:
    """Stands in for a model: pushes towards the side that the pole leans to."""

    def predict(self, obs: Any, deterministic: bool) -> tuple[int, None]:
        assert deterministic
        return int(obs[2] > 0), None


def test_the_peer_plays_whole_episodes_each_from_a_seed_of_its_own() -> None:
    episodes = sb3.evaluate(Leaning(), "CartPole-v1", num_episodes=5, seed=1)
    assert len(set(episodes.lengths)) > 1
    assert episodes.returns == [float(length) for length in episodes.lengths]
    assert sb3.evaluate(Leaning(), "CartPole-v1", num_episodes=5, seed=1) == episodes
    assert sb3.evaluate(Leaning(), "CartPole-v1", num_episodes=5, seed=2) != episodes
