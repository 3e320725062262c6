"""`recollect checkpoints` lists, verifies and removes."""

from pathlib import Path

from recollect.runs import RunDirectory
from tests.unit.cli.conftest import Run


def test_checkpoints_are_listed_verified_and_removed(trained: Path, recollect: Run) -> None:
    paths = RunDirectory.open(trained).checkpoints.paths()
    outcome = recollect("checkpoints", str(trained))
    assert outcome.code == 0
    told = outcome.out.splitlines()
    assert [line.split()[0] for line in told[: len(paths)]] == [f"checkpoints/{path.name}" for path in paths]
    assert "100 steps" in told[len(paths) - 1]
    assert "replay of 100 transitions" in told[len(paths) - 1]
    assert told[len(paths) - 1].endswith("resumes exactly")
    assert told[-1].startswith("best/")
    assert told[-1].endswith("resumes with an empty replay")
    verified = recollect("checkpoints", str(trained), "--verify")
    assert verified.code == 0
    assert all(line.endswith(", whole") for line in verified.out.splitlines())
    removed = recollect("checkpoints", str(trained), "--keep", "1")
    assert removed.out.splitlines()[0] == f"removed {paths[0].name}"
    assert RunDirectory.open(trained).checkpoints.paths() == paths[-1:]
    assert recollect("checkpoints", str(trained), "--verify").code == 0, "what belongs to the others is still there"
    assert recollect("resume", str(trained), "--steps", "110").code == 0


def test_a_damaged_replay_is_found(trained: Path, recollect: Run) -> None:
    for piece in (trained / "storage").glob("*.piece"):
        piece.write_bytes(bytes(piece.stat().st_size))
    assert recollect("checkpoints", str(trained)).code == 0, "nothing was looked at"
    outcome = recollect("checkpoints", str(trained), "--verify")
    assert outcome.code == 1
    assert "damaged: " in outcome.out
    assert ".piece is damaged: its checksum does not fit" in outcome.out


def test_a_run_is_not_pruned_by_age_to_nothing(trained: Path, recollect: Run) -> None:
    before = RunDirectory.open(trained).checkpoints.paths()
    outcome = recollect("checkpoints", str(trained), "--max-age-days", "3")
    assert (outcome.code, RunDirectory.open(trained).checkpoints.paths()) == (0, before)
