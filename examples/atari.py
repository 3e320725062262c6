"""Atari from pixels: standard preprocessing, a Nature CNN, and frames stored once.

An observation is a stack of four 84×84 frames. With `frame_stack=4` the storage keeps single frames and rebuilds
the stacks when sampling: a million steps take 7 GB instead of 56. Needs `pip install "recollect[atari]"`.
Learning Pong takes about a million steps; this example shows the set-up and its cost.
"""

import argparse
from typing import Any

import recollect as rc


def main(steps: int = 50_000) -> float:
    size: dict[str, Any] = {"storage.size": 25_000}
    agent = rc.Agent(
        "ddqn",
        "ALE/Pong-v5",
        "per",
        num_envs=4,
        seed=1,
        frame_stack=4,
        n_step=3,
        alpha=0.5,
        dueling=True,
        hidden_sizes=(512,),
        critic_lr=1e-4,
        mini_batch_size=32,
        update_every=4,
        num_mini_batch=4,
        start_steps=min(5_000, steps // 2),
        epsilon_steps=100_000,
        test_every=0,
        **size,
    )
    agent.learn(steps, progress=True)
    storage = agent.scheme.storage
    kilobytes = storage.num_bytes / len(storage) / 1000
    print(f"{len(storage):,} steps stored, {kilobytes:.1f} kB each (two stacks of four frames would be 56 kB)")
    agent.close()
    return kilobytes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50_000)
    main(**vars(parser.parse_args()))
