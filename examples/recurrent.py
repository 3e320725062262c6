"""Memory: remember a cue that is shown once and queried later.

The same agent trains with and without a GRU. With one, the storage returns sequences with their initial hidden
states; you do not have to configure anything else.
"""

import argparse
from typing import Any

import recollect as rc


def train(memory: str | None, steps: int, seed: int) -> float:
    """Return the share of cues that the agent recalls."""
    options: dict[str, Any] = {"env.delay": 5, "memory": memory, "hidden_sizes": (32,), "memory_size": 32}
    agent = rc.Agent("ddqn", "recollect/RecallCue-v0", num_envs=8, seed=seed, **options)
    agent.learn(steps)
    evaluation = agent.evaluate(episodes=100)
    agent.close()
    return evaluation.success_rate or 0.0


def main(steps: int = 15_000, seed: int = 1) -> dict[str, float]:
    rates = {str(memory): train(memory, steps, seed) for memory in (None, "gru")}
    for memory, rate in rates.items():
        print(f"memory {memory}: {rate:.0%} recalled (chance is 50%)")
    return rates


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
