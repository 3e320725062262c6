"""An alpha alone is safe: with no other option of priorities, every combination of a storage's ideas learns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

import recollect as rc
from tests.learning import Check


@dataclass(frozen=True)
class AlphaAlone:
    """Trains a small agent in stages until an evaluation is good enough; the score is that of its best evaluation.

    The last evaluation alone would say less: returns on CartPole go up and down while an agent learns.
    """

    env: str
    storage: str
    options: Mapping[str, Any]
    stages: tuple[int, ...]
    enough: float

    def __call__(self, seed: int) -> float:
        best = 0.0
        with rc.Agent("ddqn", self.env, self.storage, alpha=0.6, seed=seed, **self.options) as agent:
            for steps in self.stages:
                evaluation = agent.learn(steps).evaluate(20)
                score = evaluation.mean if evaluation.success_rate is None else evaluation.success_rate
                best = max(best, score)
                if best > self.enough:
                    break
        return best


RECENT: Final = {"eta": 0.996, "cmin": 500}
SMALL: Final = {"hidden_sizes": [64], "storage.size": 20_000, "test_every": 0}
# Without learning, about 0.15 of the goals are reached, and the pole falls after about 10 steps.
FLIPPED: Final = 0.8
BALANCED: Final = 30.0


def bit_flip(trials: str, **options: Any) -> Check:
    task = {**SMALL, "env.n": 5, "start_steps": 200, "epsilon_steps": 1_000, **options}
    train = AlphaAlone("recollect/BitFlip-v0", "her", task, (1_200, 800, 800), enough=0.8)
    return Check(train=train, threshold=FLIPPED, trials=trials)


def cart_pole(trials: str, storage: str, n_step: int) -> Check:
    task = {**SMALL, "start_steps": 300, "epsilon_steps": 1_500, "mini_batch_size": 64, "tau": 0.01, "n_step": n_step}
    train = AlphaAlone("CartPole-v1", storage, task, (2_000, 1_000, 1_000), enough=50.0)
    return Check(train=train, threshold=BALANCED, trials=trials)


CHECKS: Final = {
    "alpha alone with hindsight": bit_flip("0 of 24 failed; worst 0.85, median 0.95; chance of a false alarm 6e-05"),
    "alpha alone with hindsight and 2 steps": bit_flip(
        "0 of 24 failed; worst 0.85, median 1; chance of a false alarm 6e-05", n_step=2
    ),
    "alpha alone with hindsight and recency": bit_flip(
        "0 of 24 failed; worst 0.85, median 0.95; chance of a false alarm 6e-05", **RECENT
    ),
    "alpha alone with hindsight, 2 steps and recency": bit_flip(
        "0 of 24 failed; worst 0.85, median 0.95; chance of a false alarm 6e-05", n_step=2, **RECENT
    ),
    "alpha alone": cart_pole("0 of 24 failed; worst 77.65, median 151.1; chance of a false alarm 6e-05", "per", 1),
    "alpha alone with 3 steps": cart_pole(
        "0 of 24 failed; worst 51.4, median 96.38; chance of a false alarm 6e-05", "per", 3
    ),
    "alpha alone with recency": cart_pole(
        "0 of 24 failed; worst 57.1, median 125.2; chance of a false alarm 6e-05", "ere", 1
    ),
    "alpha alone with 3 steps and recency": cart_pole(
        "0 of 24 failed; worst 45.95, median 84.62; chance of a false alarm 6e-05", "ere", 3
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_an_alpha_needs_no_other_option_to_learn(name: str) -> None:
    CHECKS[name].judge()
