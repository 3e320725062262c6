"""Every version of weights is put into the object store once."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recollect.scheme.base import engine
from recollect.scheme.weights import PublishedWeights, pack_weights, unpack_weights


def test_weights_arrive_as_they_were() -> None:
    module = nn.BatchNorm1d(3)
    module.running_mean.add_(2.0)
    found = unpack_weights(pack_weights(module))
    assert found.keys() == module.state_dict().keys()
    assert all(torch.equal(tensor, found[name]) for name, tensor in module.state_dict().items())


def test_arrays_that_cannot_be_written_to_are_no_problem(recwarn: pytest.WarningsRecorder) -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    unpack_weights({"w": array})["w"].zero_()
    assert array.tolist() == [1, 1, 1]
    assert not recwarn


def test_one_put_for_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    puts: list[Any] = []
    monkeypatch.setattr(engine, "put", lambda value: puts.append(value) or len(puts))
    weights, module = PublishedWeights(), nn.Linear(2, 1)
    assert weights.number == 0
    assert weights.publish(module, 0) == weights.publish(module, 0) == (1, 1)
    assert weights.publish(module, 50) == (2, 2)
    assert weights.number == len(puts) == 2
