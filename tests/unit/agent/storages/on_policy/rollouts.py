"""Random rollouts and the obvious way to compute what on-policy storages must give for them.

The observation of a step is a number that no other one has, so that rows of batches can be told apart. Values,
log-probabilities and hidden states are simple functions of it.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recollect import keys

Sample = dict[str, Any]
GAMMA = 0.9


def value_of(obs: Any) -> Any:
    """The critic: what an observation is worth."""
    return 0.5 * (obs % 7.0) - 1.0


def log_prob_of(obs: Any, action: Any) -> Any:
    """The present policy: how likely an action is."""
    return -0.5 - 0.3 * action + 0.1 * (obs % 5.0)


class Critic:
    """Stands in for an algorithm: owner of gamma, and of the networks."""

    def __init__(self) -> None:
        self.gamma = GAMMA
        self.update_every = 4
        self.intrinsic_weight = 0.5
        self.asked: list[float] = []

    def next_values(self, batch: Sample) -> Tensor:
        self.asked += batch[keys.NEXT_OBS][:, 0].tolist()
        return value_of(batch[keys.NEXT_OBS])

    def evaluate_actions(self, batch: Sample) -> tuple[Tensor, Tensor]:
        return value_of(batch[keys.OBS]), log_prob_of(batch[keys.OBS], batch[keys.ACTION])


def make_actor(*, is_recurrent: bool = False, overlap: int = 0) -> Any:
    return SimpleNamespace(is_recurrent=is_recurrent, sequence_overlap=overlap, normalise_reward=lambda reward: reward)


@dataclass
class Step:
    """One step of one env."""

    obs: float
    next_obs: float
    reward: float
    action: float
    log_prob: float
    begins: bool
    terminated: bool = False
    truncated: bool = False
    cut: bool = False

    @property
    def is_broken(self) -> bool:
        return self.terminated or self.truncated or self.cut


@dataclass
class World:
    """Envs of one source that produce steps, and remember those that must be stored."""

    num_envs: int
    rng: np.random.Generator
    first_obs: float = 0.0
    lanes: list[list[Step]] = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = [[] for _ in range(self.num_envs)]
        self._next_number = self.first_obs
        self._obs = [self._number() for _ in range(self.num_envs)]
        self._begins = [True] * self.num_envs

    def _number(self) -> float:
        self._next_number += 1.0
        return self._next_number

    def take(self, num_steps: int) -> Sample:
        """Steps `[num_steps, num_envs, ...]` that continue where the last ones stopped."""
        steps = [[self._step(env) for env in range(self.num_envs)] for _ in range(num_steps)]
        for row in steps:
            for env, step in enumerate(row):
                self.lanes[env].append(step)
        return as_slice(steps)

    def _step(self, env: int) -> Step:
        end = self.rng.random()
        step = Step(
            obs=self._obs[env],
            next_obs=self._number(),
            reward=float(np.float32(self.rng.normal())),
            action=float(self.rng.integers(3)),
            log_prob=float(np.float32(self.rng.normal() - 1.0)),
            begins=self._begins[env],
            terminated=end < 0.1,
            truncated=0.1 <= end < 0.2,
            cut=0.2 <= end < 0.25,
        )
        self._begins[env] = step.terminated or step.truncated
        self._obs[env] = self._number() if step.is_broken else step.next_obs
        return step


def as_slice(steps: list[list[Step]]) -> Sample:
    """Steps of all envs as arrays `[time, num_envs, ...]`."""

    def column(name: str, dtype: Any = np.float32) -> np.ndarray:
        return np.array([[getattr(step, name) for step in row] for row in steps], dtype)[..., None]

    obs = column("obs")
    return {
        keys.OBS: obs,
        keys.RHS: np.concatenate([obs, -obs], -1),
        keys.DONE: column("begins"),
        keys.ACTION: column("action"),
        keys.REWARD: column("reward"),
        keys.NEXT_OBS: column("next_obs"),
        keys.NEXT_DONE: column("terminated", bool) | column("truncated", bool),
        keys.NEXT_TERMINATED: column("terminated", bool),
        keys.CUT: column("cut", bool),
        keys.VALUE: value_of(obs),
        keys.LOG_PROB: column("log_prob"),
    }


def without(steps: Sample, *names: str) -> Sample:
    return {key: value for key, value in steps.items() if key not in names}


def at(steps: Sample, position: int) -> Sample:
    """One step of a slice, `[num_envs, ...]`."""
    return {key: value[position] for key, value in steps.items()}


def continues(lane: list[Step], index: int) -> bool:
    """Whether the next step of the lane is the next of the same stream."""
    return index + 1 < len(lane) and not lane[index].is_broken and lane[index + 1].obs == lane[index].next_obs


def expected_gae(lane: list[Step], index: int, gae_lambda: float) -> float:
    """Advantage of a step, written as the sum that it is."""
    total, weight = 0.0, 1.0
    while True:
        step = lane[index]
        bootstrap = 0.0 if step.terminated else GAMMA * value_of(step.next_obs)
        total += weight * (step.reward + bootstrap - value_of(step.obs))
        if not continues(lane, index):
            return total
        weight *= GAMMA * gae_lambda
        index += 1


def expected_vtrace(lane: list[Step], index: int, rho_bar: float, c_bar: float) -> tuple[float, float]:
    """Target and advantage of a step, from the recursion of the paper."""
    step = lane[index]
    ratio = float(np.exp(log_prob_of(step.obs, step.action) - step.log_prob))
    rho, trace = min(rho_bar, ratio), min(c_bar, ratio)
    value, discount = value_of(step.obs), 0.0 if step.terminated else GAMMA
    gain = step.reward + discount * value_of(step.next_obs) - value
    if not continues(lane, index):
        return value + rho * gain, gain
    target, _ = expected_vtrace(lane, index + 1, rho_bar, c_bar)
    following = target - value_of(step.next_obs)
    return value + rho * gain + discount * trace * following, step.reward + discount * target - value


def rows_by_obs(batches: list[Sample]) -> dict[float, list[dict[str, float]]]:
    """The rows of batches by their observation, padding left out."""
    rows: dict[float, list[dict[str, float]]] = {}
    columns = (keys.ADVANTAGE, keys.RETURN, keys.VALUE, keys.LOG_PROB, keys.ACTION)
    for batch in batches:
        mask = batch.get(keys.MASK, torch.ones_like(batch[keys.REWARD])).bool()
        for index, obs in enumerate(batch[keys.OBS][mask].tolist()):
            row = {key: batch[key][mask][index].item() for key in columns}
            rows.setdefault(obs, []).append(row)
    return rows
