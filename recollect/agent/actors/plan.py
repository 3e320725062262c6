"""What an algorithm asks of an actor: which heads, and which of them have target networks."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from recollect.agent.actors.config import NetworkBuilder
from recollect.checks import check_count
from recollect.errors import ConfigError, closest

PolicyKind = Literal["categorical", "gaussian", "squashed_gaussian", "deterministic"]
CriticKind = Literal["q_values", "q_action", "value"]

POLICY_KINDS: Final = get_args(PolicyKind)
CRITIC_KINDS: Final = get_args(CriticKind)


@dataclass(frozen=True)
class ActorPlan:
    """The heads that an algorithm needs; an actor is built from it.

    An algorithm that needs other networks than those below brings its own: a function instead of a kind. Plans travel
    to workers and are compared, so the function must be a module's own or a frozen dataclass with `__call__`.

    Parameters
    ----------
    policy : {"categorical", "gaussian", "squashed_gaussian", "deterministic"}, callable or None
        Which distribution the policy gives, or what builds a module that turns features into one; None where the
        critic alone decides, as in DDQN.
    critic : {"q_values", "q_action", "value"} or callable
        What the critic estimates: `q_values` the value of each of finitely many actions, `q_action` of a
        given action, `value` of the state. Or what builds the critics, with as many outputs as the algorithm wants.
    num_critics : int
        How many critics are trained side by side.
    target_policy, target_critics : bool
        Whether there is a target network.

    Examples
    --------
    >>> ActorPlan(policy="squashed_gaussian", critic="q_action", num_critics=2)
    ActorPlan(policy='squashed_gaussian', critic='q_action', num_critics=2, target_policy=False, target_critics=True)
    """

    policy: PolicyKind | NetworkBuilder | None
    critic: CriticKind | NetworkBuilder
    num_critics: int = 1
    target_policy: bool = False
    target_critics: bool = True

    def __post_init__(self) -> None:
        if self.policy is not None:
            _check_kind("policy", self.policy, POLICY_KINDS)
        _check_kind("critic", self.critic, CRITIC_KINDS)
        if self.policy is None and (self.critic in ("q_action", "value") or self.target_policy):
            raise ConfigError("an actor without a policy needs a critic that values every action, and no target policy")
        check_count("num_critics", self.num_critics)

    @property
    def has_targets(self) -> bool:
        """Whether there is any target network."""
        return self.target_policy or self.target_critics


def _check_kind(role: str, kind: object, known: tuple[str, ...]) -> None:
    if not callable(kind) and kind not in known:
        hint = closest(str(kind), (*POLICY_KINDS, *CRITIC_KINDS))
        raise ConfigError(f"{role} must be one of {known} or a function that builds it, got {kind!r}; {hint}")
