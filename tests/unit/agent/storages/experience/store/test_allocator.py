"""Where the bytes live: estimates, limits, files, and pages that are committed only when used."""

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from recollect import keys
from recollect.agent.storages import HERBuffer, NStepReplayBuffer, PERBuffer, ReplayBuffer
from recollect.agent.storages.experience.store import allocator as memory_module
from recollect.agent.storages.experience.store.allocator import Allocator, human_bytes
from recollect.errors import ConfigError, StorageError
from tests.samples import make_slice, numbers_of, reward_if_reached, with_goals

LOGGER = memory_module.__name__
# Rows of `make_slice`: 8 bytes of flags and references, reward 4, action 4, observation 8.
ROW_BYTES = 24


def wide_slice(num_steps: int) -> dict[str, Any]:
    """Steps with observations float32[17] and actions float32[6]: rows of 8 + 4 + 24 + 68 = 104 bytes."""
    steps = make_slice(num_steps)
    observations = {key: np.repeat(steps[key][..., :1], 17, axis=-1) for key in (keys.OBS, keys.NEXT_OBS)}
    return steps | observations | {keys.ACTION: np.repeat(steps[keys.ACTION], 6, axis=-1)}


def fill_disk(patch: pytest.MonkeyPatch, after: int = 0) -> None:
    """Let only the next `after` reservations of disk space succeed."""
    reserve, calls = os.posix_fallocate, iter(range(after))

    def reserve_or_refuse(descriptor: int, start: int, num_bytes: int) -> None:
        if next(calls, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(descriptor, start, num_bytes)

    patch.setattr(os, "posix_fallocate", reserve_or_refuse)


def assert_holds(memory: ReplayBuffer, begin: int, end: int) -> None:
    """Check that steps `begin` to `end - 1` of `make_slice` are stored and drawn."""
    stored = memory.get_all_buffer_data()
    assert torch.equal(stored[keys.OBS][:, 0, 0], torch.arange(float(begin), float(end)))
    batch = memory.sample(200)
    assert torch.equal(batch[keys.OBS][:, 0], numbers_of(batch).float())


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (104_000_000, "104.0 MB"), (2.5e13, "25.0 TB")],
)
def test_bytes_are_written_for_people(num_bytes: float, text: str) -> None:
    assert human_bytes(num_bytes) == text


def test_the_estimate_is_logged_before_anything_is_allocated(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate, num_logged = Allocator.allocate, []

    def allocate_and_note(*arguments: Any, **options: Any) -> np.ndarray:
        num_logged.append(len(caplog.records))
        return allocate(*arguments, **options)

    monkeypatch.setattr(Allocator, "allocate", allocate_and_note)
    memory = ReplayBuffer.standalone(1_000_000)
    with caplog.at_level(logging.INFO, LOGGER):
        memory.insert_data_slice(wide_slice(1))
    # An end keeps the observation that it led to: 68 bytes, in words of 8.
    assert caplog.messages == [
        "store of 1,000,000 steps: 104.0 MB when full, 104 bytes a step and 72 more where an episode ends (ram)"
    ]
    assert num_logged
    assert set(num_logged) == {1}


def test_the_estimate_counts_priorities(caplog: pytest.LogCaptureFixture) -> None:
    memory = PERBuffer.standalone(1_000_000, alpha=0.6)
    with caplog.at_level(logging.INFO, LOGGER):
        memory.insert_data_slice(wide_slice(1))
    # An error of 4 bytes, a leaf of 8, and the sums above it: 8 / 7.
    num_bytes = float(caplog.messages[0].split(" bytes a step")[0].split()[-1])
    assert num_bytes == pytest.approx(104 + 4 + 8 + 8 / 7, abs=1)


def test_more_than_the_machine_has_is_refused_with_the_size_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_module, "machine_memory", lambda: ROW_BYTES * 5_000)
    memory = ReplayBuffer.standalone(50_000)
    with pytest.raises(ConfigError, match=r"50,000 steps takes 1\.2 MB .* 120\.0 kB: about 4,900 steps would fit;"):
        memory.insert_data_slice(make_slice(3))
    assert len(memory) == 0
    memory.update_storage_parameter("max_size", 4_900)
    memory.insert_data_slice(make_slice(3))
    assert_holds(memory, 0, 3)


