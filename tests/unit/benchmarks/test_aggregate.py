"""The aggregate page normalises scores, groups runs by kind of task and agent, and draws them."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.learn import overview
from benchmarks.learn.ablation import ABLATION
from benchmarks.learn.aggregate import KINDS, SCALES, STORAGES, combine, markdown, table
from benchmarks.learn.experiments import TABLE, Cell
from benchmarks.learn.records import Episodes
from benchmarks.learn.report import Row
from tests.unit.benchmarks.builders import make_record

CELLS = {cell.key: cell for cell in (*TABLE, *ABLATION)}


def row(cell: Cell, *scores: float) -> Row:
    records = []
    for seed, score in enumerate(scores, 1):
        is_share = cell.metric == "success"
        evaluation = Episodes([score], [5], [bool(score)] if is_share else None)
        curve = [(100, score - 4), (200, score - 2)]
        records.append(make_record(cell=cell.key, seed=seed, evaluation=evaluation, curve=curve))
    return Row(cell, records)


def test_every_cell_has_a_scale_and_a_kind() -> None:
    tasks = {cell.task for cell in CELLS.values()}
    assert tasks == SCALES.keys()
    assert sorted(tasks) == sorted(task for of_kind in KINDS.values() for task in of_kind)
    assert all(scale.chance < scale.reference for scale in SCALES.values())


def test_scores_are_normalised_and_runs_of_an_agent_are_put_together() -> None:
    rows = [row(CELLS["cartpole-qr-dqn"], 500.0, 23.7), row(CELLS["acrobot-qr-dqn"], -77.0), row(CELLS["cartpole-ppo"])]
    (found,) = combine(rows)
    assert (found.agent, found.tasks) == ("QR-DQN", ("CartPole-v1", "Acrobot-v1"))
    np.testing.assert_allclose(found.scores, [1.0, 0.0, 1.0], atol=1e-9)
    assert found.profile(np.array([-0.1, 0.5, 1.1])).tolist() == [1.0, pytest.approx(2 / 3), 0.0]
    assert table([found])[1][:5] == ["finitely many actions", "QR-DQN", "CartPole-v1, Acrobot-v1", "3", "0.67"]


def test_the_best_come_first_in_each_kind_and_storages_are_a_kind_of_their_own() -> None:
    rows = [
        row(ABLATION[0], -151.0),
        row(CELLS["cartpole-ddqn"], 100.0),
        row(CELLS["cartpole-ppo"], 200.0),
        row(CELLS["recall-ppo-gru"], 1.0),
    ]
    order = [(each.kind, each.agent) for each in combine(rows)]
    assert order == [
        ("finitely many actions", "PPO"),
        ("finitely many actions", "DDQN"),
        ("memory", "PPO, GRU"),
        (STORAGES, "uniform"),
    ]


def test_the_figures_are_drawn_and_shown(tmp_path: Path) -> None:
    rows = [row(CELLS["cartpole-ddqn"], 100.0, 400.0), row(CELLS["pendulum-sac"], -150.0, -200.0, -170.0)]
    combinations = combine(rows)
    overview.draw_profiles(combinations, tmp_path / "profiles.png")
    overview.draw_curves(rows, tmp_path / "curves.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("profiles.png", "curves.png"))
    text = markdown(combinations, "profiles.png", "curves.png", "3 runs")
    assert "(profiles.png)" in text
    assert "| continuous actions | SAC | Pendulum-v1 | 3 |" in text
