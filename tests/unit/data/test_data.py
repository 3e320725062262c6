"""Data in and out: what is stored comes back to the bit, whatever it is and wherever it was."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
import torch

import recollect as rc
from recollect import keys
from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.cli import main
from recollect.data.episode import Episode, Spaces
from recollect.data.sources import load_into, open_source, write_episodes
from recollect.data.storing import episodes_in, spaces_of
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
    if isinstance(one, list):
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    elif isinstance(one, dict):
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
    with pytest.raises(ConfigError, match="exists already"):
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
    monkeypatch.setattr("recollect.data.npz.MAX_BYTES", 1 << 20)
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


def make_episode(num_steps: int = 3, **fields: Any) -> Episode:
    values = {
        "observations": np.arange(num_steps + 1, dtype=np.float32)[:, None],
        "actions": np.zeros((num_steps, 1), np.float32),
        "rewards": np.ones(num_steps, np.float32),
    }
    return Episode(**{**values, "is_terminated": True, "is_truncated": False, **fields})


SPACES = Spaces(gym.spaces.Box(-np.inf, np.inf, (1,)), gym.spaces.Box(-1, 1, (1,)))


def test_a_dataset_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def failing() -> Iterator[Episode]:
        yield make_episode()
        raise RuntimeError("the source fails")

    with pytest.raises(RuntimeError, match="the source fails"):
        write_episodes(tmp_path / "data-v0", failing(), SPACES)
    with pytest.raises(SchemaError, match="no episodes to write"):
        write_episodes(tmp_path / "data-v0", [], SPACES)
    with pytest.raises(ConfigError, match="there is no dataset"):
        open_source(tmp_path / "data-v0")
    assert list((tmp_path / "data-v0").iterdir()) == []
    write_episodes(tmp_path / "data-v0", [make_episode()], SPACES)
    assert open_source(tmp_path / "data-v0").num_episodes == 1


def test_what_storages_keep_beside_is_not_nested_in_infos(tmp_path: Path) -> None:
    # Minari's Arrow files give nested infos back as objects.
    write_episodes(tmp_path / "data-v0", [make_episode(extras={keys.RHS: np.ones((3, 2), np.float32)})], SPACES)
    with h5py.File(next((tmp_path / "data-v0").rglob("*.hdf5"))) as file:
        assert isinstance(file[f"episode_0/infos/recollect:{keys.RHS}"], h5py.Dataset)


@pytest.mark.parametrize(
    ("data_format", "message"), [("arrow", "pip install pyarrow"), ("csv", "must be one of hdf5, arrow, got 'csv'")]
)
def test_formats_that_cannot_be_written_are_refused(
    data_format: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.data.minari.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=message):
        rc.save_minari(make_storage("vector", 1), tmp_path / "data-v0", data_format=data_format)
    assert list(tmp_path.iterdir()) == []


def test_arrow_files_survive_to_the_bit(tmp_path: Path) -> None:
    storage, other = make_storage("dict", 2), rc.ReplayBuffer.standalone(200)
    rc.load_minari(rc.save_minari(storage, tmp_path / "data-v0", data_format="arrow"), into=other)
    assert_same_episodes(storage, other)


@pytest.mark.parametrize("place", ["data-v0", "data.npz"])
def test_flags_and_whole_numbers_have_spaces(place: str, tmp_path: Path) -> None:
    storage = rc.ReplayBuffer.standalone(10)
    for step in range(5):
        storage.add(np.array([[step, -step]]), np.array([step % 2 == 0]), np.ones(1), np.array([[step + 1, -step - 1]]),
                    np.array([step == 4]), np.array([False]))  # fmt: skip
    write_episodes(tmp_path / place, episodes_in(storage), spaces_of(storage))
    source, other = open_source(tmp_path / place), rc.ReplayBuffer.standalone(10)
    assert (source.spaces.observation, source.spaces.action) == (
        gym.spaces.Box(-(2**63), 2**63 - 1, (2,), np.int64),
        gym.spaces.Box(0, 1, (), np.bool_),
    )
    load_into(other, source)
    assert_same(found_in(storage), found_in(other))


def test_an_episode_that_terminated_is_not_truncated_too(tmp_path: Path) -> None:
    for name in ("data.npz", "data-v0"):
        write_episodes(tmp_path / name, [make_episode(is_truncated=True)], SPACES)
        (episode,) = open_source(tmp_path / name)
        assert (episode.is_terminated, episode.is_truncated) == (True, False)


def test_parts_with_a_slash_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="without a slash"):
        make_episode(observations={"a/b": np.zeros((4, 1), np.float32)})


@pytest.mark.parametrize("place", ["data.npz", "data-v0"])
def test_data_are_overwritten_only_if_asked(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = f"./{place}"
    for name, num_steps in (("short.npz", 3), ("long.npz", 9)):
        write_episodes(name, [make_episode(num_steps)], SPACES)
    convert = ["data", "convert", "short.npz", "--to", target]
    assert main(convert) == 0
    assert main(["data", "merge", target, "long.npz", "--to", target]) == 2
    assert "overwrite it: --force" in capsys.readouterr().err
    assert [len(episode) for episode in open_source(target)] == [3]
    # Into one of the sources, too.
    assert main(["data", "merge", target, "long.npz", "--to", target, "--force"]) == 0
    assert [len(episode) for episode in open_source(target)] == [3, 9]


def test_what_is_overwritten_stays_until_the_new_data_are_whole(tmp_path: Path) -> None:
    def failing() -> Iterator[Episode]:
        yield make_episode()
        raise ValueError("no more")

    for place in (tmp_path / "data.npz", tmp_path / "data-v0"):
        write_episodes(place, [make_episode(4)], SPACES)
        with pytest.raises(ValueError, match="no more"):
            write_episodes(place, failing(), SPACES, overwrite=True)
        assert [len(episode) for episode in open_source(place)] == [4]


def test_places_that_cannot_be_written_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="name another place"):
        write_episodes(tmp_path / "file" / "data.npz", [make_episode()], SPACES)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        write_episodes(tmp_path / "folder.npz", [make_episode()], SPACES)
    with pytest.raises(StorageError, match="name another place"):
        write_episodes(tmp_path / "folder.npz", [make_episode()], SPACES, overwrite=True)
    root = write_episodes(tmp_path / "data-v0", [make_episode()], SPACES)
    with pytest.raises(ConfigError, match="the folder around it"):
        write_episodes(root / "data", [make_episode()], SPACES, overwrite=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["convert", "data.npz", "--to", "new.npz", "--episodes", "0:1"], "recollect data slice"),
        (["merge", "data.npz", "--to", "new.npz", "--max-steps", "3"], "got --max-steps"),
        (["info", "data.npz", "--to", "new.npz"], "writes nothing"),
        (["info", "data.npz", "data.npz"], "takes one source"),
        (["slice", "data.npz", "--episodes", "0:1"], "needs a place"),
    ],
)
def test_options_that_an_action_does_not_take_are_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_episodes("data.npz", [make_episode()], SPACES)
    assert main(["data", *words]) == 2
    assert message in capsys.readouterr().err
    assert not Path("new.npz").exists()
