"""What every algorithm offers: acting, gradients, updates, and the numbers that pace a run."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from torch import Tensor

from recollect.roles import ActingStep, Batch, Gradients, Info, Observation, Weights

if TYPE_CHECKING:
    from recollect.agent.algorithms.factory import AlgorithmFactory


class Algorithm(ABC):
    """Base class of all algorithms."""

    @classmethod
    @abstractmethod
    def create_factory(cls) -> "AlgorithmFactory":
        """Return a function that creates algorithms of this class."""

    @property
    @abstractmethod
    def gamma(self) -> float:
        """Discount factor."""

    @property
    @abstractmethod
    def start_steps(self) -> int:
        """Steps, over all envs and workers, that are collected with random actions first."""

    @property
    @abstractmethod
    def num_epochs(self) -> int:
        """Times that an update stage goes through its mini-batches."""

    @property
    @abstractmethod
    def update_every(self) -> int:
        """Steps of every env that are collected between update stages."""

    @property
    @abstractmethod
    def num_mini_batch(self) -> int:
        """Mini-batches of an epoch."""

    @property
    @abstractmethod
    def mini_batch_size(self) -> int:
        """Steps of a mini-batch."""

    @property
    @abstractmethod
    def test_every(self) -> int:
        """Network updates between evaluations; 0 for none."""

    @property
    @abstractmethod
    def num_test_episodes(self) -> int:
        """Episodes of an evaluation."""

    @abstractmethod
    def acting_step(
        self, obs: Observation, rhs: Tensor, done: Tensor, deterministic: bool = False, *args: object
    ) -> ActingStep:
        """Choose actions.

        Parameters
        ----------
        obs : (nested dict of) tensor or array `[num_envs, ...]`
            Current observations.
        rhs : tensor `[num_envs, R]`
            Hidden states; zeros if the actor has no memory.
        done : tensor `[num_envs, 1]`
            1 where `obs` begins an episode.
        deterministic : bool
            Take the most likely actions, without noise.

        Returns
        -------
        action : tensor `[num_envs, ...]`
            Actions as the policy and the storage know them.
        clipped_action : tensor `[num_envs, ...]`
            Actions as the environments take them.
        rhs : tensor `[num_envs, R]`
            Hidden states after this step.
        other : dict of tensors
            What the storage has to keep beside it, such as values and log-probabilities.
        """

    def preserving_exploration(self) -> AbstractContextManager[None]:
        """Let what acts inside leave exploration as it is: schedules, noise and the numbers that it draws next.

        For those who act beside the training. An algorithm that keeps nothing of its steps has nothing to do.
        """
        return nullcontext()

    @abstractmethod
    def compute_gradients(self, batch: Batch, grads_to_cpu: bool = True, *args: object) -> tuple[Gradients, Info]:
        """Compute the gradients of a batch, without taking an optimisation step.

        Parameters
        ----------
        batch : dict of tensors
            As the storages give it.
        grads_to_cpu : bool
            Move the gradients to the CPU, to send them to another process.

        Returns
        -------
        grads : list of tensors
            Gradients, None for parameters that have none in this step.
        info : dict
            Losses and TD errors, under `keys.ALGORITHM`.
        """

    @abstractmethod
    def apply_gradients(self, gradients: Gradients | None = None, *args: object) -> None:
        """Take an optimisation step, with the given gradients if there are any."""

    def end_stages(self, num_updates: int, num_stages: int = 1) -> None:  # noqa: B027  # most need not listen
        """Hear that update stages have ended, and how many updates they brought."""

    @abstractmethod
    def set_weights(self, actor_weights: Weights, *args: object) -> None:
        """Set the weights of the actor."""

    @abstractmethod
    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: object, *args: object) -> None:
        """Change a parameter while running; an unknown name changes nothing and warns."""
