"""The table is whole: names once, peers that exist, presets that match what they are compared with."""

import pytest

from benchmarks.learn.ablation import ABLATION, TASKS, VARIANTS
from benchmarks.learn.command import read_row
from benchmarks.learn.experiments import TABLE, select
from benchmarks.learn.runner import RESULTS
from recollect.config import presets

CELLS = {cell.key: cell for cell in (*TABLE, *ABLATION)}


def test_every_cell_has_a_name_of_its_own() -> None:
    assert len(CELLS) == len(TABLE) + len(ABLATION)


def test_every_peer_that_a_goal_names_is_a_cell_on_the_same_task_for_as_many_steps() -> None:
    compared = [(cell, CELLS[cell.goal.peer]) for cell in TABLE if cell.goal is not None and cell.goal.peer]
    assert compared
    for ours, peer in compared:
        assert (ours.task, ours.steps) == (peer.task, peer.steps)
        assert set(ours.seeds) <= set(peer.seeds)


@pytest.mark.parametrize("name", presets.names())
def test_what_a_preset_says_of_its_score_is_what_the_records_say(name: str) -> None:
    cell = CELLS.get(name)
    row = None if cell is None else read_row(cell, RESULTS)
    if cell is None or row is None or row.estimate is None:
        assert presets.tested(name) is None
        return
    digits = 3 if cell.metric == "success" else 1
    assert presets.tested(name) == {
        cell.metric: round(row.estimate.mean, digits),
        "error": round(row.estimate.error, digits),
        "seeds": len(row.records),
        "date": max(record.date for record in row.records),
    }


def test_the_ablation_crosses_every_storage_with_every_task() -> None:
    assert len(ABLATION) == len(TASKS) * len(VARIANTS) == 10
    assert all(len(cell.seeds) == 5 for cell in ABLATION)


def test_cells_are_selected_by_the_beginning_of_their_name_in_the_order_of_the_table() -> None:
    keys = [cell.key for cell in select(TABLE, ["recall-ppo", "cartpole-d", "cartpole-p"])]
    assert keys == ["cartpole-ddqn", "cartpole-ppo", "cartpole-pqn", "recall-ppo-gru", "recall-ppo"]


def test_a_mistyped_cell_gets_a_hint() -> None:
    with pytest.raises(ValueError, match="did you mean 'cartpole-ddqn'"):
        select(TABLE, ["cartpoel-ddqn"])
