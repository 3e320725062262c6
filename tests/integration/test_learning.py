"""Agents learn what they should in little time, and fail where an ingredient is missing."""

from typing import Final

import pytest

from tests.learning import Check, Preset

BITS: Final = {"env.n": 8}
DELAY: Final = {"env.delay": 5}

CHECKS: Final = {
    # Half of the preset's updates, on batches half as large, are enough and quicker. Without learning: about 10.
    "ddqn balances the pole": Check(
        train=Preset("cartpole-ddqn", 15_000, {"mini_batch_size": 64, "num_mini_batch": 2, "tau": 0.01}),
        threshold=100,
        trials="0 of 21 failed; worst 151.5, median 325.2; chance of a false alarm 8e-05",
    ),
    # Without learning: about -1,200.
    "sac swings the pendulum up": Check(
        train=Preset("pendulum-sac", 6_000),
        threshold=-300,
        trials="0 of 21 failed; worst -183.5, median -154.6; chance of a false alarm 8e-05",
    ),
    # Without learning: about 20.
    "ppo balances the pole": Check(
        train=Preset("cartpole-ppo", 20_000),
        threshold=200,
        trials="0 of 21 failed; worst 266.9, median 500; chance of a false alarm 8e-05",
    ),
    "hindsight flips eight bits": Check(
        train=Preset("bitflip-ddqn-her", 6_000, BITS, 100, by_success=True),
        threshold=0.9,
        trials="0 of 21 failed; worst 1, median 1; chance of a false alarm 8e-05",
    ),
    "without hindsight eight bits are not flipped": Check(
        train=Preset("bitflip-ddqn-her", 6_000, BITS | {"storage": "replay"}, 100, by_success=True),
        threshold=0.2,
        learns=False,
        trials="0 of 21 failed; worst 0.08, median 0.04; chance of a false alarm 8e-05",
    ),
    "memory recalls the cue": Check(
        train=Preset("recall-ddqn-gru", 10_000, DELAY, 100, by_success=True),
        threshold=0.9,
        trials="0 of 21 failed; worst 1, median 1; chance of a false alarm 8e-05",
    ),
    # Chance is 50 %, with a standard error of 5 %.
    "without memory the cue is guessed": Check(
        train=Preset("recall-ddqn-gru", 10_000, DELAY | {"memory": None}, 100, by_success=True),
        threshold=0.7,
        learns=False,
        trials="0 of 21 failed; worst 0.59, median 0.51; chance of a false alarm 8e-05",
    ),
    "ppo with memory recalls the cue": Check(
        train=Preset("recall-ppo-gru", 12_000, DELAY, 100, by_success=True),
        threshold=0.9,
        trials="0 of 20 failed; worst 1, median 1; chance of a false alarm 9e-05",
    ),
    "ppo without memory guesses the cue": Check(
        train=Preset("recall-ppo-gru", 12_000, DELAY | {"memory": None}, 100, by_success=True),
        threshold=0.7,
        learns=False,
        trials="0 of 20 failed; worst 0.57, median 0.485; chance of a false alarm 9e-05",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_preset_learns_only_with_all_it_needs(name: str) -> None:
    CHECKS[name].judge()
