"""Small stand-ins for envs, actor, algorithm and storage, whose every value says where it comes from."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from recollect import keys
from recollect.agent.envs.step import Step
from recollect.errors import NotFiniteError


class ScriptedEnvs:
    """Envs whose episodes have given lengths: env `e` at step `t` of its episode `k` shows `[e, k, t]`, rewards `t`.

    Odd episodes are truncated, even ones terminate.

    Parameters
    ----------
    lengths : sequence of sequences
        Lengths of the episodes of each env, over and over again.
    failures, late_failures : collection of int
        Calls of `step` in which, or after which, env 0 fails and loses its episode.
    """

    def __init__(
        self, lengths: Sequence[Sequence[int]], failures: Sequence[int] = (), late_failures: Sequence[int] = ()
    ) -> None:
        self.num_envs = len(lengths)
        self.num_failures = 0
        self.actions: list[np.ndarray] = []
        self.is_closed = False
        self.reseeded: int | None = None
        self._lengths = lengths
        self._failures = failures
        self._late_failures = late_failures
        self._episodes = np.full(self.num_envs, -1)
        self._times = np.zeros(self.num_envs, np.int64)

    def reset(self) -> np.ndarray:
        self._episodes += 1
        self._times[:] = 0
        return self._obs()

    def step(self, action: torch.Tensor) -> Step:
        self.actions.append(np.asarray(action))
        self._times += 1
        next_obs = self._obs()
        reward = self._times[:, None].astype(np.float32)
        ended = np.array([[time == self._length(env)] for env, time in enumerate(self._times)])
        is_odd = (self._episodes % 2 == 1)[:, None]
        infos = {"is_success": (self._times % 2 == 0), "_is_success": ended[:, 0]}
        cut = np.zeros_like(ended)
        is_broken = len(self.actions) in self._failures
        cut[0] = is_broken or len(self.actions) in self._late_failures
        ended &= ~cut
        begins = (ended | cut)[:, 0]
        self._episodes[begins] += 1
        self._times[begins] = 0
        obs = self._obs()
        if is_broken:
            next_obs[0] = obs[0]
        skip = cut if is_broken else None
        return Step(next_obs, reward, ended & ~is_odd, ended & is_odd, cut, skip, obs, infos)

    def reseed(self, number: int) -> None:
        self.reseeded = number

    def close(self) -> None:
        self.is_closed = True

    def _length(self, env: int) -> int:
        lengths = self._lengths[env]
        return lengths[int(self._episodes[env]) % len(lengths)]

    def _obs(self) -> np.ndarray:
        return np.stack([np.arange(self.num_envs), self._episodes, self._times], axis=1).astype(np.float32)


class CountingActor:
    """An actor whose hidden state counts the steps since the memory was reset."""

    def __init__(self, is_recurrent: bool = False) -> None:
        self.is_recurrent = is_recurrent
        self.generator = torch.Generator()
        self.generator.manual_seed(3)
        self.weights: Mapping[str, torch.Tensor] = {}
        self.observed: list[tuple[Any, Any, Any, float]] = []
        self.skipped: list[Any] = []

    def seed(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    def actor_initial_states(self, obs: np.ndarray) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
        return obs, torch.zeros(len(obs), 1), torch.ones(len(obs), 1)

    def random_actions(self, num: int, obs: Any = None) -> torch.Tensor:
        return torch.full((num, 1), -1.0)

    def to_env(self, action: torch.Tensor) -> torch.Tensor:
        return 10 * action

    def observe(self, obs: Any, reward: Any, done: Any, gamma: float, *, skip: Any = None) -> None:
        self.observed.append((obs, reward, done, gamma))
        self.skipped.append(skip)


class CountingAlgo:
    """An algorithm whose `n`-th action is `n`, with exploration or without, and which counts its updates."""

    gamma = 0.9
    update_every = 4
    num_mini_batch = 2
    mini_batch_size = 3
    num_epochs = 1
    start_steps = 0
    test_every = 0
    num_test_episodes = 5
    is_on_policy = False

    def __init__(self, actor: CountingActor, envs: Any, **numbers: Any) -> None:
        self.actor, self.envs = actor, envs
        self.num_acted = 0
        self.deterministic: list[bool] = []
        self.other: dict[str, Any] = {}
        self.num_computed = 0
        self.num_applied = 0
        self.ended: list[tuple[int, int]] = []
        self.fails_at: int | None = None
        self.parameters: dict[str, Any] = {}
        for name, value in numbers.items():
            setattr(self, name, value)

    def acting_step(self, obs: Any, rhs: Any, done: Any, deterministic: bool = False) -> tuple[Any, Any, Any, Any]:
        self.deterministic.append(deterministic)
        self.num_acted += 1
        action = torch.full((len(obs), 1), float(self.num_acted))
        return action, self.actor.to_env(action), rhs * (1 - done) + 1, self.other

    @contextmanager
    def preserving_exploration(self) -> Iterator[None]:
        num_acted = self.num_acted
        yield
        self.num_acted = num_acted

    def compute_gradients(self, batch: Any, grads_to_cpu: bool = True) -> tuple[None, dict[str, Any]]:
        self.num_computed += 1
        if self.num_computed == self.fails_at:
            raise NotFiniteError("loss_q is nan")
        return None, {keys.ALGORITHM: {"loss_q": torch.tensor(float(self.num_computed)), keys.ERRORS: torch.ones(3)}}

    def apply_gradients(self, gradients: Any = None) -> None:
        self.num_applied += 1

    def end_stages(self, num_updates: int, num_stages: int = 1) -> None:
        self.ended.append((num_updates, num_stages))

    def set_weights(self, actor_weights: Mapping[str, torch.Tensor]) -> None:
        self.actor.weights = actor_weights

    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: Any) -> None:
        self.parameters[parameter_name] = new_parameter_value

    def state(self) -> dict[str, Any]:
        return {"num_applied": self.num_applied}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.num_applied = state["num_applied"]


class RecordingStorage:
    """A storage that keeps what it is given, and whose batches are numbers."""

    storage_tensors = (keys.OBS, keys.VALUE)
    max_size = 100
    num_bytes = 7

    def __init__(self, actor: Any, algorithm: Any, envs: Any) -> None:
        self.actor, self.algorithm, self.envs = actor, algorithm, envs
        self.samples: list[dict[str, Any]] = []
        self.infos: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.parameters: dict[str, Any] = {}

    @property
    def capacity(self) -> int:
        return self.max_size * int(self.envs.num_envs)

    def __len__(self) -> int:
        return len(self.samples)

    def insert_transition(self, sample: dict[str, Any]) -> None:
        self.samples.append(dict(sample))
        self.calls.append("insert")

    def handle_end_of_episode(self) -> None:
        self.calls.append("end")

    def before_gradients(self) -> None:
        self.calls.append("before")

    def generate_batches(self, num_mini_batch: int, mini_batch_size: int, num_epochs: int = 1) -> Iterator[Any]:
        for number in range(num_mini_batch * num_epochs):
            self.calls.append("batch")
            yield {keys.REWARD: torch.full((mini_batch_size, 1), float(number)), keys.OBS: {"a": torch.ones(2)}}

    def after_gradients(self, batch: Any, info: dict[str, Any]) -> dict[str, Any]:
        self.calls.append("after")
        self.infos.append(info)
        return info

    def get_all_buffer_data(self, data_to_cpu: bool = False) -> dict[str, Any]:
        return {keys.REWARD: np.stack([sample[keys.REWARD] for sample in self.samples])}

    def reset(self) -> None:
        self.samples.clear()
        self.calls.append("reset")

    def update_storage_parameter(self, parameter_name: str, new_parameter_value: Any) -> None:
        self.parameters[parameter_name] = new_parameter_value
