"""What an algorithm asks of an actor: which heads, and which of them have slow copies."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from recollect.checks import check_count
from recollect.errors import ConfigError, closest

PolicyKind = Literal["categorical", "gaussian", "squashed_gaussian", "deterministic"]
CriticKind = Literal["q_values", "q_action", "value"]

POLICY_KINDS: Final = get_args(PolicyKind)
CRITIC_KINDS: Final = get_args(CriticKind)


@dataclass(frozen=True)
class ActorPlan:
    """The heads that an algorithm needs; an actor is built after it.

    Parameters
    ----------
    policy : {"categorical", "gaussian", "squashed_gaussian", "deterministic"} or None
        Which distribution the policy gives; None where the critic alone decides, as in DDQN.
    critic : {"q_values", "q_action", "value"}
        What the critic estimates: `q_values` the value of each of finitely many actions, `q_action` of a
        given action, `value` of the state.
    num_critics : int
        How many critics are trained side by side.
    target_policy, target_critics : bool
        Whether there is a slowly following copy.

    Examples
    --------
    >>> ActorPlan(policy="squashed_gaussian", critic="q_action", num_critics=2)
    ActorPlan(policy='squashed_gaussian', critic='q_action', num_critics=2, target_policy=False, target_critics=True)
    """

    policy: PolicyKind | None
    critic: CriticKind
    num_critics: int = 1
    target_policy: bool = False
    target_critics: bool = True

    def __post_init__(self) -> None:
        if self.policy is not None and self.policy not in POLICY_KINDS:
            raise ConfigError(f"policy must be one of {POLICY_KINDS}, got {self.policy!r}; {_hint(self.policy)}")
        if self.critic not in CRITIC_KINDS:
            raise ConfigError(f"critic must be one of {CRITIC_KINDS}, got {self.critic!r}; {_hint(self.critic)}")
        if self.policy is None and (self.critic != "q_values" or self.target_policy):
            raise ConfigError(
                "an actor without a policy needs the critic 'q_values' and has no target policy to follow"
            )
        check_count("num_critics", self.num_critics)

    @property
    def has_targets(self) -> bool:
        """Whether any part has a slowly following copy."""
        return self.target_policy or self.target_critics


def _hint(kind: object) -> str:
    return closest(str(kind), (*POLICY_KINDS, *CRITIC_KINDS))
