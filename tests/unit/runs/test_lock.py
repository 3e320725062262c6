"""One process at a time writes into the folder of a run; one that was killed does not keep it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.api import Agent
from recollect.errors import ConfigError, InUseError
from recollect.files.lock import FolderLock
from recollect.learner import Learner
from recollect.runs import RunDirectory
from tests.schemes import make_scheme
from tests.waiting import PATIENCE_S

HOLD = (
    "import sys; from pathlib import Path; from recollect.files.lock import FolderLock; lock = FolderLock(Path({!r}))"
)


@pytest.fixture
def other(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds the lock of the folder."""
    code = HOLD.format(str(tmp_path)) + "; print('held', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def takes(folder: Path) -> bool:
    """Whether another process gets the lock."""
    command = [sys.executable, "-c", HOLD.format(str(folder))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0 or "InUseError" in ended.stderr
    return ended.returncode == 0


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_process_is_refused_and_changes_nothing(tmp_path: Path, other: "subprocess.Popen[str]") -> None:
    RunDirectory.create(tmp_path, {"seed": 1})
    before = content(tmp_path)
    with pytest.raises(InUseError, match=f"{tmp_path} is in use by process {other.pid};"):
        Learner(make_scheme(), 40, tmp_path, resume=True)
    assert content(tmp_path) == before


def test_an_agent_is_not_saved_where_another_process_trains(tmp_path: Path, other: "subprocess.Popen[str]") -> None:
    agent = Agent("ddqn", "CartPole-v1", hidden_sizes=[8], num_test_envs=1, preset="none")
    RunDirectory.create(tmp_path, agent.config.to_document())
    before = content(tmp_path)
    with pytest.raises(InUseError, match=f"{tmp_path} is in use by process {other.pid};"):
        agent.save(tmp_path)
    assert content(tmp_path) == before
    other.kill()
    other.wait(PATIENCE_S)
    assert agent.save(tmp_path).is_dir()
    agent.close()


def test_a_process_that_was_killed_does_not_hold_it(tmp_path: Path, other: "subprocess.Popen[str]") -> None:
    other.send_signal(signal.SIGKILL)
    other.wait(PATIENCE_S)
    FolderLock(tmp_path).release()


@pytest.mark.slow
def test_a_learner_holds_its_folder_until_it_is_closed(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 40, tmp_path / "run")
    learner.step()
    learner.save_checkpoint()
    assert not takes(tmp_path / "run")
    resumed = Learner(make_scheme(), 40, tmp_path / "run", resume=True)
    learner.close()
    learner.close()
    assert not takes(tmp_path / "run"), "the second learner of this process is still there"
    resumed.close()
    assert takes(tmp_path / "run")


@pytest.mark.slow
def test_a_learner_that_cannot_resume_lets_the_folder_go(tmp_path: Path) -> None:
    learner = Learner(make_scheme(), 40, tmp_path)
    (learner.save_checkpoint() / "actor.safetensors").unlink()
    learner.stop()
    with pytest.raises(RuntimeError, match="no checkpoint"):
        Learner(make_scheme(), 40, tmp_path, resume=True)
    assert takes(tmp_path)


def test_of_two_that_make_the_same_run_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunDirectory, "exists", property(lambda run: False))
    RunDirectory.create(tmp_path, {"seed": 1})
    before = content(tmp_path)
    with pytest.raises(ConfigError, match="holds a run already"):
        RunDirectory.create(tmp_path, {"seed": 2})
    assert content(tmp_path) == before


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/null"), os.mkfifo, Path.mkdir])
def test_what_is_no_file_to_lock_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / ".lock")
    with pytest.raises(ConfigError, match="cannot be locked"):
        FolderLock(tmp_path)


def test_a_file_that_is_also_somewhere_else_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("of somebody")
    (tmp_path / "run").mkdir()
    os.link(tmp_path / "letter", tmp_path / "run" / ".lock")
    lock = FolderLock(tmp_path / "run")
    assert not takes(tmp_path / "run")
    lock.release()
    assert (tmp_path / "letter").read_text() == "of somebody"
