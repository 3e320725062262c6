"""The roles of an agent, on one page: what each part promises to the others.

Signatures across packages name these protocols, not classes, so that a custom part only has to keep the
promise. Shapes: `num_envs` environments step together, `batch` rows are learned from at once, `R` is the width of
a hidden state.
"""

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypedDict, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    import gymnasium as gym

    from recollect.agent.envs.step import Step
    from recollect.agent.storages.experience.store.outbox import Outbox
    from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
    from recollect.scheme.base.commands import Command
    from recollect.scheme.collection.agent_worker import AgentWorker
    from recollect.scheme.collection.collectors.reports import WorkerReport
    from recollect.scheme.collection.worker.evaluation import Evaluation
    from recollect.scheme.gradients.status import Gradient, GradientReport, GradientStatus
    from recollect.scheme.overlap import Overlap
    from recollect.scheme.scheme import Scheme

Array = np.ndarray | Tensor
Numbers = Array | Sequence[float]
"""One number for each environment or row: an array, a tensor or a list."""

Device = torch.device | str

EnvFunction = Callable[..., "gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]"]
"""Makes an environment, or a vector of them, from the options of the environment."""

EnvWrapper = Callable[..., "gym.Env[Any, Any]"]
"""Makes an environment of another one, and of options: a `gymnasium.Wrapper`, or a function."""

Observation = Any
"""Array or tensor `[num_envs, ...]`, or a (nested) dict of them: whatever the environment's space says."""

Sample = Mapping[str, Any]
"""One step of every environment by key (`recollect.keys`), `[num_envs, ...]`; several steps `[time, num_envs, ...]`."""


class Batch(TypedDict, total=False):
    """What is learned from at once, by key (`recollect.keys`): rows `[batch, ...]`, or `[num_seq, length, ...]`.

    Every storage gives those of its steps; the others are there where a storage or an actor brings them.
    """

    Observation: Observation
    Action: Tensor
    Reward: Tensor
    IntrinsicReward: Tensor
    Done: Tensor
    NextObservation: Observation
    NextDone: Tensor
    NextTerminated: Tensor
    RecurrentHiddenStates: Tensor
    NextRecurrentHiddenStates: Tensor
    ActionProbs: Tensor
    Value: Tensor
    LogProb: Tensor
    Return: Tensor
    Advantage: Tensor
    Discount: Tensor
    n_step: Tensor
    idxs: Tensor
    per_weights: Tensor
    ck: Tensor
    Mask: Tensor
    Cut: Tensor
    SequenceStart: Tensor


Info = dict[str, Any]
"""What is known about a computation, for storages, loggers and people."""

Gradients = Sequence[Tensor | None]
"""Gradients of an algorithm's parameters, in their order; None where there is none."""

Weights = Mapping[str, Tensor]
"""Weights of a network by name."""

ActingStep = tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]
"""Actions, actions as the environments take them, hidden states, and what the storage keeps beside them."""


class VectorEnvs(Protocol):
    """Environments that step together."""

    @property
    def num_envs(self) -> int: ...
    @property
    def observation_space(self) -> "gym.Space[Any]": ...
    @property
    def action_space(self) -> "gym.Space[Any]": ...
    @property
    def env_fns(self) -> "Sequence[Callable[[], gym.Env[Any, Any]]]": ...
    @property
    def num_failures(self) -> int: ...
    def reset(self) -> Observation: ...
    def reseed(self, number: int) -> None: ...
    def close(self) -> None: ...


class SteppingEnvs(VectorEnvs, Protocol):
    """Environments in this process, or as good as: those of other workers only tell their form."""

    def step(self, action: Tensor) -> "Step": ...


@runtime_checkable
class SavableEnvs(Protocol):
    """Environments whose state can be saved, or that say why it cannot."""

    def state(self) -> dict[str, Any] | str: ...
    def load_state(self, state: Mapping[str, Any]) -> None: ...


class Actor(Protocol):
    """Networks that act: observations in, actions out."""

    generator: torch.Generator
    obs_space: "gym.Space[Any]"
    action_space: "gym.Space[Any]"

    @property
    def is_recurrent(self) -> bool: ...
    @property
    def sequence_overlap(self) -> int: ...

    def seed(self, seed: int) -> None: ...
    def actor_initial_states(self, obs: Observation) -> tuple[Observation, Tensor, Tensor]: ...
    def observe(
        self, obs: Observation, reward: Array, done: Array, gamma: float = ..., *, skip: np.ndarray | None = ...
    ) -> None: ...
    def random_actions(self, num: int, obs: Observation = ...) -> Tensor: ...
    def to_env(self, action: Tensor) -> Tensor: ...
    def state_dict(self) -> Weights: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def load(self, path: str | PathLike[str]) -> None: ...


@runtime_checkable
class FollowsEpisodes(Protocol):
    """An actor that keeps something of the episodes in progress, beside what it has learned."""

    def episodes_state(self) -> dict[str, Any]: ...
    def load_episodes(self, state: Mapping[str, Any], num_envs: int) -> None: ...


class Optimiser(Protocol):
    """What trains an algorithm's parameters."""

    @property
    def parameters(self) -> Sequence[nn.Parameter]: ...