def test_of_several_envs_the_size_that_fits_is_that_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "machine_memory", lambda: ROW_BYTES * 5_000)
    memory = ReplayBuffer.standalone(50_000, num_envs=3)
    with pytest.raises(ConfigError, match=r"150,000 steps .* about 4,800 steps would fit, 1,600 for each of 3 envs;"):
        memory.insert_data_slice(make_slice(3, num_envs=3))
    memory.update_storage_parameter("max_size", 1_600)
    memory.insert_data_slice(make_slice(3, num_envs=3))
    assert len(memory) == 9


def test_growing_beyond_the_machine_is_refused_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "machine_memory", lambda: ROW_BYTES * 5_000)
    memory = ReplayBuffer.standalone(10, seed=1)
    memory.insert_data_slice(make_slice(13))
    with pytest.raises(ConfigError, match="would fit"):
        memory.update_storage_parameter("max_size", 50_000)
    assert memory.max_size == 10
    assert_holds(memory, 3, 13)


def test_steps_that_move_are_held_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ReplayBuffer.standalone(4_000, seed=1)
    memory.insert_data_slice(make_slice(3_000))
    monkeypatch.setattr(memory_module, "machine_memory", lambda: ROW_BYTES * 5_000)
    for change in (
        lambda: memory.update_storage_parameter("max_size", 4_500),
        lambda: memory.insert_data_slice(make_slice(1), source="new"),
    ):
        with pytest.raises(ConfigError, match=r"held twice, which takes 144\.0 kB, and this machine has 120\.0 kB"):
            change()
        assert (memory.max_size, memory.store.sources) == (4_000, [0])
        assert_holds(memory, 0, 3_000)
    # 3,000 steps, and the 1,000 of them that stay.
    memory.update_storage_parameter("max_size", 1_000)
    assert_holds(memory, 2_000, 3_000)


