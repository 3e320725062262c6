"""Journals: whenever the process ends, another one finds every step that was noted."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import keys
from recollect.agent.storages import PERBuffer
from recollect.agent.storages.experience.persistence import journal as journal_module
from recollect.agent.storages.experience.persistence.journal import Journal
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.errors import StorageError
from tests.reference import flatten, same_bits
from tests.simulated import as_sample
from tests.snapshot_runs import KINDS, NUM_ENVS, Run, assert_alike, assert_same

SIZE = 24


def note(buffer: PERBuffer, journal: Journal) -> None:
    journal.note(buffer.store, buffer.state())


def read(buffer: PERBuffer, journal: Journal, errors: np.ndarray | None = None) -> PERBuffer:
    """Fill a buffer; `errors` replace those of the journal, which may be older."""
    extras = journal.read(buffer.store)
    buffer.load_state(extras if errors is None else extras | Extras(slot_arrays={"errors": errors}))
    return buffer


def insert(run: Run, num_steps: int, source: object) -> None:
    """Insert steps of one source, without learning from any."""
    data = as_sample(run.streams[source].take(num_steps), "numpy")  # type: ignore[index]
    run.buffer.insert_data_slice(data, source=source)  # type: ignore[arg-type]


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot after every few entries."""
    monkeypatch.setattr(journal_module, "_MAX_BYTES", 6_000)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_noted_is_read_with_the_errors_of_new_steps(kind: str, tmp_path: Path) -> None:
    run = Run(kind)
    journal = Journal(tmp_path)
    for num_steps in (7, 1, 1, 4, 20, 3):
        for source in run.streams:
            insert(run, num_steps, source)
            note(run.buffer, journal)
    assert_alike(run.buffer, read(run.build(SIZE), Journal(tmp_path)))


@pytest.mark.slow
@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(data=st.data())
def test_whatever_happens_every_noted_step_is_there(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    run, journal = Run(kind, seed=data.draw(st.integers(0, 99))), Journal(folder)
    run.fill(6)
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["fill", "fill", "insert", "insert", "resize", "reset", "reopen"]))
        if action == "fill":
            run.fill(data.draw(st.integers(1, 30)))
        elif action == "insert":
            insert(run, data.draw(st.integers(1, 6)), data.draw(st.sampled_from(list(run.streams))))
        elif action == "resize":
            run.buffer.update_storage_parameter("max_size", data.draw(st.integers(16, 40)))
        elif action == "reset":
            run.buffer.reset()
            run.fill(6)
        elif action == "reopen":
            journal = Journal(folder)
        if data.draw(st.booleans()):
            note(run.buffer, journal)
    note(run.buffer, journal)
    assert run.buffer.tree is not None
    other = read(run.build(run.buffer.max_size), Journal(folder), run.buffer.tree.errors)
    assert_alike(run.buffer, other)
    run.fill(5, other)
    assert_alike(run.buffer, other)


def test_an_entry_is_as_small_as_what_it_tells(tmp_path: Path) -> None:
    run, journal = Run("vector", size=10_000), Journal(tmp_path)
    run.fill(3_000)
    note(run.buffer, journal)
    snapshot = sum(path.stat().st_size for path in (tmp_path / "snapshot").iterdir())
    for _ in range(10):
        insert(run, 1, 0)
        note(run.buffer, journal)
    assert (tmp_path / "entries").stat().st_size < 10 * 4_000 < snapshot


@pytest.mark.usefixtures("few_bytes")
def test_many_entries_become_a_snapshot(tmp_path: Path) -> None:
    run, journal = Run("vector", size=10_000), Journal(tmp_path)
    sizes = []
    for _ in range(30):
        run.fill(2)
        note(run.buffer, journal)
        entries = tmp_path / "entries"
        sizes.append(entries.stat().st_size if entries.exists() else 0)
    assert 0 < max(sizes) < 12_000
    assert sizes.count(0) > 2


def test_lanes_that_get_differently_far_are_noted_one_by_one(tmp_path: Path) -> None:
    run, journal = Run("vector", size=200), Journal(tmp_path)
    num_snapshots = 0
    for position in range(12):
        data = as_sample(run.streams[0].take(2), "numpy")
        # The first env skips a step, then the second one: every other time they are equally far.
        data[keys.SKIP] = np.zeros((2, NUM_ENVS, 1), np.float32)
        data[keys.SKIP][0, position % 2] = 1
        run.buffer.insert_data_slice(data)
        note(run.buffer, journal)
        num_snapshots += not (tmp_path / "entries").exists()
    assert num_snapshots == 1
    assert run.buffer.tree is not None
    other = read(run.build(200), Journal(tmp_path))
    assert len(other) == len(run.buffer)
    for _ in range(3):
        assert_same(*(flatten(each.sample(30)) for each in (run.buffer, other)))


@pytest.mark.parametrize("num_bytes_cut", [1, 5, 300])
def test_an_entry_that_was_cut_off_is_left_out(num_bytes_cut: int, tmp_path: Path) -> None:
    run, journal = Run("vector"), Journal(tmp_path)
    for _ in range(3):
        insert(run, 2, 0)
        note(run.buffer, journal)
    expected = flatten(run.buffer.get_all_buffer_data())
    insert(run, 2, 0)
    note(run.buffer, journal)
    path = tmp_path / "entries"
    path.write_bytes(path.read_bytes()[:-num_bytes_cut])
    found = flatten(read(run.build(SIZE), Journal(tmp_path)).get_all_buffer_data())
    assert all(same_bits(found[name], values) for name, values in expected.items())


def test_entries_of_an_earlier_snapshot_are_left_out(tmp_path: Path) -> None:
    run, journal = Run("vector"), Journal(tmp_path)
    for _ in range(2):
        insert(run, 2, 0)
        note(run.buffer, journal)
    left = (tmp_path / "entries").read_bytes()
    insert(run, 2, 0)
    note(run.buffer, Journal(tmp_path))
    (tmp_path / "entries").write_bytes(left)  # as if the process had ended before it removed them
    assert_alike(run.buffer, read(run.build(SIZE), Journal(tmp_path)))


def test_what_cannot_be_written_is_an_error_and_all_is_written_next_time(tmp_path: Path) -> None:
    run, journal = Run("vector"), Journal(tmp_path)
    insert(run, 2, 0)
    note(run.buffer, journal)
    (tmp_path / "entries").mkdir()
    insert(run, 2, 0)
    with pytest.raises(StorageError, match=r"cannot write to .*entries"):
        note(run.buffer, journal)
    (tmp_path / "entries").rmdir()
    insert(run, 2, 0)
    note(run.buffer, journal)
    assert_alike(run.buffer, read(run.build(SIZE), Journal(tmp_path)))
