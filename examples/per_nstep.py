"""Prioritised replay with 3-step returns, and settings that change during training.

The buffer stores raw TD errors and single steps, so `beta`, `alpha` and `n_step` can change at any time without
losing data. Here beta rises to 1, as in the paper (Schaul et al., 2015), and the last third uses 1-step returns.
"""

import argparse

import recollect as rc
from recollect.config import build, resolve


def main(steps: int = 15_000) -> rc.Learner:
    config = resolve("sac", "Pendulum-v1", overrides={"storage": "per", "alpha": 0.6, "n_step": 3, "seed": 1})
    learner = rc.Learner(build(config), target_steps=steps)
    n_step = 3
    while not learner.done():
        learner.step()
        share = learner.num_steps / steps
        learner.update_storage_parameter("beta", min(1.0, 0.4 + 0.6 * share))
        if share > 2 / 3 and n_step == 3:
            n_step = 1
            learner.update_storage_parameter("n_step", n_step)
            print(f"1-step returns from step {learner.num_steps:,} on")
    print(learner.evaluate(num_episodes=20))
    learner.stop()
    return learner


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15_000)
    main(**vars(parser.parse_args()))
