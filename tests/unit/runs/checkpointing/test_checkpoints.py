"""A checkpoint is whole or not there; the newest few stay."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from recollect.errors import NotFiniteError, RecollectWarning, StorageError
from recollect.runs.checkpointing.captured_agent import ACTOR_FILE, CapturedAgent, read_checkpoint
from recollect.runs.checkpointing.checkpoints import Checkpoints
from recollect.runs.checkpointing.commit import COMMIT_FILE, VERSION, Commit, read_commit
from tests.faulty_disk import FailingOS, Killed, PowerCutOS, on_disk, restore

FILES = ["state.json", "state.safetensors", ACTOR_FILE, COMMIT_FILE]


class TinyActor(torch.nn.Linear):
    """One layer that loads itself as actors do."""

    def __init__(self) -> None:
        super().__init__(2, 1)

    def load(self, path: Path) -> None:
        self.load_state_dict(load_file(path))


def write(checkpoints: Checkpoints, num_steps: int, state: dict[str, Any] | None = None, actor: Any = None) -> Path:
    return checkpoints.write(CapturedAgent.of(actor or TinyActor(), state or {"number": num_steps}).dump(), num_steps)


def number_in(checkpoints: Checkpoints) -> int:
    return int(read_checkpoint(checkpoints.newest(), TinyActor())["number"])  # type: ignore[arg-type]


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    actor, other = TinyActor(), TinyActor()
    path = write(Checkpoints(tmp_path), 70, {"num_updates": 5, "moments": torch.ones(2)}, actor)
    state = read_checkpoint(path, other)  # type: ignore[arg-type]
    assert torch.equal(actor.weight, other.weight)
    assert state["num_updates"] == 5
    assert state["moments"].tolist() == [1, 1]
    assert path.name == "000000-step-70"
    assert Checkpoints(tmp_path).num_steps() == 70


def test_the_newest_stay(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, num_kept=2)
    for num_steps in (100, 900, 1000, 1000):
        newest = write(checkpoints, num_steps)
        assert checkpoints.newest() == newest
    assert [path.name for path in checkpoints.paths()] == ["000002-step-1000", "000003-step-1000"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000002-step-1000", "000003-step-1000"]


def test_old_ones_are_removed_by_age_but_never_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path, num_kept=10)
    for number, written_at in enumerate((1000.0, 2000.0, 3000.0)):
        monkeypatch.setattr("recollect.runs.checkpointing.checkpoints.time.time", lambda now=written_at: now)
        write(checkpoints, number)
    monkeypatch.setattr("recollect.runs.checkpointing.checkpoints.time.time", lambda: 3100.0)
    assert [path.name[-1] for path in checkpoints.prune(10, oldest_s=1500.0)] == ["0"]
    assert [path.name[-1] for path in checkpoints.prune(10, oldest_s=1.0)] == ["1"]
    assert number_in(checkpoints) == 2


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()], ids=["full", "killed"])
@pytest.mark.parametrize("tears", [False, True])
@pytest.mark.filterwarnings("ignore:old checkpoints stay", "error:the checkpoint")
def test_a_write_that_stops_anywhere_leaves_a_whole_one(
    error: BaseException, tears: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        checkpoints = Checkpoints(tmp_path / str(number), num_kept=1)
        write(checkpoints, 1)
        faulty = FailingOS(number, error, tears=tears)
        on_disk(faulty, monkeypatch)
        try:
            write(checkpoints, 2)
        except StorageError:
            assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["000000-step-1"]
        except Killed:
            pass
        else:
            if len(faulty.calls) <= number:
                break
        finally:
            monkeypatch.undo()
        assert number_in(checkpoints) in (1, 2)
        write(checkpoints, 3)
        assert sorted(path.name[-1] for path in checkpoints.folder.iterdir()) == ["3"], "nothing is left behind"
    assert number > 15


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    on_disk(FailingOS(4, OSError(errno.ENOSPC, "No space left on device")), monkeypatch)
    with pytest.raises(StorageError, match="No space left on device; there is none before it"):
        write(checkpoints, 1)
    monkeypatch.undo()
    write(checkpoints, 1)
    on_disk(FailingOS(4, OSError(errno.ENOSPC, "No space left on device")), monkeypatch)
    with pytest.raises(StorageError, match="No space left on device; the one before it, 000000-step-1, stays"):
        write(checkpoints, 2)


@pytest.mark.filterwarnings("ignore:the checkpoint")
def test_a_power_cut_at_any_time_leaves_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    checkpoints = Checkpoints(here, num_kept=1)
    write(checkpoints, 1)
    faulty = PowerCutOS(here)
    on_disk(faulty, monkeypatch)
    write(checkpoints, 2)
    monkeypatch.undo()
    found = [
        number_in(Checkpoints(restore(state, tmp_path / f"cut{number}"))) for number, state in enumerate(faulty.states)
    ]
    assert len(found) > 15
    assert found == sorted(found), "what was committed stays"
    assert set(found) == {1, 2}


def test_pruning_fails_without_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path, num_kept=1)
    write(checkpoints, 1)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("recollect.runs.checkpointing.checkpoints.remove_folder", refuse)
        with pytest.warns(RecollectWarning, match="old checkpoints stay"):
            write(checkpoints, 2)
    assert number_in(checkpoints) == 2


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(value: float, tmp_path: Path) -> None:
    actor, checkpoints = TinyActor(), Checkpoints(tmp_path)
    good = write(checkpoints, 10, None, actor)
    with torch.no_grad():
        actor.weight[0, 1] = value
    with pytest.raises(NotFiniteError, match="weight of the actor"):
        write(checkpoints, 20, None, actor)
    assert checkpoints.paths() == [good]


def test_a_state_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(NotFiniteError, match="mean of the state"):
        write(checkpoints, 20, {"optimiser": {"policy": {"mean": torch.tensor([0.0, torch.nan])}}})
    assert checkpoints.paths() == []


def test_a_run_without_checkpoints_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no checkpoint in"):
        Checkpoints(tmp_path / "absent").newest()
    assert Checkpoints(tmp_path / "absent").num_steps() == 0


def rewrite_record(path: Path, **changes: Any) -> None:
    """Change the head of a commit record."""
    head, text = path.read_bytes().splitlines()
    path.write_bytes(json.dumps({**json.loads(head), **changes}).encode() + b"\n" + text + b"\n")


def test_records_of_other_releases_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = write(Checkpoints(tmp_path), 1) / COMMIT_FILE
    rewrite_record(path, version=VERSION + 1)
    with pytest.raises(StorageError, match=f"version {VERSION + 1}, this release reads {VERSION}; a newer release"):
        Checkpoints(tmp_path).newest()
    rewrite_record(path, version=1)
    with pytest.raises(StorageError, match="it is too old"):
        Checkpoints(tmp_path).newest()
    rewrite_record(path, version=VERSION, format="something else")
    with pytest.raises(StorageError, match="is no checkpoint of a run"):
        Checkpoints(tmp_path).newest()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_link(path: Path) -> None:
    elsewhere = path.parents[2] / f"{path.name}.elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize("damage", [flip, zero, cut_short, make_pipe, make_link, Path.unlink])
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_checkpoint_is_skipped_and_named(file: str, damage: Any, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "run")
    for number in (1, 2):
        newest = write(checkpoints, number)
    damage(newest / file)
    if (damage, file) == (Path.unlink, COMMIT_FILE):
        assert number_in(checkpoints) == 1, "it was never committed"
        return
    with pytest.warns(RecollectWarning, match=f"the checkpoint {newest.name} is skipped: .*{file}"):
        assert number_in(checkpoints) == 1
    damage(checkpoints.paths()[0] / file)
    with pytest.raises(StorageError, match=r"no checkpoint in .* is whole"):
        checkpoints.newest()


@pytest.mark.parametrize("name", ["../actor.safetensors", "/etc/passwd", "a/b.json", ".json"])
def test_a_record_names_files_of_its_folder_alone(name: str, tmp_path: Path) -> None:
    path = Checkpoints(tmp_path).write({ACTOR_FILE: b""}, 1)
    found = read_commit(path)
    object.__setattr__(found, "files", {name: found.files[ACTOR_FILE]})
    (path / COMMIT_FILE).write_bytes(found.dump())
    with pytest.raises(StorageError, match="is no file of a checkpoint"):
        read_commit(path)


def test_links_to_folders_are_no_checkpoints(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "run")
    path = write(checkpoints, 1)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert checkpoints.paths() == []


@pytest.mark.parametrize("written_at", [1e300, -1.0, float("nan")])
def test_a_time_that_no_calendar_knows_is_refused(written_at: float, tmp_path: Path) -> None:
    (tmp_path / COMMIT_FILE).write_bytes(Commit(num_steps=1, written_at=written_at).dump())
    with pytest.raises(StorageError, match="is damaged"):
        read_commit(tmp_path)
