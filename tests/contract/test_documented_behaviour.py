"""What the documents of the original promise beyond signatures, a row for each behaviour."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import recollect as rc
from recollect import keys
from recollect.agent.algorithms.utils import get_gradients, set_gradients
from recollect.agent.storages import GAEBuffer, HERBuffer, PERBuffer, ReplayBuffer, Storage
from recollect.agent.storages.experience.store import allocator
from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayStorage
from recollect.config.parts import listed_options
from recollect.errors import ConfigError, RecollectWarning, SchemaError
from tests.samples import make_slice, one_step, with_goals

GAMMA = 0.9
SPACES = (gym.spaces.Box(-9, 9, (2,), np.float32), gym.spaces.Discrete(2))


def build(cls: type[Any], *values: Any, **options: Any) -> Any:
    """A storage from its factory, for one environment that has no goals."""
    actor, algorithm = SimpleNamespace(is_recurrent=False), SimpleNamespace(gamma=GAMMA)
    return cls.create_factory(*values, **options)("cpu", actor, algorithm, SimpleNamespace(num_envs=1))


class FromTemplate(Storage):
    """A storage written after the template, and nothing else of ours: every method takes `*args`."""

    def __init__(self, size: int, device: Any, actor: Any, algorithm: Any, *args: Any) -> None:
        super().__init__(size, device, actor, algorithm, *args)
        self.steps: list[dict[str, Any]] = []
        self.calls: list[tuple[Any, ...]] = []

    @classmethod
    def create_factory(cls, size: int, *args: Any) -> Any:
        return lambda *parts: cls(size, *parts)

    def init_tensors(self, sample: Any, *args: Any) -> None:
        self.calls.append((sample, *args))

    def insert_transition(self, sample: Any, *args: Any) -> None:
        self.steps = [*self.steps, sample][-self.max_size :]

    def insert_data_slice(self, new_data: Any, *args: Any) -> None:
        for time in range(len(new_data[keys.REWARD])):
            self.insert_transition(one_step(new_data, time))

    def get_all_buffer_data(self, data_to_cpu: bool = False, *args: Any) -> Any:
        return {key: np.stack([step[key] for step in self.steps]) for key in self.steps[0]}

    def before_gradients(self, actor: Any, algo: Any, *args: Any) -> None:
        self.calls.append((actor, algo, *args))

    def after_gradients(self, actor: Any, algo: Any, info: Any, *args: Any) -> Any:
        self.calls.append((actor, algo, info, *args))
        return info

    def generate_batches(self, num_mini_batch: int, mini_batch_size: int, num_epochs: int = 1, *args: Any) -> Any:
        for number in range(num_epochs * num_mini_batch):
            chosen = [self.steps[(number + row) % len(self.steps)] for row in range(mini_batch_size)]
            wanted = (keys.OBS, keys.ACTION, keys.REWARD, keys.NEXT_OBS, keys.NEXT_DONE)
            batch = {key: torch.as_tensor(np.concatenate([step[key] for step in chosen])) for key in wanted}
            yield batch | {keys.DISCOUNT: self.algorithm.gamma * (1 - batch.pop(keys.NEXT_DONE).float())}

    def reset(self, *args: Any) -> None:
        self.steps = []

    def update_storage_parameter(self, parameter_name: str, new_parameter_value: Any, *args: Any) -> None:
        setattr(self, parameter_name, new_parameter_value)


def a_class_written_after_the_template_fits(tmp_path: Path) -> None:
    storage = FromTemplate.create_factory(5)("cpu", None, None)
    storage.init_tensors({}, 1)
    storage.insert_data_slice(make_slice(7), 1)
    assert storage.get_all_buffer_data(True, 1)[keys.REWARD].ravel().tolist() == [2, 3, 4, 5, 6]
    storage.reset(1)
    assert (storage.max_size, storage.steps, len(storage), storage.num_bytes) == (5, [], 0, 0)


def a_class_written_after_the_template_trains(tmp_path: Path) -> None:
    agent = rc.Agent("ddqn", "CartPole-v1", FromTemplate, seed=1, start_steps=20, **{"storage.size": 50})
    with pytest.warns(RecollectWarning, match="lack the replay, because FromTemplate cannot be saved") as caught:
        agent.learn(60, log_dir=tmp_path / "run")
    assert len([warning for warning in caught if "lack the replay" in str(warning.message)]) == 1
    storage: Any = agent.scheme.storage
    assert len(storage.steps) == 50
    (actor, algo), (_, _, info, batch) = storage.calls[:2]
    assert (actor, algo) == (agent.scheme.actor, agent.scheme.algo)
    assert {"loss_q"} <= info[keys.ALGORITHM].keys()
    assert keys.DISCOUNT in batch
    again = rc.Agent.load(tmp_path / "run", storage=FromTemplate)
    assert again.num_steps == agent.num_steps
    again.learn(30)
    with pytest.raises(ConfigError, match="FromTemplate cannot be filled from other processes; derive it from Replay"):
        rc.Agent("ddqn", "CartPole-v1", FromTemplate, num_col_workers=1, **{"storage.size": 50})


def rollout(cls: type[Any]) -> Any:
    storage = build(cls, 20)
    storage.actor.normalise_reward = lambda rewards: rewards
    storage.algorithm.next_values = lambda rows: torch.zeros(len(rows[keys.REWARD]), 1)
    steps = make_slice(12, terminated=[11])
    column = steps[keys.REWARD]
    storage.insert_data_slice(steps | {keys.VALUE: column, keys.LOG_PROB: column})
    storage.before_gradients()
    return storage


def on_policy_batches_take_shuffle(tmp_path: Path) -> None:
    storage = rollout(GAEBuffer)
    in_order = [batch[keys.REWARD].ravel().tolist() for batch in storage.generate_batches(2, 6, 2, shuffle=False)]
    assert in_order == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]] * 2
    shuffled = [batch[keys.REWARD].ravel().tolist() for batch in storage.generate_batches(2, 6, 1, True)]
    assert sorted([*shuffled[0], *shuffled[1]]) == list(range(12))
    assert shuffled != in_order[:2]


def a_key_that_is_not_kept_is_left_out_with_one_warning(tmp_path: Path) -> None:
    storage = build(ReplayBuffer, 20)
    steps = [one_step(make_slice(4), number) for number in range(4)]
    with pytest.warns(RecollectWarning, match="does not store 'Actoin' and leaves it out; did you mean 'Action'"):
        storage.init_tensors(steps[0] | {"Actoin": np.ones((1, 1))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in steps:
            storage.insert_transition(step | {"Actoin": np.ones((1, 1))})
        storage.insert_data_slice(make_slice(2, first=4) | {"Actoin": np.ones((2, 1, 1))})
    assert storage.get_all_buffer_data()[keys.REWARD].ravel().tolist() == [0, 1, 2, 3, 4, 5]


def keys_are_left_out_of_samples_that_are_as_long_as_others(tmp_path: Path) -> None:
    storage = build(ReplayBuffer, 20)
    steps = [one_step(make_slice(3), number) for number in range(3)]
    storage.insert_transition(steps[0] | {keys.CUT: np.zeros((1, 1), np.float32)})
    with pytest.warns(RecollectWarning, match="does not store 'Actoin' and leaves it out"):
        storage.insert_transition(steps[1] | {"Actoin": np.ones((1, 1))})
    storage.insert_transition(steps[2] | {keys.IREWARD: None})
    assert storage.get_all_buffer_data()[keys.REWARD].ravel().tolist() == [0, 1, 2]


def a_key_without_a_value_is_left_out(tmp_path: Path) -> None:
    nothing = {keys.RHS: None, keys.NEXT_RHS: None, keys.IREWARD: None, keys.ACTION_PROBS: None}
    storage = build(PERBuffer, 20)
    storage.init_tensors(one_step(make_slice(1), 0) | nothing)
    storage.insert_transition(one_step(make_slice(1), 0) | nothing)
    storage.insert_transition(one_step(make_slice(2), 1))
    storage.insert_data_slice(make_slice(2, first=2) | nothing)
    stored = storage.get_all_buffer_data()
    assert not nothing.keys() & stored.keys()
    assert stored[keys.REWARD].ravel().tolist() == [0, 1, 2, 3]


def a_key_that_is_needed_is_missed(tmp_path: Path) -> None:
    storage = build(ReplayBuffer, 20)
    with pytest.raises(SchemaError, match="lacks Reward"):
        storage.insert_transition(one_step(make_slice(1), 0) | {keys.REWARD: None})


def errors_have_priorities_in_every_form(tmp_path: Path) -> None:
    storage = build(PERBuffer, 20, alpha=0.5, epsilon=1.0)
    assert storage.get_priority(3) == 2.0
    for errors in ([3, 8], (3, 8), np.array([3, 8]), torch.tensor([3.0, 8.0])):
        assert storage.get_priority(errors).tolist() == [2.0, 3.0]


def one_sequence_has_a_priority(tmp_path: Path) -> None:
    storage = build(PERBuffer, 20)
    errors = np.array([1.0, 2.0, 6.0], np.float32)
    expected = 0.9 * 6 + 0.1 * 3
    for convert in (np.asarray, torch.from_numpy):
        mixed: Callable[[Any], Any] = storage.get_sequence_priority
        assert float(mixed(convert(errors))) == pytest.approx(expected)
        assert mixed(convert(errors[:, None])).tolist() == pytest.approx([expected])
        assert mixed(convert(errors[None])).tolist() == pytest.approx([expected])
        assert mixed(convert(np.stack([errors, errors])[..., None])).shape == (2, 1)
    for whole in ([1, 2, 6], torch.tensor([1, 2, 6]), np.array([1, 2, 6])):
        assert float(mixed(whole)) == pytest.approx(expected)


def sequences_of_one_step_keep_their_errors(tmp_path: Path) -> None:
    storage = build(PERBuffer, 20, alpha=1.0, sequence_length=1)
    storage.insert_data_slice(make_slice(3) | {keys.DONE: np.zeros((3, 1, 1), np.float32)})
    storage.update_priorities({keys.IDXS: np.arange(3)}, np.array([[1.0], [2.0], [6.0]]))
    assert storage.tree.priorities[:3].tolist() == pytest.approx([1.0, 2.0, 6.0])


def default_error_changes_while_running(tmp_path: Path) -> None:
    storage = build(PERBuffer, 20, alpha=1.0)
    storage.update_storage_parameter("default_error", 4)
    storage.insert_data_slice(make_slice(2))
    assert (storage.default_error, storage.tree.total) == (4, 8)


def hindsight_builds_without_goals(tmp_path: Path) -> None:
    with pytest.warns(RecollectWarning, match="nothing is relabelled in hindsight.*no goals"):
        storage = build(HERBuffer, 20)
    storage.insert_data_slice(make_slice(6))
    storage.handle_end_of_episode()
    batch = storage.sample(20)
    assert torch.equal(batch[keys.REWARD].ravel(), batch[keys.OBS][:, 0])


def relabel_one(obs: Any, rhs: Any, next_obs: Any, next_rhs: Any, reward: Any, initial: Any, final: Any) -> Any:
    """Relabel a single transition, whose parts have no axis of rows."""
    goal = final[keys.ACHIEVED_GOAL]
    reward = 1.0 if (next_obs[keys.ACHIEVED_GOAL] == goal).all() else -1.0
    return (
        obs | {keys.DESIRED_GOAL: goal},
        rhs,
        next_obs | {keys.DESIRED_GOAL: goal},
        next_rhs,
        reward,
    )


def relabel_many(obs: Any, rhs: Any, next_obs: Any, next_rhs: Any, reward: Any, initial: Any, final: Any) -> Any:
    """Do the same to a whole batch."""
    goal = final[keys.ACHIEVED_GOAL]
    reward = np.where((next_obs[keys.ACHIEVED_GOAL] == goal).all(axis=1), 1.0, -1.0)
    return (obs | {keys.DESIRED_GOAL: goal}, rhs, next_obs | {keys.DESIRED_GOAL: goal}, next_rhs, reward)


def a_her_function_for_single_transitions_works(tmp_path: Path) -> None:
    calls = [0, 0]

    def counted(which: int, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            calls[which] += 1
            return function(*given)

        return call

    batches = []
    for which, function in enumerate((relabel_one, relabel_many)):
        storage = build(HERBuffer, 40, counted(which, function), n_step=2, seed=1)
        storage.insert_data_slice(with_goals(make_slice(12, truncated=[5, 11])))
        batches.append([storage.sample(40) for _ in range(3)])
    for one, many in zip(*batches, strict=True):
        assert torch.equal(one[keys.REWARD], many[keys.REWARD])
        assert torch.equal(one[keys.OBS][keys.DESIRED_GOAL], many[keys.OBS][keys.DESIRED_GOAL])
    assert calls[0] > 3 * 32
    # The first batch is also tried row by row, in vain.
    assert calls[1] == 3 + 1


def tensors_are_copied_from_the_end(tmp_path: Path) -> None:
    storage = build(HERBuffer, 20, relabel_many)
    storage.insert_data_slice(make_slice(6))
    for position in range(6):
        assert storage.copy_single_tensor(keys.ACTION, position - 6).tolist() == [[position]]
    with pytest.raises(ValueError, match="position"):
        storage.copy_single_tensor(keys.ACTION, -7)


def gradients_are_set_from_arrays(tmp_path: Path) -> None:
    net, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    net(torch.ones(1, 2)).sum().backward()
    arrays = [None if gradient is None else gradient.numpy() for gradient in get_gradients(net, grads_to_cpu=True)]
    set_gradients(other, gradients=[arrays[0], None], device="cpu")
    assert other.weight.grad is not None
    assert torch.equal(other.weight.grad, torch.ones(1, 2))
    assert other.bias.grad is None


def add_steps(storage: NStepReplayStorage, num_steps: int, infos: Any = None, ended: bool = False) -> None:
    for number in range(num_steps):
        obs = np.full((1, 2), number, np.float32)
        storage.add(obs, np.zeros(1, np.int64), np.ones(1), np.array([ended]), np.zeros(1), infos or {}, obs + 1)


def snapshots_need_no_folder(tmp_path: Path) -> None:
    code = (
        "import logging, numpy, gymnasium as gym\n"
        "logging.basicConfig(level='INFO')\n"
        "from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayStorage\n"
        "spaces = gym.spaces.Box(-9, 9, (2,), numpy.float32), gym.spaces.Discrete(2)\n"
        "storage = NStepReplayStorage(*spaces, storage_size=50, save_snapshot=True)\n"
        "obs, flag = numpy.zeros((1, 2), numpy.float32), numpy.zeros(1)\n"
        "storage.add(obs, flag.astype(int), flag, flag, flag, {}, obs)\n"
        "storage.close()\n"
        "print(storage.snapshot_path)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True
    )
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path, done.stderr
    assert f"snapshots of this storage are written to {folder}" in done.stderr
    with NStepReplayStorage(*SPACES, storage_size=50, snapshot_path=folder) as storage:
        assert len(storage) == 1


def final_observations_of_older_gymnasium_are_read(tmp_path: Path) -> None:
    final = np.array([7.0, 8.0], np.float32)
    objects = np.empty(1, object)
    objects[0] = final
    for infos in (
        {"final_observation": [final]},
        {"final_observation": objects, "_final_observation": np.array([True])},
        {"final_obs": [final], "final_observation": [final + 1]},
    ):
        with NStepReplayStorage(*SPACES, storage_size=50, batch_size=1, num_workers=0) as storage:
            add_steps(storage, 1, infos, ended=True)
            assert storage.sample().next_observations.tolist() == [[7.0, 8.0]]


def what_does_not_fit_into_memory_lives_in_files(tmp_path: Path) -> None:
    images = gym.spaces.Box(0, 255, (3, 84, 84), np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocator, "machine_memory", lambda: 10_000_000)
        with pytest.warns(RecollectWarning, match=r"takes 21\.\d MB when full.* 10\.0 MB: it lives in files at"):
            storage = NStepReplayStorage(images, SPACES[1], storage_size=1000, batch_size=4, num_workers=0)
    with storage:
        for number in range(3):
            obs = np.full((1, 3, 84, 84), number, np.uint8)
            storage.add(obs, np.zeros(1, np.int64), np.ones(1), np.zeros(1), np.zeros(1), {}, obs + 1)
        batch = storage.sample()
        first, last = (pixels[:, 0, 0, 0].tolist() for pixels in (batch.observations, batch.next_observations))
        assert set(first) <= {0, 1, 2}
        assert last == [3] * 4  # windows of three steps reach the newest one


def what_fits_nowhere_is_kept_in_part(tmp_path: Path) -> None:
    images = gym.spaces.Box(0, 255, (3, 84, 84), np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocator, "machine_memory", lambda: 10_000_000)
        patch.setattr(allocator.psutil, "disk_usage", lambda folder: SimpleNamespace(free=8_000_000))
        with pytest.warns(RecollectWarning, match=r"has 10\.0 MB, and 8\.0 MB free at .*: it keeps 330; name a folder"):
            storage = NStepReplayStorage(images, SPACES[1], storage_size=1000, batch_size=4, num_workers=0)
    with storage:
        assert storage.storage_size == 330
        for number in range(400):
            obs = np.full((1, 3, 84, 84), number % 256, np.uint8)
            storage.add(obs, np.zeros(1, np.int64), np.ones(1), np.zeros(1), np.zeros(1), {}, obs)
        assert len(storage) == 330


def sizes_are_listed_as_they_are(tmp_path: Path) -> None:
    assert listed_options("per")["size"].default == 1_000_000
    assert listed_options("gae")["size"].default == "algo.update_every"


BEHAVIOURS = (
    a_class_written_after_the_template_fits,
    a_class_written_after_the_template_trains,
    on_policy_batches_take_shuffle,
    a_key_that_is_not_kept_is_left_out_with_one_warning,
    keys_are_left_out_of_samples_that_are_as_long_as_others,
    a_key_without_a_value_is_left_out,
    a_key_that_is_needed_is_missed,
    errors_have_priorities_in_every_form,
    one_sequence_has_a_priority,
    sequences_of_one_step_keep_their_errors,
    default_error_changes_while_running,
    hindsight_builds_without_goals,
    a_her_function_for_single_transitions_works,
    tensors_are_copied_from_the_end,
    gradients_are_set_from_arrays,
    snapshots_need_no_folder,
    final_observations_of_older_gymnasium_are_read,
    what_does_not_fit_into_memory_lives_in_files,
    what_fits_nowhere_is_kept_in_part,
    sizes_are_listed_as_they_are,
)


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_documented(behaviour: Callable[[Path], None], tmp_path: Path) -> None:
    behaviour(tmp_path)
