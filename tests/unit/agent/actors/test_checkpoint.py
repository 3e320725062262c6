import errno
from pathlib import Path

import pytest
import torch
from torch import nn

from recollect.agent.actors.checkpoint import load_weights, save_weights
from recollect.errors import ConfigError, SchemaError, StorageError
from tests.faulty_disk import FailingOS, on_disk


def test_weights_and_buffers_come_back_bit_for_bit(tmp_path: Path) -> None:
    saved, loaded = (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(2))
    saved(torch.randn(4, 3))
    save_weights(saved, tmp_path / "new" / "folder" / "actor.safetensors")
    load_weights(loaded, tmp_path / "new" / "folder" / "actor.safetensors")
    for name, tensor in saved.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_a_checkpoint_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    for _ in range(2):
        save_weights(nn.Linear(3, 2), path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no checkpoint at .*gone\.safetensors"):
        load_weights(nn.Linear(3, 2), tmp_path / "gone.safetensors")


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(SchemaError, match="not a readable"):
        load_weights(nn.Linear(3, 2), path)


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (nn.Linear(4, 2), r"'weight' has shape \(2, 3\), expected \(2, 4\)"),
        (nn.Linear(3, 2, bias=False), "only the file has 'bias'"),
        (nn.Bilinear(3, 3, 2), "has shape"),
        (nn.Sequential(nn.Linear(3, 2)), "only this actor has '0.bias'"),
    ],
)
def test_a_checkpoint_of_another_shape_changes_nothing(tmp_path: Path, other: nn.Module, complaint: str) -> None:
    save_weights(nn.Linear(3, 2), tmp_path / "actor.safetensors")
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(SchemaError, match=complaint):
        load_weights(other, tmp_path / "actor.safetensors")
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())


def test_what_cannot_be_written_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "actor.safetensors"
    save_weights(nn.Linear(3, 2), path)
    before = path.read_bytes()

    on_disk(FailingOS(2, OSError(errno.ENOSPC, "No space left on device"), tears=True), monkeypatch)
    with pytest.raises(StorageError, match=r"actor\.safetensors cannot be written: No space left"):
        save_weights(nn.Linear(3, 2), path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before
