"""A newcomer's first day with an installed package, outside the repository.

    python -m tests.first_day [FOLDER]

builds a wheel, installs it into an empty environment, trains, interrupts with SIGTERM, resumes, uses a network, an
algorithm, an environment and a callback of one's own, tunes, and exports curves. `make test-all` runs it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_PACKAGED: Final = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt")
_TERMINATED: Final = 128 + signal.SIGTERM
_USAGE_ERROR: Final = 2
_SMALL: Final = (
    *("--set", "actor.hidden_sizes=[16]", "--set", "start_steps=100", "--set", "test_every=200"),
    *("--set", "num_test_episodes=2", "--num-test-envs", "2", "--final-episodes", "4", "--threads", "1"),
)

# What a newcomer writes.
_MINE: Final = '''
import gymnasium as gym
import numpy as np
import torch

from recollect import DDQN


class Waves(torch.nn.Module):
    """A network of one's own: sines of random projections."""

    def __init__(self, obs_space, num_waves=16):
        super().__init__()
        self.out_features = num_waves
        self.projection = torch.nn.Linear(obs_space.shape[0], num_waves)

    def forward(self, obs):
        return torch.sin(self.projection(obs.float()))


class HalfDDQN(DDQN):
    """An algorithm of one's own: double Q-learning that trusts half of the next value."""

    def _target(self, steps):
        return steps.reward + 0.5 * (super()._target(steps) - steps.reward)


class Corridor(gym.Env):
    """An environment of one's own: walk right to the end."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.num_steps = 0, 0
        return self._obs(), {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        self.num_steps += 1
        return self._obs(), float(self.place == 5) - 0.01, self.place == 5, self.num_steps == 50, {}

    def _obs(self):
        return np.array([self.place / 5], np.float32)
'''

_SCRIPT: Final = """
import recollect as rc


class Counter(rc.Callback):
    num_episodes = 0

    def on_episode_end(self, learner, episode):
        self.num_episodes += 1


if __name__ == "__main__":
    counter = Counter()
    agent = rc.Agent("ddqn", "CartPole-v1", "per", start_steps=100, test_every=100, num_test_episodes=2)
    agent.learn(2_000, log_dir="runs/script", callbacks=[counter, rc.StopAt(5.0)])
    assert agent.num_steps < 2_000, "a score of 5 is reached at the first evaluation"
    print(counter.num_episodes, "episodes,", agent.evaluate(episodes=4))
"""


class Day:
    """What a newcomer does in a folder, with the commands of an environment.

    Parameters
    ----------
    python : Path
        Interpreter of the environment.
    folder : Path
        Where to work; an empty one.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        self._python = python
        self._folder = folder
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
        (folder / "mine.py").write_text(textwrap.dedent(_MINE))
        (folder / "script.py").write_text(_SCRIPT)

    def train_and_interrupt(self) -> None:
        """SIGTERM, as schedulers of clusters send it, leaves a checkpoint."""
        words = self._words("train", "ddqn", "CartPole-v1", "--steps", "3_000", *_SMALL)
        process = subprocess.Popen(words, cwd=self._folder, env=self._env, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if " steps" in line:
                break
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait() == _TERMINATED, rest
        assert "resume with: recollect resume runs/cartpole-ddqn-1" in rest

    def resume(self) -> None:
        """The run continues to its end, and is evaluated."""
        out = self._recollect("resume", "runs/cartpole-ddqn-1")
        assert "evaluation: " in out
        assert (self._folder / "runs" / "cartpole-ddqn-1" / "curve.png").stat().st_size > 1_000

    def use_own_parts(self) -> None:
        """Network, algorithm and environment from a module in the folder; a stranger's run needs the word."""
        words = ("--set", "features=mine:Waves", "--steps", "600", "--name", "own", *_SMALL)
        self._recollect("train", "mine:HalfDDQN", "mine:Corridor", *words)
        refused = self._recollect("eval", "runs/own", "--episodes", "2", code=_USAGE_ERROR)
        assert "--trust" in refused
        assert "evaluation: " in self._recollect("eval", "runs/own", "--episodes", "2", "--trust")
        assert "evaluation: " in self._recollect("resume", "runs/own", "--steps", "800", "--trust")

    def call_back(self) -> None:
        """A callback counts episodes, another one stops the training."""
        assert "episodes" in self._run([str(self._python), "script.py"])

    def tune(self) -> None:
        """Five trials, and a training with the best of them."""
        fixed = ("--set", "start_steps=50", "--set", "num_test_envs=2", "--evaluations", "2", "--episodes", "2")
        out = self._recollect("tune", "ddqn", "CartPole-v1", "--trials", "5", "--steps", "400", *fixed)
        assert "5 of 5 trials" in out
        best = "runs/cartpole-ddqn-tune/best.yaml"
        self._recollect("train", "--config", best, "--name", "best", "--final-episodes", "2")

    def export_curves(self) -> None:
        """One figure of all runs, and the numbers behind it."""
        runs = ("runs/cartpole-ddqn-1", "runs/own", "runs/script", "runs/best")
        self._recollect("plot", *runs, "--out", "curves")
        for name in ("curves.png", "curves.svg", *(f"{run}/metrics.csv" for run in runs)):
            assert (self._folder / name).stat().st_size > 100, name

    def _recollect(self, *words: str, code: int = 0) -> str:
        return self._run(self._words(*words), code)

    def _words(self, *words: str) -> list[str]:
        return [str(self._python.parent / "recollect"), *words]

    def _run(self, words: Sequence[str], code: int = 0) -> str:
        outcome = subprocess.run(words, cwd=self._folder, env=self._env, capture_output=True, text=True, check=False)
        assert outcome.returncode == code, f"{' '.join(words)}\n{outcome.stdout}\n{outcome.stderr}"
        return outcome.stdout + outcome.stderr


def install(folder: Path) -> Path:
    """Build a wheel, install it into an empty environment with the tested versions, and return its interpreter."""
    source = folder / "source"
    source.mkdir()
    for name in _PACKAGED:
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "recollect", source / "recollect", ignore=shutil.ignore_patterns("__pycache__"))
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([sys.executable, *pip, "wheel", "--no-deps", "-w", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    constraints = str(ROOT / "constraints.txt")
    subprocess.run([str(python), *pip, "install", "-c", constraints, f"{wheel}[tune]"], check=True)
    return python


def steps(day: Day) -> list[Callable[[], None]]:
    """What happens, in this order."""
    return [
        day.train_and_interrupt,
        day.resume,
        day.use_own_parts,
        day.call_back,
        day.tune,
        day.export_curves,
    ]


def main(folder: Path) -> None:
    """Go through the day in a folder, and say what was done."""
    (folder / "work").mkdir(parents=True)
    python = install(folder)
    print("installed", flush=True)
    for step in steps(Day(python, folder / "work")):
        step()
        print(step.__name__, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
