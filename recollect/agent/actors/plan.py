"""`ActorPlan`: the networks that an algorithm needs, and which of them have target networks."""

from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from recollect.agent.actors.config import NetworkBuilder
from recollect.checks import check_count
from recollect.errors import ConfigError, closest

PolicyKind = Literal["categorical", "gaussian", "squashed_gaussian", "deterministic"]
CriticKind = Literal["q_values", "q_action", "value"]
IntrinsicKind = Literal["rnd"]

POLICY_KINDS: Final = get_args(PolicyKind)
CRITIC_KINDS: Final = get_args(CriticKind)


@dataclass(frozen=True)
class Layers:
    """What the layers of a network have beside weights and activations. `|` asks for both.

    Parameters
    ----------
    layer_norm : bool
        Normalise each hidden layer before its activation.
    dropout : float
        Share of a hidden layer that is dropped in learning.
    noisy : float
        Deviation of the noise on weights at first, times the root of a layer's inputs; 0 for none.
    batch_renorm : bool
        Normalise the inputs of every layer over the batch.
    """

    layer_norm: bool = False
    dropout: float = 0.0
    noisy: float = 0.0
    batch_renorm: bool = False

    @property
    def is_composed(self) -> bool:
        """Whether there is more than a layer norm, which plain networks have too."""
        return bool(self.dropout or self.noisy or self.batch_renorm)

    def __or__(self, other: "Layers") -> "Layers":
        return Layers(
            self.layer_norm or other.layer_norm,
            max(self.dropout, other.dropout),
            max(self.noisy, other.noisy),
            self.batch_renorm or other.batch_renorm,
        )


PLAIN: Final = Layers()


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
    dueling : bool
        Whether critics of kind `q_values` are a state's value plus advantages, whatever the user's config says.
    num_atoms : int
        Numbers that make up a value: quantiles of the return, or logits of its categories. Critics of several give
        `[num_critics, batch, num_actions, num_atoms]` or, for a given action, `[num_critics, batch, num_atoms]`.
    policy_layers, critic_layers : Layers
        What layers must have for the algorithm to be itself, beside what the user's config asks for.
    intrinsic : {"rnd"} or None
        What finds observations interesting: random network distillation, or nothing.

    Examples
    --------
    >>> ActorPlan(policy="squashed_gaussian", critic="q_action", num_critics=2)
    ActorPlan(policy='squashed_gaussian', critic='q_action', num_critics=2)
    """

    policy: PolicyKind | NetworkBuilder | None
    critic: CriticKind | NetworkBuilder
    num_critics: int = 1
    target_policy: bool = False
    target_critics: bool = True
    dueling: bool = False
    num_atoms: int = 1
    policy_layers: Layers = PLAIN
    critic_layers: Layers = PLAIN
    intrinsic: IntrinsicKind | None = None

    def __post_init__(self) -> None:
        if self.policy is not None:
            _check_kind("policy", self.policy, POLICY_KINDS)
        _check_kind("critic", self.critic, CRITIC_KINDS)
        if self.policy is None and (self.critic in ("q_action", "value") or self.target_policy):
            raise ConfigError("an actor without a policy needs a critic that values every action, and no target policy")
        check_count("num_critics", self.num_critics)
        check_count("num_atoms", self.num_atoms)

    @property
    def has_targets(self) -> bool:
        """Whether there is any target network."""
        return self.target_policy or self.target_critics

    def __repr__(self) -> str:
        """Name what is not as usual: an error shows two plans side by side."""
        values = ((entry, getattr(self, entry.name)) for entry in fields(self))
        chosen = ", ".join(f"{entry.name}={value!r}" for entry, value in values if value != entry.default)
        return f"ActorPlan({chosen})"


def _check_kind(role: str, kind: object, known: tuple[str, ...]) -> None:
    if not callable(kind) and kind not in known:
        hint = closest(str(kind), (*POLICY_KINDS, *CRITIC_KINDS))
        raise ConfigError(f"{role} must be one of {known} or a function that builds it, got {kind!r}; {hint}")
