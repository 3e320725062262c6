"""What is written as a tree of tensors and values is read as such, and nothing is executed on the way."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect.errors import StorageError
from recollect.runs.checkpointing.state_files import CapturedState, flatten, read_state, write_tensors


def write_state(folder: Path, name: str, state: object) -> None:
    for file, content in CapturedState.of(state).dump(name).items():
        (folder / file).write_bytes(content)


def test_a_tree_comes_back(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    state = {
        "numbers": {"int": 3, "float": 0.1, "big": 2**100, "none": None, "flag": True, "text": "ü"},
        "list": [1, [2, {"deep": shared[2:]}], torch.tensor(7), torch.tensor(8)],
        "views": {"even": shared[::2], "same": shared},
        0: {1: torch.tensor([True]), "half": torch.ones(2, dtype=torch.bfloat16)},
    }
    write_state(tmp_path, "state", state)
    found = read_state(tmp_path, "state")
    assert found["numbers"] == state["numbers"]
    assert found["list"][1][1]["deep"].tolist() == [2, 3, 4, 5]
    assert [int(tensor) for tensor in found["list"][2:]] == [7, 8]
    assert found["views"]["even"].tolist() == [0, 2, 4]
    assert found["views"]["same"].tolist() == shared.tolist()
    assert found[0][1].dtype == torch.bool
    assert found[0]["half"].dtype == torch.bfloat16


def test_other_kinds_of_numbers_become_plain(tmp_path: Path) -> None:
    write_state(tmp_path, "state", {"tuple": (1, 2), "numpy": np.float64(0.5), "array": np.arange(3)})
    found = read_state(tmp_path, "state")
    assert found["tuple"] == [1, 2]
    assert found["numpy"] == 0.5
    assert found["array"].tolist() == [0, 1, 2]


def test_the_state_of_generators_survives(tmp_path: Path) -> None:
    numpy_generator, torch_generator = np.random.default_rng(1), torch.Generator().manual_seed(2)
    numpy_generator.random(3), torch.rand(3, generator=torch_generator)
    write_state(
        tmp_path,
        "state",
        {"numpy": numpy_generator.bit_generator.state, "torch": torch_generator.get_state()},
    )
    found = read_state(tmp_path, "state")
    other_numpy, other_torch = np.random.default_rng(), torch.Generator()
    other_numpy.bit_generator.state = found["numpy"]
    other_torch.set_state(found["torch"])
    assert other_numpy.random() == numpy_generator.random()
    assert torch.equal(torch.rand(3, generator=other_torch), torch.rand(3, generator=torch_generator))


def test_what_cannot_be_held_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot hold set at 'a/0/b'"):
        write_state(tmp_path, "state", {"a": [{"b": {1, 2}}]})


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def replace(path: Path) -> None:
    path.write_bytes(b"{}")


@pytest.mark.parametrize("file", ["state.json", "state.safetensors"])
@pytest.mark.parametrize("damage", [cut_short, Path.unlink, replace])
def test_damage_is_an_error(file: str, damage: Any, tmp_path: Path) -> None:
    write_state(tmp_path, "state", {"weights": torch.ones(3)})
    damage(tmp_path / file)
    if (damage, file) == (replace, "state.json"):
        assert read_state(tmp_path, "state") == {}
        return
    with pytest.raises(StorageError, match="cannot be read"):
        read_state(tmp_path, "state")


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"state\.safetensors cannot be written: No such file"):
        write_tensors(tmp_path / "absent" / "state.safetensors", {"weights": torch.ones(3)})


def test_batches_become_flat() -> None:
    flat = flatten({"Reward": torch.ones(2), "Observation": {"a": np.zeros(3), "b": {"c": torch.ones(1)}}})
    assert {name: tuple(tensor.shape) for name, tensor in flat.items()} == {
        "Reward": (2,),
        "Observation/a": (3,),
        "Observation/b/c": (1,),
    }