@pytest.mark.parametrize("limit_file", ["memory.max", "memory/memory.limit_in_bytes"])
@pytest.mark.parametrize(("limit", "expected"), [("1000000\n", 1_000_000), ("max\n", None), ("9" * 19, None)])
def test_a_containers_limit_counts_where_it_is_less(
    limit_file: str, limit: str, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> str:
        if path != Path("/sys/fs/cgroup") / limit_file:
            raise FileNotFoundError(path)
        return limit

    monkeypatch.setattr(Path, "read_text", read)
    assert memory_module.machine_memory() == (expected or psutil.virtual_memory().total)


def test_no_machine_holds_a_trillion_steps() -> None:
    memory = ReplayBuffer.standalone(10**12)
    with pytest.raises(ConfigError, match="backing='file'"):
        memory.insert_data_slice(make_slice(1))


@pytest.mark.parametrize("backing", ["ram", "shared", "file"])
def test_every_backing_wraps_grows_and_takes_new_sources(backing: str, tmp_path: Path) -> None:
    path = tmp_path / "store" if backing == "file" else None
    memory = NStepReplayBuffer.standalone(40, seed=1, n_step=3, backing=backing, path=path)
    memory.insert_data_slice(make_slice(50, terminated=range(4, 50, 5)))
    assert_holds(memory, 10, 50)
    memory.update_storage_parameter("max_size", 60)
    memory.insert_data_slice(make_slice(5, first=50))
    assert_holds(memory, 10, 55)
    memory.insert_data_slice(make_slice(40), source="other")
    stored = {source: memory.get_all_buffer_data(source=source)[keys.ACTION].ravel() for source in (0, "other")}
    assert torch.equal(stored[0], torch.arange(25.0, 55.0))
    assert torch.equal(stored["other"], torch.arange(10.0, 40.0))
    assert len(memory) == 60


def test_hindsight_and_priorities_work_on_a_file(tmp_path: Path) -> None:
    memory = HERBuffer.standalone(
        30,
        seed=1,
        alpha=0.6,
        strategy="final",
        share=1.0,
        compute_reward=reward_if_reached,
        backing="file",
        path=tmp_path,
    )
    memory.insert_data_slice(with_goals(make_slice(40, terminated=range(9, 40, 10))))
    batch = memory.sample(100)
    expected = (numbers_of(batch) // 10) * 10 + 9.5
    assert torch.equal(batch[keys.OBS][keys.DESIRED_GOAL].ravel(), expected)


def test_a_files_disk_space_is_taken_when_the_store_is_built(tmp_path: Path) -> None:
    memory = ReplayBuffer.standalone(10_000, backing="file", path=tmp_path)
    memory.insert_data_slice(make_slice(1))
    taken = {path.name: path.stat().st_blocks * 512 for path in tmp_path.glob("*.bytes")}
    assert taken["1-rows.bytes"] >= ROW_BYTES * 10_001
    assert sum(taken.values()) < 2 * ROW_BYTES * 10_001


def test_resizing_removes_the_files_of_before(tmp_path: Path) -> None:
    memory = ReplayBuffer.standalone(10, backing="file", path=tmp_path)
    memory.insert_data_slice(make_slice(3))
    memory.update_storage_parameter("max_size", 20)
    assert {path.name.split("-")[0] for path in tmp_path.glob("*.bytes")} == {"2"}


def test_a_folder_that_holds_a_store_is_refused(tmp_path: Path) -> None:
    first = ReplayBuffer.standalone(10, seed=1, backing="file", path=tmp_path)
    first.insert_data_slice(make_slice(3))
    second = ReplayBuffer.standalone(10, backing="file", path=tmp_path)
    with pytest.raises(ConfigError, match="holds a store already"):
        second.insert_data_slice(make_slice(3))
    assert_holds(first, 0, 3)


def test_a_folder_that_a_process_left_is_taken(tmp_path: Path) -> None:
    program = f"""
import os
from recollect import ReplayBuffer
from tests.unit.agent.storages.experience.store.test_allocator import make_slice
memory = ReplayBuffer.standalone(10, backing="file", path={str(tmp_path)!r})
memory.insert_data_slice(make_slice(3))
os.abort()
"""
    subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, cwd=Path(__file__).parents[6])
    assert list(tmp_path.glob("*.bytes"))
    (tmp_path / "mine.bytes").write_text("kept")
    memory = ReplayBuffer.standalone(20, seed=1, backing="file", path=tmp_path)
    memory.insert_data_slice(make_slice(5))
    assert_holds(memory, 0, 5)
    assert (tmp_path / "mine.bytes").exists()


@pytest.mark.parametrize(
    "options",
    [{"backing": "file"}, {"path": "somewhere"}, {"backing": "disk"}, {"backing": "shared", "path": "x"}],
)
def test_a_path_goes_with_files_and_only_with_them(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="backing"):
        ReplayBuffer.standalone(10, **options)


def test_a_full_disk_is_an_error_when_the_store_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ReplayBuffer.standalone(10_000, seed=1, backing="file", path=tmp_path)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        with pytest.raises(StorageError, match=r"no room for 240\.0 kB at .*rows.* about [\d,]+ steps would fit"):
            memory.insert_data_slice(make_slice(3))
    assert len(memory) == 0
    memory.insert_data_slice(make_slice(3))
    assert_holds(memory, 0, 3)


@pytest.mark.parametrize("size", [10**12, 10**15, 10**19])
def test_a_store_larger_than_the_disk_is_refused_with_the_size_that_fits(size: int, tmp_path: Path) -> None:
    memory = ReplayBuffer.standalone(size, seed=1, backing="file", path=tmp_path / "store")
    with pytest.raises(StorageError, match=r"when full, and .* are free at .*: about [\d,]+ steps would fit"):
        memory.insert_data_slice(make_slice(3))
    assert len(memory) == 0
    assert not list(tmp_path.rglob("*.bytes"))
    memory.update_storage_parameter("max_size", 10)
    memory.insert_data_slice(make_slice(3))
    assert_holds(memory, 0, 3)


@pytest.mark.parametrize("refusal", [OSError(errno.EFBIG, "File too large"), OverflowError("too large")])
@pytest.mark.parametrize("num_reserved", [0, 1])
def test_what_the_file_system_refuses_says_what_would_fit(
    refusal: Exception, num_reserved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, reserve, calls = make_slice(3), os.posix_fallocate, iter(range(num_reserved))
    images = {key: np.repeat(steps[key], 1000, axis=-1) for key in (keys.OBS, keys.NEXT_OBS)}

    def refuse(descriptor: int, start: int, num_bytes: int) -> None:
        if next(calls, None) is None:
            raise refusal
        reserve(descriptor, start, num_bytes)

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    memory = ReplayBuffer.standalone(100, backing="file", path=tmp_path)
    with pytest.raises(StorageError, match=r"\((File )?too large\).* about [\d,]+ steps would fit"):
        memory.insert_data_slice(steps | images)
    assert list(tmp_path.glob("*.bytes")) == []


def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="path="):
            ReplayBuffer.standalone(10, backing="file", path=path).insert_data_slice(make_slice(3))


def test_a_disk_that_fills_up_refuses_the_insert_and_keeps_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = ReplayBuffer.standalone(20_000, seed=1, backing="file", path=tmp_path)
    memory.insert_data_slice(make_slice(10))
    every_step_ends = make_slice(10_000, first=10, terminated=range(10, 10_010))
    with monkeypatch.context() as patch:
        fill_disk(patch)
        with pytest.raises(StorageError, match="no room"):
            memory.insert_data_slice(every_step_ends)
        assert_holds(memory, 0, 10)
    memory.insert_data_slice(every_step_ends)
    assert_holds(memory, 0, 10_010)


@pytest.mark.parametrize("num_reserved", [0, 1])
def test_a_refused_store_leaves_no_files(num_reserved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = make_slice(3)
    images = {key: np.repeat(steps[key], 1000, axis=-1) for key in (keys.OBS, keys.NEXT_OBS)}
    fill_disk(monkeypatch, after=num_reserved)
    memory = ReplayBuffer.standalone(100, backing="file", path=tmp_path)
    with pytest.raises(StorageError):
        memory.insert_data_slice(steps | images)
    assert list(tmp_path.glob("*.bytes")) == []


def test_a_refused_growth_leaves_no_files_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ReplayBuffer.standalone(10, seed=1, backing="file", path=tmp_path)
    memory.insert_data_slice(make_slice(12, terminated=[11]))
    before = sorted(tmp_path.iterdir())
    for num_reserved in (0, 1):
        with monkeypatch.context() as patch:
            fill_disk(patch, after=num_reserved)
            with pytest.raises(StorageError):
                memory.update_storage_parameter("max_size", 1_000)
        assert memory.max_size == 10
        assert_holds(memory, 2, 12)
    assert sorted(tmp_path.iterdir()) == before


def test_a_store_larger_than_ram_works_on_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "machine_memory", lambda: 100_000)
    with pytest.raises(ConfigError):
        ReplayBuffer.standalone(30_000).insert_data_slice(make_slice(1))
    memory = NStepReplayBuffer.standalone(30_000, seed=1, n_step=2, backing="file", path=tmp_path)
    for first in range(0, 50_000, 10_000):
        memory.insert_data_slice(make_slice(10_000, first=first, truncated=range(99, 50_000, 100)))
    assert memory.num_bytes > 700_000
    assert_holds(memory, 20_000, 50_000)


GROWTH = """
import ctypes
import psutil
from recollect.agent.storages import PERBuffer, ReplayBuffer
from tests.unit.agent.storages.experience.store.test_allocator import wide_slice

def use(size):
    memory = {buffer}.standalone(size, **{options})
    for _ in range(3):
        memory.insert_data_slice(wide_slice(50))
        memory.reset()
    memory.insert_data_slice(wide_slice(50))
    assert len(memory) == 50
    return memory

# Without huge pages (PR_SET_THP_DISABLE): whether there are any left depends on what else the machine does, and each
# that is touched counts for 2 MB then.
assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0
warm_up = use(100)
before = psutil.Process().memory_info().rss
memory = use(1_000_000)
print(psutil.Process().memory_info().rss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("buffer", "options"), [("ReplayBuffer", {}), ("PERBuffer", {"alpha": 0.6})])
def test_a_large_store_that_holds_little_takes_little(buffer: str, options: dict[str, float]) -> None:
    # A process of its own: what earlier tests left to be freed or reused does not count.
    program = GROWTH.format(buffer=buffer, options=options)
    root = Path(__file__).parents[5]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    # Full, the store takes 104 MB, and 118 MB with priorities.
    assert int(done.stdout) < 4e6


def test_shared_memory_is_seen_by_forked_processes() -> None:
    memories = {backing: ReplayBuffer.standalone(10, seed=1, backing=backing) for backing in ("shared", "ram")}
    for memory in memories.values():
        memory.insert_data_slice(make_slice(4))
    child = os.fork()
    if child == 0:
        for memory in memories.values():
            memory.data[keys.REWARD].numpy()[...] = 7
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    rewards = {backing: memory.sample(20)[keys.REWARD].unique() for backing, memory in memories.items()}
    assert rewards["shared"].tolist() == [7]
    assert 7 not in rewards["ram"]
