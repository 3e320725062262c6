"""Outboxes: every step is handed over once, in pieces that follow on each other."""

import numpy as np

from recollect.agent.storages import PERBuffer
from recollect.agent.storages.experience.store.outbox import Outbox
from tests.simulated import as_sample
from tests.snapshot_runs import NUM_ENVS, Run


def insert(run: Run, outbox: Outbox, num_steps: int) -> None:
    data = run.streams[0].take(num_steps)
    for step in range(num_steps):
        outbox.insert_transition(as_sample({path: values[step] for path, values in data.items()}, "numpy"))


def begins(outbox: Outbox) -> list[int]:
    piece = outbox.take()
    assert piece is not None
    return [int(piece.begins[0]), *piece.num_steps.tolist()]


def test_pieces_follow_on_each_other() -> None:
    run = Run("frames")
    outbox = run.buffer.make_outbox(5)
    assert outbox.take() is None
    insert(run, outbox, 5)
    assert begins(outbox) == [0, 5, 5]
    insert(run, outbox, 3)
    assert begins(outbox) == [5, 3, 3]
    assert begins(outbox) == [8, 0, 0]


def test_more_steps_than_expected_leave_a_gap() -> None:
    run = Run("vector")
    outbox = run.buffer.make_outbox(4)
    insert(run, outbox, 4)
    outbox.take()
    insert(run, outbox, 7)
    assert begins(outbox) == [6, 5, 5]


def test_an_outbox_grows_with_what_is_expected() -> None:
    run = Run("sequences")
    outbox = run.buffer.make_outbox(2)
    insert(run, outbox, 2)
    assert begins(outbox) == [0, 2, 2]
    outbox.expect(9)
    insert(run, outbox, 9)
    assert begins(outbox) == [2, 9, 9]


def test_an_outbox_continues_with_the_streams_of_the_one_before() -> None:
    run = Run("vector")
    outbox = run.buffer.make_outbox(4)
    insert(run, outbox, 4)
    outbox.take()
    other = run.buffer.make_outbox(4, outbox)
    insert(run, other, 3)
    assert begins(other) == [4, 3, 3]
    assert other.num_sent.tolist() == [7] * NUM_ENVS


def test_a_source_of_the_same_steps_fills_lanes_of_its_own() -> None:
    run = Run("vector")
    outbox, buffer = run.buffer.make_outbox(6), run.build(24)
    assert isinstance(buffer, PERBuffer)
    insert(run, outbox, 6)
    piece = outbox.take()
    assert piece is not None
    assert [buffer.append_piece(piece, source=name) for name in ("a", "b", "a")] == [6 * NUM_ENVS, 6 * NUM_ENVS, 0]
    rewards = [buffer.get_all_buffer_data(source=name)["Reward"] for name in "ab"]
    assert np.array_equal(*rewards)
    assert buffer.num_repeated == 6
