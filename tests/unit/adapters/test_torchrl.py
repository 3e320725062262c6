"""`recollect.adapters.torchrl`: our storages below TorchRL's losses and trainers."""

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import LazyStackedTensorDict, TensorDict
from torchrl.envs.transforms import MultiStepTransform

from recollect.adapters.torchrl import EREBuffer, PERBuffer, ReplayBuffer
from recollect.errors import ConfigError, RecollectWarning, SchemaError, StorageError
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
    rb.update_priority(ids, 0.0)  # one for all
    rb.update_priority(int(ids[5]), 1.0)
    rb.update_priority(ids[8:10].tolist(), np.array([[1.0], [-1.0]]))
    assert set(rb.sample()["index"].tolist()) == {int(ids[5]), int(ids[8]), int(ids[9])}


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
    fourth = kind(50, batch_size=16, n_step=2)  # the snapshot says how many envs there are
    fourth.loads(tmp_path / "snapshot")
    expected = rb.sample()
    for buffer in (other, third, fourth):
        assert (buffer.sample() == expected).all()
        assert buffer.write_count == 80
    other.load_state_dict(kind(50).state_dict())
    assert len(other) == other.write_count == 0
    rb.empty(empty_write_count=False)
    assert (len(rb), rb.write_count) == (0, 80)


@pytest.mark.parametrize("options", [{}, {"num_envs": 2}])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rb: pickle.loads(pickle.dumps(rb))], ids=["copy", "pickle"])
def test_a_copy_holds_the_same_and_lives_on_its_own(copied: Any, options: dict[str, int]) -> None:
    rb = PERBuffer(200, batch_size=16, n_step=2, **options)
    assert len(copied(rb)) == 0
    rb.extend(to_tensordict(make_stream(1, 40, 2)))
    other = copied(rb)
    assert (other.sample() == rb.sample()).all()
    other.extend(to_tensordict(make_stream(2, 10, 2)))
    assert (len(other), other.write_count, len(rb), rb.write_count) == (100, 100, 80, 80)


def test_the_seed_of_pytorch_is_that_of_the_draws() -> None:
    def drawn(seed: int) -> list[int]:
        torch.manual_seed(seed)
        rb = ReplayBuffer(1000, batch_size=64)
        rb.extend(to_tensordict(make_stream(1, 500, 1)))
        return list(rb.sample()["index"].tolist())

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


def test_steps_come_in_any_shape_that_tensordicts_have() -> None:
    steps = to_tensordict(make_stream(1, 30, 2))
    lazy = LazyStackedTensorDict.lazy_stack(list(steps.unbind(1)), 1)
    plain = steps.clone()
    for name in ("reward", "done", "terminated", "truncated"):  # without an axis of their own
        plain["next", name] = plain["next", name].squeeze(-1)
    batches = []
    for data in (steps, lazy, plain):
        rb = ReplayBuffer(100, n_step=2, seed=1)
        rb.extend(data)
        assert rb.extend(data[:, :0]).shape == (0,)
        batches.append(rb.sample(32))
    assert (batches[0] == batches[1]).all()
    assert (batches[0] == batches[2]).all()
    assert ReplayBuffer(100).extend(steps[0, :0]).shape == (0,)


def test_ids_are_not_given_again_once_the_buffer_was_emptied() -> None:
    rb = PERBuffer(50, num_envs=1, alpha=1.0)
    old = rb.extend(to_tensordict(make_stream(1, 10, 1)))
    rb.empty()
    new = rb.extend(to_tensordict(make_stream(1, 10, 1)))
    assert not set(old.tolist()) & set(new.tolist())


