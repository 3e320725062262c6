"""Snapshots: what is read is what was written, bit for bit, or an error that changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recollect import keys
from recollect.agent.storages import NStepReplayBuffer
from recollect.agent.storages.experience.persistence import snapshot as snapshot_module
from recollect.agent.storages.experience.persistence.snapshot import Snapshot
from recollect.agent.storages.experience.persistence.snapshot_content import Extras
from recollect.agent.storages.experience.persistence.snapshot_files import remove_snapshots
from recollect.errors import RecollectError, StorageError
from tests.faulty_disk import FailingOS, Killed, on_disk
from tests.reference import flatten, same_bits
from tests.simulated import as_sample
from tests.snapshot_runs import KINDS, NUM_ENVS, Run, assert_alike, assert_same, read, write


@pytest.mark.parametrize("num_steps", [8, 40], ids=["part", "wrapped"])
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_exact_now_and_later(kind: str, num_steps: int, tmp_path: Path) -> None:
    run = Run(kind)
    run.fill(num_steps - 3)
    run.fill(3)
    write(run.buffer, Snapshot(tmp_path / "here"))
    other = read(run.build(24), Snapshot(tmp_path / "here"))
    assert_alike(run.buffer, other)
    for _ in range(4):
        run.fill(5, other)
        assert_alike(run.buffer, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_holds_something_else_is_replaced(kind: str, tmp_path: Path) -> None:
    run, stale = Run(kind), Run(kind, seed=1)
    run.fill(30)
    for _ in range(3):
        stale.fill(7)
    write(run.buffer, Snapshot(tmp_path))
    assert_alike(run.buffer, read(stale.buffer, Snapshot(tmp_path)))
    run.fill(4, stale.buffer)
    assert_alike(run.buffer, stale.buffer)


@pytest.mark.parametrize("size", [16, 20, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_of_another_size_gets_the_newest(kind: str, size: int, tmp_path: Path) -> None:
    run = Run(kind)
    run.fill(20)
    write(run.buffer, Snapshot(tmp_path))
    resized = run.buffer
    other = read(run.build(size), Snapshot(tmp_path))
    for source in run.streams:
        found = flatten(other.get_all_buffer_data(source=source))
        expected = run.newest(source, len(found[keys.REWARD]))
        assert len(found[keys.REWARD]) == min(size, 24) // 2  # the capacity of a source's lanes
        for path in set(found) - {keys.CUT, keys.START} - {path for path in found if path.startswith(keys.RHS)}:
            assert same_bits(found[path], expected[path]), path
    resized.update_storage_parameter("max_size", size)
    assert_alike(resized, other)
    run.fill(7, other)
    assert_alike(resized, other)


def test_only_steps_in_memory_are_written(tmp_path: Path) -> None:
    run = Run("block", size=100_000)
    run.fill(10)
    write(run.buffer, Snapshot(tmp_path))
    num_bytes = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert num_bytes < 40 * NUM_ENVS * 10 * 300


def test_reset_and_left_sources_survive(tmp_path: Path) -> None:
    run = Run("sequences")
    run.fill(17)
    run.buffer.release_source(0)
    write(run.buffer, Snapshot(tmp_path))
    other = read(run.build(24), Snapshot(tmp_path))
    run.buffer.reset()
    other.reset()
    snapshot = Snapshot(tmp_path)
    write(run.buffer, snapshot)
    third = read(run.build(24), Snapshot(tmp_path))
    data = as_sample(run.streams[0].take(9), "numpy")
    for buffer in (run.buffer, other, third):
        buffer.insert_data_slice(data, source="new")
    for buffer in (other, third):
        assert_same(*(flatten(each.get_all_buffer_data(source="new")) for each in (run.buffer, buffer)))
        assert_same(*(flatten(each.sample(20)) for each in (run.buffer, buffer)))
        assert buffer.store.ring.num_lanes == 2 * NUM_ENVS


def test_file_backed_stores_are_written_and_read(tmp_path: Path) -> None:
    run = Run("frames", backing="file", path=tmp_path / "live")
    run.fill(30)
    write(run.buffer, Snapshot(tmp_path / "kept"))
    other = read(run.build(24, backing="file", path=tmp_path / "other"), Snapshot(tmp_path / "kept"))
    assert_alike(run.buffer, other)
    for _ in range(3):
        run.fill(6, other)
        assert_alike(run.buffer, other)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of about four steps."""
    monkeypatch.setattr(snapshot_module, "_CHUNK_BYTES", 500)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("is_other_object", [True, False])
