"""Train an agent, evaluate it, save it, load it and act with it."""

import argparse
from pathlib import Path
from tempfile import mkdtemp

import gymnasium as gym

import recollect as rc


def main(steps: int = 20_000) -> float:
    agent = rc.Agent("sac", "Pendulum-v1", storage="per", n_step=3, seed=1)
    agent.learn(steps, progress=True)
    print(agent.evaluate(episodes=20))  # mean ± standard error

    folder = Path(mkdtemp()) / "pendulum"
    agent.save(folder)
    agent.close()

    pilot = rc.Agent.load(folder)
    env = gym.make("Pendulum-v1")
    obs, _ = env.reset(seed=7)
    total, ended = 0.0, False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(pilot.predict(obs))
        total, ended = total + float(reward), terminated or truncated
    pilot.close()
    print(f"one episode of the loaded agent: {total:.0f} (random play: about -1,200)")
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    main(**vars(parser.parse_args()))
