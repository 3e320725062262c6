"""Data in and out: what is stored comes back to the bit, whatever it is and wherever it was."""

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import recollect as rc
from recollect import keys
from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.cli import main
from recollect.data.episode import Episode
from recollect.data.sources import open_source, write_episodes
from recollect.errors import ConfigError, SchemaError, StorageError


def draw(rng: np.random.Generator, kind: str, num_envs: int) -> Any:
    vector = rng.normal(size=(num_envs, 3)).astype(np.float32)
    image = rng.integers(0, 256, (num_envs, 8, 8, 3), dtype=np.uint8)
    return {"vector": vector, "image": image, "dict": {"a": vector, "b": {"c": image}}}[kind]


def chosen(mask: np.ndarray, first: Any, second: Any) -> Any:
    if isinstance(first, dict):
        return {name: chosen(mask, first[name], second[name]) for name in first}
    return np.where(mask.reshape(-1, *[1] * (first.ndim - 1)), first, second)


def make_storage(kind: str, num_envs: int, num_steps: int = 70, **options: Any) -> rc.ReplayBuffer:
    """A storage that has wrapped, with episodes that terminated, were truncated, or are in progress."""
    rng = np.random.default_rng(7)
    storage = rc.ReplayBuffer.standalone(50, num_envs=num_envs, **options)
    obs = draw(rng, kind, num_envs)
    for _ in range(num_steps):
        following = draw(rng, kind, num_envs)
        terminated = rng.random(num_envs) < 0.1
        truncated = (rng.random(num_envs) < 0.1) & ~terminated
        action = rng.normal(size=(num_envs, 2)).astype(np.float32)
        storage.add(obs, action, rng.normal(size=num_envs).astype(np.float32), following, terminated, truncated)
        obs = chosen(terminated | truncated, draw(rng, kind, num_envs), following)
    return storage


def found_in(storage: BaseBuffer) -> list[dict[str, Any]]:
    episodes = [{key: value for key, value in steps.items() if key != keys.CUT} for steps in storage.episodes()]
    return sorted(episodes, key=lambda steps: steps[keys.REWARD].flatten().tolist())


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def assert_same_episodes(one: BaseBuffer, other: BaseBuffer) -> None:
    pairs = list(zip(found_in(one), found_in(other), strict=True))
    assert len(pairs) > 2
    for first, second in pairs:
        assert_same(first, second)


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("kind", ["vector", "image", "dict"])
def test_a_storage_survives_minari_and_npz_to_the_bit(kind: str, num_envs: int, tmp_path: Path) -> None:
    storage = make_storage(kind, num_envs)
    folder = rc.save_minari(storage, tmp_path / "data-v0")
    source = open_source(folder)
    write_episodes(tmp_path / "data.npz", source, source.spaces)
    write_episodes(tmp_path / "again-v0", open_source(tmp_path / "data.npz"), source.spaces)
    for name in ("data-v0", "again-v0"):
        for size, num_lanes in ((200, 1), (100, 2)):
            other = rc.ReplayBuffer.standalone(size, num_envs=num_lanes)
            assert rc.load_minari(tmp_path / name, into=other) is other
            assert_same_episodes(storage, other)
    flags = [(bool(steps[keys.NEXT_DONE][-1]), bool(steps[keys.NEXT_TERMINATED][-1])) for steps in found_in(storage)]
    assert set(flags) == {(True, True), (True, False), (False, False)}, "weak test"


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, "gru"])
def test_an_agents_replay_survives_in_the_envs_units(memory: str | None, tmp_path: Path) -> None:
    options: dict[str, Any] = {"hidden_sizes": (8,), "start_steps": 100, "num_envs": 2, "seed": 1}
    if memory:
        options |= {"memory": memory, "memory_size": 3}
    with rc.Agent("sac", "Pendulum-v1", **options) as agent, rc.Agent("sac", "Pendulum-v1", **options) as other:
        agent.learn(450, progress=False)
        storage, target = (each.scheme.col_worker.storage for each in (agent, other))
        assert isinstance(storage, BaseBuffer)
        assert isinstance(target, BaseBuffer)
        folder = rc.save_minari(storage, tmp_path / "data-v0", env="Pendulum-v1")
        largest = max(float(np.abs(episode.actions).max()) for episode in open_source(folder))
        assert 1 < largest <= 2
        rc.load_minari(folder, into=target)
        assert_same_episodes(storage, target)
        other.learn(300, progress=False)  # what the envs give fits behind it
        # What others collected knows no policy's units.
        plain = [Episode(e.observations, e.actions, e.rewards, e.is_terminated, e.is_truncated) for e in
                 open_source(folder)]  # fmt: skip
        write_episodes(tmp_path / "plain.npz", plain, open_source(folder).spaces)
        agent.save(tmp_path / "run", with_storage=True)
        stored = np.concatenate([steps[keys.ACTION].numpy() for steps in storage.episodes()])
    told = np.concatenate([episode.actions for episode in open_source(tmp_path / "plain.npz")])
    np.testing.assert_allclose(told, 2 * stored, atol=1e-6)
    assert sum(map(len, open_source(tmp_path / "run"))) == len(stored)


def test_snapshots_are_sources_too(tmp_path: Path) -> None:
    storage = make_storage("vector", 3)
    rc.save_storage(storage, tmp_path / "snapshot")
    expected = sorted(float(steps[keys.REWARD].sum()) for steps in storage.episodes())
    found = sorted(episode.total_reward for episode in open_source(tmp_path / "snapshot"))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_storage_in_files_takes_a_dataset_with_progress(tmp_path: Path) -> None:
    folder = rc.save_minari(make_storage("image", 1), tmp_path / "data-v0")
    other = rc.ReplayBuffer.standalone(100, backing="file", path=tmp_path / "store")
    rc.load_minari(folder, into=other, progress=True)
    assert len(other) == 50