def test_other_steps_under_the_same_numbers_are_written(is_other_object: bool, tmp_path: Path) -> None:
    """Of another storage, or of one that was filled from elsewhere since."""
    run, other = Run("vector"), Run("vector", seed=1)
    snapshot = Snapshot(tmp_path / "here")
    run.fill(12)
    other.fill(12)
    write(run.buffer, snapshot)
    written = other.buffer
    if not is_other_object:
        write(other.buffer, Snapshot(tmp_path / "elsewhere"))
        written = read(run.buffer, Snapshot(tmp_path / "elsewhere"))
    write(written, snapshot)
    assert_alike(other.buffer, read(run.build(24), Snapshot(tmp_path / "here")))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_in_a_row_write_what_is_new(kind: str, tmp_path: Path) -> None:
    run = Run(kind, size=60)
    snapshot = Snapshot(tmp_path)
    kept: list[int] = []
    for _ in range(8):
        before = {path: path.read_bytes() for path in tmp_path.glob("*.piece")}
        run.fill(5)
        write(run.buffer, snapshot)
        after = {path: path.read_bytes() for path in tmp_path.glob("*.piece")}
        kept.append(len(before.keys() & after.keys()))
        assert all(before[path] == after[path] for path in before.keys() & after.keys())
        assert_alike_after_reading(run, tmp_path)
    assert max(kept) >= 5


def assert_alike_after_reading(run: Run, folder: Path) -> None:
    other = read(run.build(60), Snapshot(folder))
    state = run.buffer.state()
    for source in run.streams:
        assert_same(*(flatten(each.get_all_buffer_data(source=source)) for each in (run.buffer, other)))
    assert_same(*(flatten(each.sample(30)) for each in (run.buffer, other)))
    run.buffer.load_state(state)


@pytest.mark.usefixtures("small_chunks")
def test_chunks_are_kept_across_processes_but_not_across_stores(tmp_path: Path) -> None:
    run = Run("vector", size=60)
    run.fill(25)
    write(run.buffer, Snapshot(tmp_path))
    names = {path.name for path in tmp_path.glob("*.piece")}
    snapshot = Snapshot(tmp_path)
    other = read(run.build(60), snapshot)
    run.fill(1, other)
    write(other, snapshot)
    assert len(names & {path.name for path in tmp_path.glob("*.piece")}) > 5
    assert_alike(run.buffer, read(run.build(60), Snapshot(tmp_path)))

    stranger = Run("vector", size=60, seed=1)
    stranger.fill(2)
    stranger.fill(24)
    write(stranger.buffer, Snapshot(tmp_path))
    assert_alike(stranger.buffer, read(stranger.build(60), Snapshot(tmp_path)))

    write(other, snapshot)
    assert_alike(other, read(run.build(60), Snapshot(tmp_path)))


@pytest.mark.parametrize("error", [Killed(), OSError("on purpose")], ids=["killed", "failed"])
def test_whenever_writing_stops_the_last_snapshot_is_whole(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("frames", size=40)
    run.fill(12)
    write(run.buffer, Snapshot(tmp_path))
    before = read(run.build(40), Snapshot(tmp_path))
    run.fill(3)
    for number in range(100):
        faulty = FailingOS(number, error)
        on_disk(faulty, monkeypatch)
        try:
            write(run.buffer, Snapshot(tmp_path))
        except (Killed, StorageError):
            pass
        else:
            break
        finally:
            monkeypatch.undo()
        found = read(run.build(40), Snapshot(tmp_path))
        expected = run.buffer if faulty.calls[:number].count("replace") == 4 else before
        for source in run.streams:
            assert_same(*(flatten(each.get_all_buffer_data(source=source)) for each in (found, expected)))
    assert number > 8
    write(run.buffer, Snapshot(tmp_path))
    assert_alike(run.buffer, read(run.build(40), Snapshot(tmp_path)))
    named = json.loads((tmp_path / "manifest.json").read_bytes().splitlines()[1])["seals"]
    assert {path.name for path in tmp_path.iterdir()} == {*named, "manifest.json"}


@pytest.mark.usefixtures("small_chunks")
def test_snapshots_of_different_names_share_what_does_not_change(tmp_path: Path) -> None:
    run, snapshot = Run("vector", size=60), Snapshot(tmp_path)
    twins = []
    for name in ("a", "b", "c"):
        run.fill(9)
        snapshot.write(run.buffer.store, run.buffer.state(), name)
        twins.append(flatten(run.buffer.get_all_buffer_data(source=0)))
    for name, expected in zip(("a", "b", "c"), twins, strict=True):
        other = run.build(60)
        Snapshot(tmp_path).read(other.store, name=name)
        assert_same(flatten(other.get_all_buffer_data(source=0)), expected)
    files = {name: set(snapshot.manifest(name).seals) for name in ("a", "b", "c")}
    assert len(files["b"] & files["c"]) > 3
    remove_snapshots(tmp_path, ["b"])
    assert {path.name for path in tmp_path.iterdir()} == files["b"] | {"manifest-b.json"}
    run.fill(2)
    snapshot.write(run.buffer.store, run.buffer.state(), "d")
    other = run.build(60)
    Snapshot(tmp_path).read(other.store, name="d")
    assert_same(*(flatten(each.get_all_buffer_data(source=0)) for each in (run.buffer, other)))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip, cut_short, empty, Path.unlink])
