"""`A2C`: advantage actor-critic."""

from dataclasses import dataclass

from recollect import keys
from recollect.agent.algorithms.config import learning_rate
from recollect.agent.algorithms.learning import Losses
from recollect.agent.algorithms.on_policy.policy_gradient import PolicyGradient, PolicyGradientConfig
from recollect.agent.algorithms.on_policy.surrogate import explained_variance, weighted_policy_gain
from recollect.agent.algorithms.optimiser import optimiser_name
from recollect.agent.algorithms.utils import backward
from recollect.options import count, flag, option
from recollect.roles import Batch


@dataclass(frozen=True, kw_only=True)
class A2CConfig(PolicyGradientConfig):
    """Options of `A2C`."""

    lr: float = learning_rate(7e-4, "Learning rate.")
    normalise_advantages: bool = option(False, "Give advantages mean 0 and deviation 1 in each mini-batch.", flag)
    update_every: int = option(5, "Steps of every env between update stages.", count)
    num_mini_batch: int = option(1, "Mini-batches of an epoch, equal shares of all steps.", count)
    num_epochs: int = option(1, "Epochs of an update stage.", count)
    optimiser: str = option("rmsprop", "Optimiser: rmsprop, adam, or any other of torch.optim by name.", optimiser_name)


class A2C(PolicyGradient):
    """Advantage actor-critic (Mnih et al., 2016, https://arxiv.org/abs/1602.01783), whose workers wait for each other.

    One update follows every `update_every` steps. `gae_lambda=1.0` of the storage gives the paper's n-step returns.
    Gains are weighted by the ratio of the present policy to the one that acted, at most 1: nothing changes for
    rollouts of the present policy, and with the storage `vtrace` it is the loss of IMPALA (Espeholt et al., 2018).

    Examples
    --------
    >>> A2C.create_factory(entropy_weight=0.01)
    AlgorithmFactory(A2C, entropy_weight=0.01)
    """

    config_class = A2CConfig
    config: A2CConfig
    title = "A2C"
    optimiser_epsilon = 1e-5

    def _backward(self, batch: Batch) -> Losses:
        features, rows, mask = self._read(batch)
        log_prob, entropies = self._distribution(features, mask).log_prob_and_entropy(rows[keys.ACTION])
        loss_pi = -weighted_policy_gain(log_prob, rows[keys.LOG_PROB], self._advantages(rows)).mean()
        loss_v = (self.critics(features) - rows[keys.RETURN]).square().mean()
        entropy = entropies.mean()
        backward(loss_pi + self.config.value_weight * loss_v - self.config.entropy_weight * entropy)
        explained = explained_variance(rows[keys.VALUE], rows[keys.RETURN])
        return Losses({"loss_pi": loss_pi, "loss_v": loss_v, "entropy": entropy, "explained_variance": explained})