def test_padding_of_split_trajectories_is_no_experience() -> None:
    steps = to_tensordict(make_stream(3, 12, 2))
    mask = torch.arange(12) < torch.tensor([[12], [5]])
    steps["collector", "mask"] = mask
    rb = ReplayBuffer(100)
    rb.extend(steps)
    rb.extend(steps[:1])  # as many trajectories as there are
    assert len(rb) == 12 + 5 + 12
    padded = set(steps["agent", "observation"][~mask].flatten().tolist())
    assert not padded & set(rb.sample(100)["agent", "observation"].flatten().tolist())
    with pytest.raises(SchemaError, match="leave num_envs or split_trajs out"):
        ReplayBuffer(100, num_envs=2).extend(steps)


@pytest.mark.parametrize("update", [None, True, False])
def test_errors_that_steps_bring_are_their_priorities(update: bool | None) -> None:
    steps = to_tensordict(make_stream(2, 30, 1))
    steps["td_error"] = torch.zeros(1, 30, 1)
    steps["td_error"][0, 7] = 2.0
    rb = PERBuffer(100, alpha=1.0, epsilon=0.0)
    ids = rb.extend(steps, update_priority=update)
    batch = rb.sample(50)
    assert batch.get("td_error", None) is None  # an error is of the last loss, not of the step
    assert (set(batch["index"].tolist()) == {int(ids[7])}) == (update is not False)


def test_a_batch_goes_through_the_transforms() -> None:
    rb = PERBuffer(100, batch_size=4)
    rb.extend(to_tensordict(make_stream(2, 30, 1)))
    assert rb.append_transform(lambda batch: batch.select("action", "index")) is rb
    rb.append_transform(lambda batch: batch.apply(lambda tensor: tensor * 0))
    batch, info = rb.sample(return_info=True)
    assert set(batch.keys()) == {"action", "index"}
    assert (batch["index"] == 0).all()
    assert set(info) == {"index", "priority_weight"}
    assert (info["index"] < 30).all()
    rb.update_priority(info["index"], torch.ones(4))
    rb.insert_transform(1, lambda batch: batch.exclude("action"))
    assert set(rb.sample().keys()) == {"index"}
    rb = ReplayBuffer(100, batch_size=4, transform=lambda batch: batch.select("extra"))
    rb.extend(to_tensordict(make_stream(2, 30, 1)))
    assert set(rb.sample().keys()) == {"extra"}


def test_what_only_the_next_step_has_is_not_lost_in_silence() -> None:
    steps = to_tensordict(make_stream(1, 5, 1))
    steps["next", "agent", "success"] = torch.zeros(1, 5, 1)
    with pytest.warns(RecollectWarning, match="'agent', 'success'.*not stored"):
        ReplayBuffer(100).extend(steps)


def test_what_is_no_tensor_is_not_lost_in_silence() -> None:
    steps = to_tensordict(make_stream(1, 5, 1))
    steps["instruction"] = "go left"
    with pytest.warns(RecollectWarning, match="'instruction'.*no tensors"):
        ReplayBuffer(100).extend(steps)


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="no option 'prefetch'"):  # before the first steps come
        ReplayBuffer(100, prefetch=3)
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
    with pytest.raises(SchemaError, match="as many steps of each of 2 envs, got 5"):
        ReplayBuffer(100, num_envs=2).extend(to_tensordict(make_stream(1, 5, 1))[0])
    compact = to_tensordict(make_stream(1, 5, 2)).exclude(("next", "agent"))
    with pytest.raises(SchemaError, match="compact_obs"):
        rb.extend(compact)
    folded = to_tensordict(make_stream(1, 5, 2))
    folded["steps_to_next_obs"] = torch.ones(2, 5, 1, dtype=torch.int64)
    with pytest.raises(SchemaError, match="leave MultiStep out"):
        rb.extend(folded)
    with pytest.raises(ConfigError, match="MultiStepTransform works on what is stored"):
        rb.append_transform(MultiStepTransform(n_steps=3, gamma=0.9))
    with pytest.raises(ConfigError, match="single steps"):
        ReplayBuffer(100, num_envs=1, sequence_length=4)
