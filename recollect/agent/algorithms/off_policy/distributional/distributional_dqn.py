"""`DistributionalDQN`: double Q-learning whose critics give the distribution of returns."""

from abc import abstractmethod

import torch
from torch import Tensor

from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.losses.distributional import taken_atoms
from recollect.agent.algorithms.losses.targets import best_action
from recollect.agent.algorithms.off_policy.ddqn import DDQN
from recollect.agent.algorithms.transitions import Transitions
from recollect.agent.algorithms.utils import backward
from recollect.roles import Batch


class DistributionalDQN(DDQN):
    """Base of the algorithms that learn atoms of the return instead of its mean.

    As in `DDQN`, the online network chooses the action that the target network's distribution is of.
    """

    def _backward(self, batch: Batch) -> Losses:
        steps = self._read(batch)
        atoms = taken_atoms(self.critics(steps.features), steps.action)  # [1, rows, num_atoms]
        errors, losses = self._compare(atoms, steps, self._next_atoms(steps))
        loss, sizes = self._critic_loss(steps, errors, losses)
        backward(loss)
        return Losses({"loss_q": loss, "q": self._mean(atoms).mean()}, sizes)

    @torch.no_grad()
    def _next_atoms(self, steps: Transitions) -> Tensor:
        """Target network's atoms `[rows, num_atoms]` of the action that the online network prefers."""
        q_tp1 = self._mean(self.critics(steps.next_features(target=False))[0])
        atoms = self.target_critics(steps.next_features(target=True))[0]
        return taken_atoms(atoms, best_action(q_tp1, steps.next_mask))

    @abstractmethod
    def _compare(self, atoms: Tensor, steps: Transitions, next_atoms: Tensor) -> tuple[Tensor, Tensor]:
        """Compare atoms `[1, rows, num_atoms]` with their targets: error and loss of each row, `[1, rows, 1]`."""
