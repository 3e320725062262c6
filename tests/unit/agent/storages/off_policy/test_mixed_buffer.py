"""`MixedBuffer`: parts that keep their shares, exact weights, data that stay."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect as rc
from recollect import keys
from recollect.agent.storages import MixedBuffer
from recollect.agent.storages.snapshots import cut_streams
from recollect.errors import ConfigError


def steps_of(rewards: list[float], num_envs: int = 1) -> dict[str, np.ndarray]:
    """Steps `[time, num_envs, ...]` of one-step episodes, told apart by their rewards."""
    column = np.repeat(np.array(rewards, np.float32)[:, None, None], num_envs, 1)
    return {
        keys.OBS: column,
        keys.ACTION: column,
        keys.REWARD: column,
        keys.NEXT_OBS: column,
        keys.NEXT_DONE: np.ones_like(column),
    }


def make(parts: dict[Any, list[float]], **options: Any) -> MixedBuffer:
    memory = MixedBuffer.standalone(1_000, seed=1, **options)
    for source, rewards in parts.items():
        memory.insert_data_slice(steps_of(rewards), source=source)
    return memory


def count_rows(memory: MixedBuffer, batch_size: int, num_batches: int) -> list[int]:
    """Rows of each batch that are data, whose rewards are negative."""
    return [int((memory.sample(batch_size)[keys.REWARD] < 0).sum()) for _ in range(num_batches)]


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_half_of_every_batch_is_data(alpha: float) -> None:
    memory = make({"data": [-1, -2], 0: list(range(500))}, alpha=alpha)
    assert set(count_rows(memory, 256, 20)) == {128}


def test_a_share_that_is_no_whole_number_is_rounded_at_random() -> None:
    memory = make({"data": [-1], 0: [1, 2]}, data_share=0.3)
    counts = Counter(count_rows(memory, 8, 4_000))
    assert set(counts) == {2, 3}
    assert counts[3] / 4_000 == pytest.approx(0.4, abs=0.05)  # 2.4 rows


@pytest.mark.parametrize(("parts", "num_data"), [({"data": [-1, -2]}, 8), ({0: [1, 2]}, 0)])
def test_the_share_of_an_empty_part_goes_to_the_other(parts: dict[Any, list[float]], num_data: int) -> None:
    assert count_rows(make(parts), 8, 3) == [num_data] * 3


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_part_without_a_share_is_drawn_from_only_if_nothing_else_is_there(share: float) -> None:
    assert count_rows(make({"data": [-1], 0: [1]}, data_share=share), 8, 3) == [8 * share] * 3
    alone: dict[Any, list[float]] = {0: [1]} if share else {"data": [-1]}
    assert count_rows(make(alone, data_share=share), 8, 1) == [0 if share else 8]


def test_several_parts_have_shares_of_their_own() -> None:
    memory = make({"expert": [-1], "medium": [-2], 0: [1, 2]}, data_share={"expert": 0.25, "medium": 0.5})
    assert Counter(memory.sample(100)[keys.REWARD][:, 0].tolist())[-1.0] == 25
    assert count_rows(memory, 100, 1) == [75]


def prioritised(*, joint: bool) -> tuple[MixedBuffer, dict[float, float]]:
    """Two steps of data with errors 1 and 3, two own ones with 2 and 6; their weights in a batch, by reward."""
    memory = make({"data": [-1, -3], 0: [2, 6]}, alpha=1.0, beta=1.0, joint_priorities=joint)
    first = memory.sample(64)
    memory.update_priorities(first, first[keys.REWARD].abs())
    batch = memory.sample(64)
    rewards, weights = batch[keys.REWARD][:, 0].tolist(), batch[keys.PER_WEIGHTS][:, 0].tolist()
    return memory, dict(zip(rewards, weights, strict=True))


def test_weights_of_priorities_within_parts() -> None:
    """Data are drawn by 1/4 and 3/4 of one half, own steps by 2/8 and 6/8 of the other; 1/4 each would be uniform."""
    _, weights = prioritised(joint=False)
    assert weights == pytest.approx({-1.0: 1.0, -3.0: 1 / 3, 2.0: 1.0, 6.0: 1 / 3})


def test_weights_of_joint_priorities() -> None:
    """All four are drawn by 1, 3, 2 and 6 twelfths: a third of the rows are data."""
    memory, weights = prioritised(joint=True)
    assert weights == pytest.approx({-1.0: 1.0, -3.0: 1 / 3, 2.0: 1 / 2, 6.0: 1 / 6})
    assert set(count_rows(memory, 300, 5)) == {100}


def test_experience_does_not_overwrite_data() -> None:
    memory = MixedBuffer.standalone(20, num_envs=2, seed=1)
    memory.insert_data_slice(steps_of([-1, -2, -3], 2), source="data")
    for reward in range(100):
        memory.insert_data_slice(steps_of([reward], 2))
    assert len(memory) == 6 + 20
    assert set(memory.sample(400)[keys.REWARD][:, 0].tolist()) == {-1, -2, -3, *range(90, 100)}


def test_data_do_not_age() -> None:
    memory = make({"data": [-1, -2, -3, -4], 0: list(range(100))}, eta=0.5, cmin=5)
    batch = [*memory.generate_batches(10, 400)][-1]
    assert set(batch[keys.REWARD][:, 0].tolist()) == {-1, -2, -3, -4, *range(95, 100)}
    assert batch[keys.CK].unique().tolist() == [9]


@pytest.mark.parametrize("name", ["whole", "cut"])
def test_a_snapshot_keeps_the_parts_and_the_draws(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"data_share": {"expert": 0.3}, "alpha": 0.6, "eta": 0.99, "cmin": 2}
    memory = make({"expert": [-1, -2, -3], 0: [1, 2, 3, 4]}, **options)
    memory.update_priorities(batch := memory.sample(8), batch[keys.REWARD].abs())
    rc.save_storage(memory, tmp_path)
    other = MixedBuffer.standalone(1_000, **options)
    rc.load_storage(other, tmp_path)
    if name == "cut":
        cut_streams(other)
        cut_streams(memory)
    for _ in range(3):
        for each in (memory, other):
            each.insert_data_slice(steps_of([5]))
        one, two = memory.sample(16), other.sample(16)
        assert all(np.array_equal(one[key], two[key]) for key in one)
    assert other.sources == ["expert", 0]


def test_the_share_can_follow_a_schedule() -> None:
    with rc.Agent("td3", "Pendulum-v1", storage="mixed", preset="none", update_every=1, test_every=0) as agent:
        agent.learn(20, callbacks=[rc.Schedule("data_share", "linear", start=0.5, end=0.0)], progress=False)
        assert agent.scheme.col_worker.storage.data_share < 0.1


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", {}, {"": 0.5}, {3: 0.5}, {"a": 0.6, "b": 0.6}])
def test_shares_that_cannot_be_are_refused(share: Any) -> None:
    with pytest.raises(ConfigError, match="data_share"):
        MixedBuffer.standalone(10, data_share=share)


def test_data_that_do_not_fit_are_refused() -> None:
    memory = MixedBuffer.standalone(100, seed=1)
    memory.insert_data_slice(steps_of([-1.0] * 30), source="data")
    memory.check_room(2)
    with pytest.raises(ConfigError, match="use a size of at least 120"):
        memory.check_room(3)
