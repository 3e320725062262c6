"""Hindsight: learn from failures by pretending that the outcome was the goal.

The task is to flip eight bits into a goal, with a reward only for the complete goal. The same agent trains with
and without hindsight, in four environments whose episodes end at different times.
"""

import argparse
from typing import Any

import recollect as rc


def train(storage: str, steps: int, seed: int) -> float:
    """Return the share of goals that the agent reaches."""
    options: dict[str, Any] = {
        "env.n": 8,
        "critic_lr": 1e-3,
        "gamma": 0.95,
        "hidden_sizes": (128,),
        "epsilon_steps": 5_000,
    }
    agent = rc.Agent("ddqn", "recollect/BitFlip-v0", storage, num_envs=4, seed=seed, **options)
    agent.learn(steps)
    evaluation = agent.evaluate(episodes=100)
    agent.close()
    return evaluation.success_rate or 0.0


def main(steps: int = 10_000, seed: int = 1) -> dict[str, float]:
    rates = {storage: train(storage, steps, seed) for storage in ("replay", "her")}
    for storage, rate in rates.items():
        print(f"{storage:>6}: {rate:.0%} of the goals reached")
    return rates


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    main(**vars(parser.parse_args()))
