"""Action distributions that draw from a given generator."""

from abc import ABC, abstractmethod
from typing import Final, Self

import torch
from torch import Generator, Tensor
from torch.nn import functional

from recollect.agent.actors.networks.judge import (
    Judge,
    JudgeNormal,
    is_judgeable,
    is_normally_judgeable,
    normal_entropy,
    normal_log_prob,
)
from recollect.agent.actors.networks.squash import LOG_STD_RANGE, is_squashable, log_tanh_slope, squashed

# The largest float32 below 1: atanh of a stored action must stay finite.
_ALMOST_ONE: Final = 1.0 - 2.0**-24
# The logit of what cannot happen. Finite, so that probability times log-probability is 0 and not NaN.
IMPOSSIBLE: Final = -1e9


class Distribution(ABC):
    """What every policy gives: one distribution over actions per row, in policy units."""

    @abstractmethod
    def sample(self, generator: Generator) -> Tensor:
        """Draw actions `[batch, action]`; differentiable where actions are continuous."""

    @abstractmethod
    def mode(self) -> Tensor:
        """Return the actions that stand for the distribution `[batch, action]`."""


class StochasticDistribution(Distribution):
    """A distribution that knows how probable an action is; `entropy` `[batch, 1]` where it has a closed form."""

    @abstractmethod
    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-probability of actions `[batch, 1]`."""

    def sample_with_log_prob(self, generator: Generator) -> tuple[Tensor, Tensor]:
        """Draw actions and say their log-probability `[batch, 1]`."""
        action = self.sample(generator)
        return action, self.log_prob(action)

    def log_prob_and_entropy(self, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of actions and the entropy, both `[batch, 1]`."""
        entropy: Tensor = self.entropy()  # type: ignore[attr-defined]  # where it has a closed form
        return self.log_prob(action), entropy


class Deterministic(Distribution):
    """All probability on one action."""

    def __init__(self, action: Tensor) -> None:
        self.action = action

    def sample(self, generator: Generator) -> Tensor:
        return self.action

    def mode(self) -> Tensor:
        return self.action


