"""Runs that a released version wrote can be read forever; each release adds one to `tests/frozen`.

They are runs of `honest("replay", folder)` in `test_forged.py`, without what no reader needs.
"""

from pathlib import Path

import pytest

from recollect import EREBuffer
from recollect.agent.storages.snapshots import StorageSnapshot
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.captured_agent import ACTOR_FILE
from recollect.runs.checkpointing.commit import read_commit
from recollect.runs.checkpointing.state_files import read_state
from recollect.runs.writers import read_rows

FROZEN = sorted(path for path in (Path(__file__).parents[2] / "frozen").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FROZEN, ids=lambda path: path.name)
def test_a_frozen_run_is_read(folder: Path) -> None:
    run = RunDirectory.open(folder)
    path = run.checkpoints.newest()
    commit, state = read_commit(path), read_state(path, "state")
    assert (commit.num_steps, state["scheme"]["updates"]["num_updates"] > 0) == (80, True)
    assert set(commit.files) == {ACTOR_FILE, "state.json", "state.safetensors"}
    assert commit.replay is not None
    assert "did not say" in commit.promise
    memory = EREBuffer.standalone(200, num_envs=2, alpha=0.6)
    StorageSnapshot(run.storage_folder).load(memory, commit.replay.name)
    assert len(memory) == commit.replay.num_stored == 80
    assert (memory.get_all_buffer_data()["Reward"] == 1).all()
    assert [int(row["steps"]) for row in read_rows(run.metrics_file)][-1] == 80
    assert run.config["steps"] == 1000
