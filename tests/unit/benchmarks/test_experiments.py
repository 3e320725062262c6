"""The table is whole: names once, peers that exist, presets that match what they are compared with."""

import pytest

from benchmarks.learn.ablation import ABLATION, TASKS, VARIANTS
from benchmarks.learn.experiments import TABLE, select

CELLS = {cell.key: cell for cell in (*TABLE, *ABLATION)}


def test_every_cell_has_a_name_of_its_own() -> None:
    assert len(CELLS) == len(TABLE) + len(ABLATION)


def test_every_peer_that_a_goal_names_is_a_cell_on_the_same_task_for_as_many_steps() -> None:
    compared = [(cell, CELLS[cell.goal.peer]) for cell in TABLE if cell.goal is not None and cell.goal.peer]
    assert len(compared) == 2
    for ours, peer in compared:
        assert (ours.task, ours.steps, ours.seeds) == (peer.task, peer.steps, peer.seeds)


def test_the_ablation_crosses_every_storage_with_every_task() -> None:
    assert len(ABLATION) == len(TASKS) * len(VARIANTS) == 10
    assert all(len(cell.seeds) == 5 for cell in ABLATION)


def test_cells_are_selected_by_the_beginning_of_their_name_in_the_order_of_the_table() -> None:
    keys = [cell.key for cell in select(TABLE, ["recall-ppo", "cartpole"])]
    assert keys == ["cartpole-ddqn", "cartpole-ppo", "recall-ppo-gru", "recall-ppo"]


def test_a_mistyped_cell_gets_a_hint() -> None:
    with pytest.raises(ValueError, match="did you mean 'cartpole-ddqn'"):
        select(TABLE, ["cartpoel-ddqn"])
