"""`REDQ`: soft actor-critic with many critics and many updates a step."""

from dataclasses import dataclass
from typing import get_args

from recollect.agent.algorithms.config import critic_count
from recollect.agent.algorithms.off_policy.actor_critic import target_critic_count
from recollect.agent.algorithms.off_policy.sac import POLICY_CRITICS_DOC, SAC, PolicyCritics, SACConfig
from recollect.agent.algorithms.off_policy.soft import policy_delay
from recollect.options import count, one_of, option


@dataclass(frozen=True, kw_only=True)
class REDQConfig(SACConfig):
    """Options of `REDQ`."""

    num_critics: int = critic_count(10)
    num_target_critics: int | None = target_critic_count(2)
    policy_critics: PolicyCritics = option("mean", POLICY_CRITICS_DOC, one_of(*get_args(PolicyCritics)))
    policy_delay: int = policy_delay(20)
    update_every: int = option(1, "Steps of every env between update stages.", count)
    num_mini_batch: int = option(20, "Mini-batches, and so updates, of an epoch.", count)


class REDQ(SAC):
    """Randomised ensembled double Q-learning (Chen et al., 2021, https://arxiv.org/abs/2101.05982).

    Twenty updates of the critics follow every step, and one of the policy, which climbs the mean of all critics.

    Examples
    --------
    >>> REDQ.create_factory(num_critics=5)
    AlgorithmFactory(REDQ, num_critics=5)
    """

    config_class = REDQConfig
    config: REDQConfig
    title = "REDQ"