@pytest.mark.parametrize("kind", ["frames", "sequences"])
def test_damage_anywhere_is_an_error_that_changes_nothing(
    kind: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    run = Run(kind)
    run.fill(20)
    write(run.buffer, Snapshot(tmp_path))
    victim, twin = run.build(24), run.build(24)
    run.fill(9, victim, twin)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        damage(path)
        with pytest.raises(StorageError):
            Snapshot(tmp_path).read(victim.store)
        with pytest.raises(StorageError):
            Snapshot(tmp_path).read(run.build(24).store)
        path.write_bytes(content)
    assert_alike(victim, twin)
    Snapshot(tmp_path).read(victim.store)


def test_foreign_folders_are_refused(tmp_path: Path) -> None:
    run = Run("vector")
    run.fill(5)
    with pytest.raises(StorageError, match="no snapshot"):
        Snapshot(tmp_path / "absent").read(run.build(24).store)
    (tmp_path / "file").write_text("text")
    with pytest.raises(StorageError, match="is a file"):
        write(run.buffer, Snapshot(tmp_path / "file"))
    for name, content in {"other": b'{"name": "x"}', "text": b"hello", "list": b"[]\n[]", "none": b""}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_bytes(content)
        with pytest.raises(StorageError):
            Snapshot(tmp_path / name).read(run.build(24).store)
        with pytest.raises(StorageError):
            write(run.buffer, Snapshot(tmp_path / name))
        assert (tmp_path / name / "manifest.json").read_bytes() == content


def test_another_version_is_refused(tmp_path: Path) -> None:
    run = Run("vector")
    run.fill(5)
    write(run.buffer, Snapshot(tmp_path))
    path = tmp_path / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"version": 3', b'"version": 4'))
    with pytest.raises(StorageError, match=r"version 4, .* a newer release"):
        Snapshot(tmp_path).read(run.build(24).store)


@pytest.mark.parametrize("built", [False, True])
def test_another_schema_is_refused(built: bool, tmp_path: Path) -> None:
    runs = {kind: Run(kind) for kind in KINDS}
    for kind, run in runs.items():
        run.fill(12)
        write(run.buffer, Snapshot(tmp_path / kind))
    strangers = [
        ("vector", runs["frames"]),
        ("frames", runs["vector"]),
        ("sequences", runs["vector"]),
        ("vector", runs["sequences"]),
        ("frames", runs["stacked sequences"]),
    ]
    if built:
        strangers += [("vector", runs["nested"]), ("block", runs["vector"])]
    for kind, run in strangers:
        buffer = run.buffer if built else run.build(24)
        before = {source: flatten(buffer.get_all_buffer_data(source=source)) for source in buffer.store.sources}
        with pytest.raises(RecollectError):
            Snapshot(tmp_path / kind).read(buffer.store)
        assert set(before) == set(buffer.store.sources)
        for source, data in before.items():
            assert_same(data, flatten(buffer.get_all_buffer_data(source=source)))
    other = NStepReplayBuffer.standalone(24, num_envs=3)
    with pytest.raises(StorageError, match="envs"):
        Snapshot(tmp_path / "vector").read(other.store)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    np.save(tmp_path / "mine.npy", np.arange(3))
    run = Run("vector")
    for _ in range(3):
        run.fill(5)
        write(run.buffer, Snapshot(tmp_path))
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "mine.npy").exists()


def test_sources_that_json_cannot_hold_are_refused(tmp_path: Path) -> None:
    run = Run("vector")
    run.fill(5)
    run.buffer.insert_data_slice(as_sample(run.streams[0].take(2), "numpy"), source=frozenset([1]))
    with pytest.raises(StorageError, match="frozenset"):
        write(run.buffer, Snapshot(tmp_path / "here"))
    assert not list((tmp_path / "here").iterdir())


def test_state_must_be_json(tmp_path: Path) -> None:
    run = Run("vector")
    run.fill(5)
    with pytest.raises(StorageError, match="JSON"):
        Snapshot(tmp_path).write(run.buffer.store, Extras({"bad": object()}, {}))
    assert not Snapshot(tmp_path).exists()
