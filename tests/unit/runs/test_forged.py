"""Whatever a stranger's run folder says, with fitting checksums: an error of ours, or a run that resumes.

`RECOLLECT_FORGERIES` is how many are tried; `make chaos` tries 20,000 of them.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from recollect import keys
from recollect.config import build, resolve
from recollect.errors import StorageError
from recollect.learner import Learner
from tests.fuzz_runs import RESUMED, UNTYPED
from tests.fuzzing import newest_commit, newest_manifest, reseal, write_record
from tests.schemes import make_scheme

KINDS: dict[str, dict[str, Any]] = {
    "replay": {"algo": "ddqn", "storage": "ere"},
    "sequences": {"algo": "ddqn", "storage": "per", "memory": "gru"},
    "rollouts": {"algo": "ppo", "storage": "gae"},
}
NUM_FORGERIES = -(-int(os.environ.get("RECOLLECT_FORGERIES", "1000")) // len(KINDS))
TINY: dict[str, Any] = {"hidden_sizes": (8,), "update_every": 8, "num_envs": 2, "num_test_envs": 1, "test_every": 0}
OF_REPLAY: dict[str, Any] = {"storage.size": 200, "start_steps": 16, "mini_batch_size": 8, "num_mini_batch": 2}


def honest(kind: str, folder: Path) -> Path:
    """A small run with a checkpoint."""
    options = {**TINY, **KINDS[kind], "seed": 1, "steps": 1000}
    options |= OF_REPLAY if kind != "rollouts" else {"num_mini_batch": 1}
    config = resolve(options.pop("algo"), "CartPole-v1", preset="none", overrides=options)
    learner = Learner(build(config), 1000, folder, config=config.to_document(), checkpoint_every=10**6)
    while learner.num_steps < 80:
        learner.step()
    learner.save_checkpoint()
    learner.stop()
    return folder


def try_forgeries(source: Path, first: int, number: int, **environment: str) -> list[tuple[int, str, str]]:
    """Try some forgeries of a run in another process, so that one that ends the process is noticed."""
    words = [sys.executable, "-m", "tests.fuzz_runs", str(source), str(first), str(number)]
    env = {**os.environ, **environment}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3], env=env)
    found = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert len(found) == number, f"forgery {first + len(found)} ended the process: {done.stderr[-2000:]}"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_forged_run_is_refused_or_resumes(kind: str, tmp_path: Path) -> None:
    source = honest(kind, tmp_path / "honest")
    first = 10**6 * list(KINDS).index(kind)
    found = try_forgeries(source, first, NUM_FORGERIES)
    assert [each for each in found if each[2].startswith(UNTYPED)] == []
    outcomes = Counter(outcome for _, _, outcome in found)
    assert outcomes[RESUMED] > 0, "some forgeries change nothing that matters"
    assert sum(outcomes.values()) - outcomes[RESUMED] > len(found) / 4


@pytest.mark.long
def test_no_index_of_a_kernel_leaves_its_array_in_forged_runs(tmp_path: Path) -> None:
    source = honest("sequences", tmp_path / "honest")
    # Kernels that were compiled without are not to be found.
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    found = try_forgeries(source, 5 * 10**6, 300, **checked)
    assert [each for each in found if each[2].startswith(UNTYPED)] == []


FORGED_MANIFESTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "a head beyond all steps": (("cursors", "heads", "0"), 2**62),
    "a head that is negative": (("cursors", "heads", "0"), -1),
    "a first behind the head": (("cursors", "firsts", "1"), 2**30),
    "lanes that are not there": (("chunks", "0", "group"), 7),
    "a file elsewhere": (("chunks", "0", "file"), "../../../etc/passwd"),
    "a lane of nobody": (("store", "sources", "0", "1"), 64),
    "a lane that is negative": (("store", "sources", "0", "1"), -2),
    "envs without number": (("num_envs",), 2**40),
    "no envs": (("num_envs",), 0),
    "a schema without fields": (("schema",), "{}"),
    "a schema of another dtype": (("schema",), '{"steps":[[["Reward"],[1],"V1000000000000"]]}'),
}


@pytest.mark.parametrize("forgery", FORGED_MANIFESTS)
def test_numbers_of_a_manifest_are_checked_before_they_are_used(forgery: str, tmp_path: Path) -> None:
    run = honest("replay", tmp_path)
    path, (keys, value) = newest_manifest(run), FORGED_MANIFESTS[forgery]
    head, text = path.read_bytes().splitlines()
    content = holder = json.loads(text)
    for key in keys[:-1]:
        holder = holder[int(key) if isinstance(holder, list) else key]
    holder[int(keys[-1]) if isinstance(holder, list) else keys[-1]] = value
    write_record(path, json.loads(head), content)
    for older in sorted((run / "checkpoints").iterdir())[:-1]:
        (older / "commit.json").unlink()
    reseal(run)
    assert newest_commit(run).exists()
    config = resolve("ddqn", "CartPole-v1", preset="none", overrides={**TINY, **OF_REPLAY, "storage": "ere", "seed": 1})
    with pytest.raises(StorageError, match=r"manifest.*is damaged"):
        Learner(build(config), 1000, run, resume=True)


@pytest.mark.parametrize("key", [keys.OBS, keys.RHS, keys.DONE])
def test_episodes_of_another_form_are_refused_before_anything_acts_on_them(key: str) -> None:
    acting = make_scheme().col_worker.acting  # type: ignore[union-attr]
    before = acting.latest_obs
    with pytest.raises(StorageError, match=rf"{key} of float32 \(\), expected float32 \("):
        acting.load_state({**acting.state(), key: torch.tensor(1.0)})
    assert acting.latest_obs is before