class Gaussian(StochasticDistribution):
    """Independent normal distributions; samples are differentiable.

    Parameters
    ----------
    mean, std : Tensor
        `[batch, action]`; std may be broadcast.
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self.mean = mean
        self.std = std

    def sample(self, generator: Generator) -> Tensor:
        return torch.addcmul(self.mean, self.std, _normal_like(self.mean, generator))

    def sample_with_log_prob(self, generator: Generator) -> tuple[Tensor, Tensor]:
        noise = _normal_like(self.mean, generator)
        return torch.addcmul(self.mean, self.std, noise), self._log_prob_of_noise(noise)

    def log_prob(self, action: Tensor) -> Tensor:
        return self._log_prob_of_noise((action - self.mean) / self.std)

    def log_prob_and_entropy(self, action: Tensor) -> tuple[Tensor, Tensor]:
        if type(self) is not Gaussian or not is_normally_judgeable(self.mean, self.std, action):
            return super().log_prob_and_entropy(action)
        found: tuple[Tensor, Tensor] = JudgeNormal.apply(self.mean, self.std, action)  # type: ignore[no-untyped-call]
        return found

    def entropy(self) -> Tensor:
        return normal_entropy(self.mean, self.std)

    def mode(self) -> Tensor:
        return self.mean

    def _log_prob_of_noise(self, noise: Tensor) -> Tensor:
        return normal_log_prob(noise, self.std)


class SquashedGaussian(StochasticDistribution):
    """A Gaussian squashed into (-1, 1) by tanh; its entropy has no closed form.

    Parameters
    ----------
    mean, std : Tensor
        Those before tanh, `[batch, action]`.
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self._outputs: Tensor | None = None
        self._gaussian: Gaussian | None = Gaussian(mean, std)

    @classmethod
    def of(cls, outputs: Tensor) -> Self:
        """Of a network's outputs `[batch, 2 * action]`: means, then logarithms of deviations."""
        found = cls.__new__(cls)
        found._outputs, found._gaussian = outputs, None
        return found

    @property
    def mean(self) -> Tensor:
        return self._raw.mean

    @property
    def std(self) -> Tensor:
        return self._raw.std

    @property
    def _raw(self) -> Gaussian:
        """What is squashed."""
        if self._gaussian is None:
            assert self._outputs is not None
            mean, log_std = self._outputs.chunk(2, -1)
            self._gaussian = Gaussian(mean, log_std.clamp(*LOG_STD_RANGE).exp())
        return self._gaussian

    def sample(self, generator: Generator) -> Tensor:
        outputs = self._outputs
        if outputs is None or not is_squashable(outputs):
            return self._raw.sample(generator).tanh()
        return self.sample_with_log_prob(generator)[0]

    def sample_with_log_prob(self, generator: Generator) -> tuple[Tensor, Tensor]:
        outputs = self._outputs
        if outputs is None or not is_squashable(outputs):
            raw, log_prob = self._raw.sample_with_log_prob(generator)
            return raw.tanh(), log_prob - log_tanh_slope(raw)
        noise = outputs.new_empty(len(outputs), outputs.shape[-1] // 2).normal_(generator=generator)
        return squashed(outputs, noise)

    def log_prob(self, action: Tensor) -> Tensor:
        raw = action.clamp(-_ALMOST_ONE, _ALMOST_ONE).atanh()
        return self._raw.log_prob(raw) - log_tanh_slope(raw)

    def mode(self) -> Tensor:
        return self.mean.tanh()


class Categorical(StochasticDistribution):
    """One choice out of finitely many; actions are int64 `[batch, 1]`.

    Parameters
    ----------
    logits : Tensor
        `[batch, num_actions]`, of any scale; the attribute `logits` holds them normalised.
    """

    def __init__(self, logits: Tensor) -> None:
        self._raw = logits
        self._normalised: Tensor | None = None

    @property
    def logits(self) -> Tensor:
        """Log-probability of each action `[batch, num_actions]`."""
        if self._normalised is None:
            self._normalised = self._raw.log_softmax(-1)
        return self._normalised

    @property
    def probs(self) -> Tensor:
        """Probability of each action `[batch, num_actions]`."""
        return self.logits.exp()

    def sample(self, generator: Generator) -> Tensor:
        # The smallest of exponential clocks with rates p belongs to an action with probability p.
        clocks = torch.empty_like(self.logits).exponential_(generator=generator)
        return (self.logits - clocks.log()).argmax(-1, keepdim=True)

    def log_prob(self, action: Tensor) -> Tensor:
        return self.logits.gather(-1, action)

    def log_prob_and_entropy(self, action: Tensor) -> tuple[Tensor, Tensor]:
        # Others that derive from this class have entropies of their own.
        if type(self) is not Categorical or not is_judgeable(self._raw, action):
            return super().log_prob_and_entropy(action)
        found: tuple[Tensor, Tensor] = Judge.apply(self._raw, action)  # type: ignore[no-untyped-call]
        return found

    def masked(self, mask: Tensor) -> Self:
        """The same distribution among the actions that `mask` allows, bool of the shape of `logits`."""
        return type(self)(self.logits.masked_fill(~mask, IMPOSSIBLE))

    def entropy(self) -> Tensor:
        return -(self.probs * self.logits).sum(-1, keepdim=True)

    def mode(self) -> Tensor:
        return self.logits.argmax(-1, keepdim=True)


class MultiCategorical(Categorical):
    """Several independent choices; actions are int64 `[batch, num_choices]`.

    Parameters
    ----------
    logits : Tensor
        `[batch, num_choices, max_actions]`; actions that a choice does not have carry a hugely negative logit.
    """

    def sample(self, generator: Generator) -> Tensor:
        return super().sample(generator).squeeze(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        return super().log_prob(action.unsqueeze(-1)).sum(-2)

    def entropy(self) -> Tensor:
        return super().entropy().sum(-2)

    def mode(self) -> Tensor:
        return super().mode().squeeze(-1)


class Bernoulli(StochasticDistribution):
    """Independent switches; actions are int64 0 or 1, `[batch, num_switches]`.

    Parameters
    ----------
    logits : Tensor
        Log-odds of 1, `[batch, num_switches]`.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @property
    def probs(self) -> Tensor:
        """Probability of 1 for each switch `[batch, num_switches]`."""
        return self.logits.sigmoid()

    def sample(self, generator: Generator) -> Tensor:
        uniform = torch.empty_like(self.logits).uniform_(generator=generator)
        return (uniform < self.probs).long()

    def log_prob(self, action: Tensor) -> Tensor:
        signs = 2 * action - 1
        return functional.logsigmoid(signs * self.logits).sum(-1, keepdim=True)

    def masked(self, mask: Tensor) -> Self:
        """The same switches, each with what `mask` allows of 0 and 1, bool `[batch, num_switches, 2]`."""
        logits = self.logits.masked_fill(~mask[..., 1], IMPOSSIBLE)
        return type(self)(logits.masked_fill(~mask[..., 0], -IMPOSSIBLE))

    def entropy(self) -> Tensor:
        return (functional.softplus(self.logits) - self.logits * self.probs).sum(-1, keepdim=True)

    def mode(self) -> Tensor:
        return (self.logits > 0).long()


def _normal_like(mean: Tensor, generator: Generator) -> Tensor:
    return torch.empty_like(mean).normal_(generator=generator)