def test_the_command_line_converts_merges_and_slices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = str(tmp_path / "first-v0"), str(tmp_path / "second.npz")
    rc.save_minari(make_storage("vector", 1), first)
    assert main(["data", "convert", first, "--to", second]) == 0
    assert main(["data", "merge", first, second, "--to", str(tmp_path / "both.npz")]) == 0
    num_episodes = len(list(open_source(second)))
    assert len(list(open_source(tmp_path / "both.npz"))) == 2 * num_episodes
    assert main(["data", "slice", second, "--to", str(tmp_path / "part.npz"), "--episodes", "1:4"]) == 0
    whole, part = list(open_source(second)), list(open_source(tmp_path / "part.npz"))
    assert [episode.total_reward for episode in part] == [episode.total_reward for episode in whole[1:4]]
    middle = sorted(episode.total_reward for episode in whole)[len(whole) // 2]
    assert main(["data", "slice", second, "--to", str(tmp_path / "good.npz"), "--min-return", str(middle)]) == 0
    assert all(episode.total_reward >= middle for episode in open_source(tmp_path / "good.npz"))
    capsys.readouterr()
    assert main(["data", "info", str(tmp_path / "both.npz")]) == 0
    told = capsys.readouterr().out
    assert f"episodes      {2 * num_episodes}" in told
    assert "steps         100" in told
    assert "█" in told


def test_a_dataset_without_spaces_is_refused_before_its_environment_is_made(tmp_path: Path) -> None:
    folder = rc.save_minari(make_storage("vector", 1), tmp_path / "data-v0", env="CartPole-v1")
    file = folder / "data" / "metadata.json"
    metadata = json.loads(file.read_text())
    del metadata["observation_space"]
    metadata["env_spec"] = metadata["env_spec"].replace("CartPole-v1", "antigravity:Fly-v0")
    file.write_text(json.dumps(metadata))
    with pytest.raises(SchemaError, match="nothing is imported"):
        open_source(folder)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive"])
def test_what_is_no_data_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises((SchemaError, StorageError)):
        open_source(tmp_path / "data.npz")


def test_damaged_arrays_are_refused(tmp_path: Path) -> None:
    source = open_source(rc.save_minari(make_storage("vector", 1), tmp_path / "data-v0"))
    path = write_episodes(tmp_path / "data.npz", source, source.spaces)
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "lengths": arrays["lengths"] + 1})
    with pytest.raises(SchemaError, match="damaged"):
        open_source(path)


def test_names_that_lead_nowhere_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no dataset"):
        rc.load_minari(tmp_path / "none-v0", into=rc.ReplayBuffer.standalone(10))
    storage = make_storage("vector", 1)
    rc.save_minari(storage, tmp_path / "data-v0")
    with pytest.raises(ConfigError, match="holds a dataset already"):
        rc.save_minari(storage, tmp_path / "data-v0")


def test_data_of_another_environment_are_refused(tmp_path: Path) -> None:
    folder = rc.save_minari(make_storage("image", 1), tmp_path / "data-v0")
    with rc.Agent("sac", "Pendulum-v1", hidden_sizes=(8,)) as agent:
        storage = agent.scheme.col_worker.storage
        assert isinstance(storage, BaseBuffer)
        with pytest.raises(SchemaError, match="the agent's"):
            rc.load_minari(folder, into=storage)


def test_an_archive_that_unpacks_to_more_than_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, rewards=np.zeros(1 << 20))
    monkeypatch.setattr("recollect.data.npz.MOST_BYTES", 1 << 20)
    assert path.stat().st_size < 1 << 14
    with pytest.raises(StorageError, match="unpacks to 8,388,"):
        open_source(path)


def test_arrays_without_an_axis_are_refused(tmp_path: Path) -> None:
    source = open_source(rc.save_minari(make_storage("vector", 1), tmp_path / "data-v0"))
    path = write_episodes(tmp_path / "data.npz", source, source.spaces)
    np.savez(path, **{**dict(np.load(path)), "rewards": np.float32(1)})
    with pytest.raises(SchemaError, match="no episodes"):
        open_source(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.npz")
    with pytest.raises(StorageError, match="no regular file"):
        open_source(tmp_path / "data.npz")


@pytest.mark.parametrize("kind", ["a link", "raw bytes", "a file"])
def test_a_dataset_takes_nothing_from_other_files(kind: str, tmp_path: Path) -> None:
    storage = make_storage("vector", 1)
    folder = rc.save_minari(storage, tmp_path / "data-v0")
    (main_file,) = folder.rglob("*.hdf5")
    if kind == "a file":
        main_file.rename(tmp_path / "other.hdf5")
        main_file.symlink_to(tmp_path / "other.hdf5")
    else:
        with h5py.File(main_file, "a") as file:
            del file["episode_0/rewards"]
            if kind == "a link":
                file["episode_0/rewards"] = h5py.ExternalLink(tmp_path / "other.hdf5", "/secret")
            else:
                external = [(str(tmp_path / "other"), 0, 32)]
                file.create_dataset("episode_0/rewards", (4,), "f8", external=external)
    with pytest.raises(StorageError, match=r"from another file|no regular file"):
        open_source(folder)
