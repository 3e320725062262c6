"""`recollect.adapters.torchrl`: our storages below TorchRL's losses and trainers."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from recollect.adapters.torchrl import EREBuffer, PERBuffer, ReplayBuffer
from recollect.errors import ConfigError, SchemaError, StorageError
from tests.unit.adapters.streams import Step, make_stream, window_of


def to_tensordict(stream: list[list[Step]]) -> TensorDict:
    """Steps `[num_envs, time]`, with nested keys."""
    by_env = list(zip(*stream, strict=True))

    def values(name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.tensor([[[getattr(step, name)] for step in steps] for steps in by_env], dtype=dtype)

    terminated, truncated = values("terminated", torch.bool), values("truncated", torch.bool)
    none = torch.zeros_like(terminated)
    return TensorDict(
        {
            "agent": {"observation": values("obs")},
            "action": values("action"),
            "extra": values("reward"),
            "done": none,
            "terminated": none,
            "truncated": none,
            "collector": {"traj_ids": torch.zeros(terminated.shape[:2], dtype=torch.int64)},
            "next": {
                "agent": {"observation": values("next_obs")},
                "reward": values("reward"),
                "done": terminated | truncated,
                "terminated": terminated,
                "truncated": truncated,
            },
        },
        terminated.shape[:2],
    )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    num_envs=st.integers(1, 3),
    n_step=st.integers(1, 4),
    is_flat=st.booleans(),
    kind=st.sampled_from([ReplayBuffer, PERBuffer, EREBuffer]),
)
def test_a_batch_holds_what_its_windows_say(seed: int, num_envs: int, n_step: int, is_flat: bool, kind: Any) -> None:
    stream = make_stream(seed, 30, num_envs)
    rb = kind(num_envs * 20, batch_size=16, gamma=0.9, n_step=n_step, num_envs=num_envs if is_flat else None)
    ids = []
    for begin in range(0, 30, 10):
        steps = to_tensordict(stream[begin : begin + 10])
        ids.append(rb.extend(steps.reshape(-1) if is_flat else steps))
    assert len(rb) == num_envs * 20
    assert rb.write_count == num_envs * 30
    batch = rb.sample()
    assert set(batch["index"].tolist()) <= set(torch.cat(ids).tolist())
    for row in batch.unbind(0):
        window = window_of(stream[-20:], row["agent", "observation"].item(), n_step)
        rewards = np.array([step.reward for step in window])
        expected = (rewards * 0.9 ** np.arange(len(window))).sum()
        assert row["next", "reward"].item() == pytest.approx(expected, abs=1e-5)
        assert row["next", "agent", "observation"].item() == window[-1].next_obs
        assert row["next", "terminated"].item() == window[-1].terminated
        assert row["next", "truncated"].item() == window[-1].truncated
        assert row["steps_to_next_obs"].item() == len(window)
        assert row["action"].item() == np.float32(window[0].action)
        assert row["extra"].item() == np.float32(window[0].reward)


def test_priorities_come_from_a_batch_or_from_ids() -> None:
    rb = PERBuffer(100, batch_size=64, alpha=1.0, epsilon=0.0, seed=1)
    ids = rb.extend(to_tensordict(make_stream(1, 40, 1)))
    rb.update_priority(ids, torch.zeros(40))
    rb.update_priority(ids[7:8], torch.ones(1))
    batch = rb.sample()
    assert set(batch["index"].tolist()) == {int(ids[7])}
    assert batch["priority_weight"].shape == (64,)
    batch["td_error"] = torch.zeros(64, 1)
    rb.update_priority(ids[3:5], torch.tensor([1.0, 3.0]))
    rb.update_tensordict_priority(batch)
    assert set(rb.sample()["index"].tolist()) == {int(ids[3]), int(ids[4])}


@pytest.mark.parametrize("kind", [ReplayBuffer, PERBuffer])
def test_state_dicts_are_tensors_and_continue_the_draws(kind: Any, tmp_path: Path) -> None:
    rb = kind(50, batch_size=16, n_step=2)
    assert kind(50).state_dict()["files"] == {}
    rb.extend(to_tensordict(make_stream(1, 40, 2)))
    file = io.BytesIO()
    torch.save(rb.state_dict(), file)
    file.seek(0)
    other = kind(50, batch_size=16, n_step=2)
    other.load_state_dict(torch.load(file, weights_only=True))
    rb.dumps(tmp_path / "snapshot")
    third = kind(50, batch_size=16, n_step=2, num_envs=2)
    third.loads(tmp_path / "snapshot")
    expected = rb.sample()
    assert (other.sample() == expected).all()
    assert (third.sample() == expected).all()
    assert other.write_count == 80
    rb.empty()
    assert len(rb) == rb.write_count == 0


def test_what_cannot_work_is_refused() -> None:
    rb = ReplayBuffer(100)
    with pytest.raises(StorageError, match="empty"):
        rb.sample(3)
    with pytest.raises(SchemaError, match="'next', 'reward'"):
        rb.extend(TensorDict({"observation": torch.zeros(3, 1)}, [3]))
    rb.extend(to_tensordict(make_stream(1, 5, 2)))
    with pytest.raises(SchemaError, match="expected steps of 2 envs"):
        rb.extend(to_tensordict(make_stream(1, 5, 3)))
    with pytest.raises(ConfigError, match="batch_size is missing"):
        rb.sample()
    with pytest.raises(ConfigError, match="single steps"):
        ReplayBuffer(100, num_envs=1, sequence_length=4)