class Algorithm(Protocol):
    """How to act, and what to learn from a batch. Paces the run: when to update, how often to evaluate."""

    is_on_policy: ClassVar[bool]
    envs: VectorEnvs
    generator: torch.Generator
    num_acted: int
    num_updates: int
    num_missed: int
    num_learners: int
    num_collectors: int

    @property
    def device(self) -> torch.device: ...
    @property
    def actor(self) -> Actor: ...
    @property
    def multipliers(self) -> nn.Module: ...
    @property
    def optimiser(self) -> Optimiser: ...
    @property
    def gamma(self) -> float: ...
    @property
    def start_steps(self) -> int: ...
    @property
    def update_every(self) -> int: ...
    @property
    def num_epochs(self) -> int: ...
    @property
    def num_mini_batch(self) -> int: ...
    @property
    def mini_batch_size(self) -> int: ...
    @property
    def test_every(self) -> int: ...
    @property
    def num_test_episodes(self) -> int: ...

    def acting_step(self, obs: Observation, rhs: Tensor, done: Tensor, deterministic: bool = False) -> ActingStep: ...
    def preserving_exploration(self) -> AbstractContextManager[None]: ...
    def compute_gradients(self, batch: Batch, grads_to_cpu: bool = True) -> tuple[Gradients, Info]: ...
    def apply_gradients(self, gradients: Gradients | None = None) -> None: ...
    def end_stages(self, num_updates: int, num_stages: int = 1) -> None: ...
    def set_weights(self, actor_weights: Weights) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def load_state(self, state: Mapping[str, Any]) -> None: ...
    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: object) -> None: ...


@runtime_checkable
class ActsThrough(Protocol):
    """An algorithm that can act through other networks of the same form, while its own are trained."""

    def acting_through(self, actor: Any) -> Algorithm: ...


class RewardsNovelty(Protocol):
    """An algorithm that may add rewards of its own to those of the task."""

    @property
    def intrinsic_weight(self) -> float: ...

    def intrinsic_reward(self, obs: Observation) -> Tensor | None: ...


class OnPolicyActor(Actor, Protocol):
    """An actor whose rewards may be normalised."""

    def normalise_reward(self, reward: Tensor) -> Tensor: ...


class OnPolicyAlgorithm(Algorithm, Protocol):
    """An algorithm that on-policy storages ask for values."""

    def next_values(self, batch: Batch) -> Tensor: ...
    def evaluate_actions(self, batch: Batch) -> tuple[Tensor, Tensor]: ...


class Storage(Protocol):
    """Experience in, batches out."""

    max_size: int
    actor: Actor
    algorithm: Algorithm
    envs: VectorEnvs

    def __len__(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def storage_tensors(self) -> tuple[str, ...]: ...
    @property
    def num_bytes(self) -> int: ...
    def insert_transition(self, sample: Sample) -> None: ...
    def insert_data_slice(self, new_data: Sample) -> None: ...
    def append_piece(self, piece: "RingPiece", *, source: Hashable) -> int: ...
    def make_outbox(self, num_steps: int, before: "Outbox | None" = None) -> "Outbox": ...
    def release_source(self, source: Hashable) -> None: ...
    def before_gradients(self) -> None: ...
    def generate_batches(self, num_mini_batch: int, mini_batch_size: int, num_epochs: int = 1) -> Iterator[Batch]: ...
    def after_gradients(self, batch: Batch, info: Info) -> Info: ...
    def reset(self) -> None: ...
    def update_storage_parameter(self, parameter_name: str, new_parameter_value: object) -> None: ...


class Collector(Protocol):
    """Has data collected, one update stage after the other, into a learner's storage."""

    @property
    def num_env_failures(self) -> int: ...
    def collect(self) -> int: ...
    def beside(self, overlap: "Overlap") -> AbstractContextManager[None] | None: ...
    def reports(self) -> tuple["WorkerReport", ...]: ...
    def set_num_workers(self, num_workers: int) -> None: ...
    def progress(self) -> int | None: ...


class GradientSource(Protocol):
    """Gradient workers, here or elsewhere, as the worker that applies updates sees them."""

    @property
    def col_worker(self) -> "AgentWorker": ...
    @property
    def algo(self) -> Algorithm: ...
    @property
    def num_steps(self) -> int: ...
    @property
    def offending_batch(self) -> Batch | None: ...

    def stage(self) -> Generator["Gradient", None, None]: ...
    def status(self) -> "GradientStatus": ...
    def report(self) -> "GradientReport": ...
    def state(self) -> dict[str, Any]: ...
    def load_state(self, state: Mapping[str, Any]) -> None: ...
    def capture_storage(self, folder: Path, name: str) -> Callable[[], None]: ...
    def load_storage(self, folder: Path, name: str) -> None: ...
    def execute(self, command: "Command") -> None: ...
    def stop(self) -> None: ...


class Training(Protocol):
    """A training under way, as those who record or show it see it; `Learner` is one."""

    scheme: "Scheme"
    elapsed_s: float
    stop_reason: str | None
    last_evaluation: "Evaluation | None"
    logged: dict[str, float]
    unwritten: set[str]

    @property
    def num_steps(self) -> int: ...
    def done(self) -> bool: ...
    def callback_states(self) -> dict[str, Any]: ...
    def get_metrics(self) -> dict[str, float]: ...


class EnvsFactory(Protocol):
    """Makes the environments of a worker; `mode` tells train from test ones."""

    def __call__(self, device: Device, index_worker: int, index_parent: int, mode: str = ...) -> SteppingEnvs: ...


class ActorFactory(Protocol):
    """Makes an actor on a device."""

    def __call__(self, device: Device) -> Actor: ...


class AlgorithmFactory(Protocol):
    """Makes an algorithm for an actor and environments."""

    def __call__(self, device: Device, actor: Actor, envs: VectorEnvs) -> Algorithm: ...


class StorageFactory(Protocol):
    """Makes a storage for an actor, an algorithm and environments."""

    def __call__(self, device: Device, actor: Actor, algorithm: Algorithm, envs: VectorEnvs) -> Storage: ...


ComponentFactory = EnvsFactory | ActorFactory | AlgorithmFactory | StorageFactory
"""Makes a component of a worker, see `CWorker.replace_agent_component`."""
