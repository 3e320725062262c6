"""Evaluation: a given number of whole episodes without exploration, an equal share from every env."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from recollect.checks import check_count
from recollect.errors import EnvError
from recollect.roles import Actor, Algorithm, SteppingEnvs
from recollect.scheme.collection.worker.episodes import Episode, EpisodeLog, equal_shares

_LOG = logging.getLogger(__name__)

# The longest episodes of common tasks, Atari's, have at most 27,000 steps.
_LONG_EPISODE: Final = 100_000
# Failures of one env between two episodes that end; one that fails now and then has far fewer.
_MAX_LOST: Final = 100


@dataclass(frozen=True)
class Evaluation:
    """What the episodes of an evaluation brought.

    Attributes
    ----------
    returns : tuple of float
        Sum of rewards of each episode.
    lengths : tuple of int
        Steps of each.
    successes : tuple of float
        Whether each succeeded, where the environment says so; else empty.

    Examples
    --------
    >>> print(Evaluation((-120.0, -160.0), (200, 200)))
    -140.0 ± 20.0 over 2 episodes
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean return; NaN for a single episode."""
        if len(self.returns) < 2:
            return math.nan
        return float(np.std(self.returns, ddof=1) / math.sqrt(len(self.returns)))

    @property
    def success_rate(self) -> float | None:
        """Share of episodes that succeeded, None where the environment does not say."""
        return float(np.mean(self.successes)) if self.successes else None

    def __str__(self) -> str:
        episodes = "1 episode" if len(self.returns) == 1 else f"{len(self.returns)} episodes"
        spread = "" if len(self.returns) == 1 else f" ± {self.standard_error:,.1f}"
        success = "" if self.success_rate is None else f", success {self.success_rate:.0%}"
        return f"{self.mean:,.1f}{spread} over {episodes}{success}"


def evaluate(algo: Algorithm, actor: Actor, envs: SteppingEnvs, num_episodes: int) -> Evaluation:
    """Run exactly `num_episodes` episodes, with actions chosen deterministically.

    Every env contributes a number of episodes that is fixed beforehand, its first ones. To take
    whichever end first would favour short episodes. For the same reason none is cut short: one that may never
    end, in an environment without a time limit, is warned of. An env that fails before any of its episodes ends is an
    `EnvError`.
    """
    quotas = equal_shares(check_count("num_episodes", num_episodes), envs.num_envs)
    finished: list[list[Episode]] = [[] for _ in quotas]
    num_lost = np.zeros(envs.num_envs, np.int64)  # since an episode of the env has ended
    log = EpisodeLog(envs.num_envs)
    obs = envs.reset()
    _, rhs, done = actor.actor_initial_states(obs)
    while any(len(episodes) < quota for episodes, quota in zip(finished, quotas, strict=True)):
        _, clipped_action, rhs, _ = algo.acting_step(obs, rhs, done, deterministic=True)
        step = envs.step(clipped_action)
        for episode in log.follow(step, step.ended):
            finished[episode.env].append(episode)
            num_lost[episode.env] = 0
        if not step.is_plain:
            num_lost += step.cut[:, 0]
            _check_ends(num_lost)
        if log.longest == _LONG_EPISODE:
            _warn_of_long_episode()
        obs, done = step.obs, torch.as_tensor(step.begins, dtype=torch.float32, device=done.device)
    return _summary([episode for episodes, quota in zip(finished, quotas, strict=True) for episode in episodes[:quota]])


def _check_ends(num_lost: np.ndarray) -> None:
    """Refuse envs that lose every episode to a failure: each time they are rebuilt, and would never be done."""
    if num_lost.max() >= _MAX_LOST:
        raise EnvError(
            f"env {int(num_lost.argmax())} of the evaluation failed in {_MAX_LOST} episodes, and none of its episodes "
            "ended in between; correct the env"
        )


def _warn_of_long_episode() -> None:
    _LOG.warning(
        "an episode of the evaluation has not ended after %s steps, and without a time limit it may never do so; "
        "give the environment one: the option max_episode_steps, or gymnasium.wrappers.TimeLimit",
        f"{_LONG_EPISODE:,}",
    )


def _summary(episodes: Sequence[Episode]) -> Evaluation:
    return Evaluation(
        tuple(episode.total_reward for episode in episodes),
        tuple(episode.num_steps for episode in episodes),
        tuple(episode.success for episode in episodes if episode.success is not None),
    )
