"""Kills trainings at random moments, resumes them, and compares what they end in with one that was never killed.

`python -m tests.kill_runs FOLDER SEED NUM_KILLS [--few]` is a process of its own, from which each training is forked.
A killed training is `recollect train` or `recollect resume`; half of them are killed at a moment of their life, half in
an operation of the file layer. Each kill, and each run that was compared, is a line of JSON.
"""

import contextlib
import csv
import gc
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch

from recollect import metrics
from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.storages import OFF_POLICY_STORAGES, ON_POLICY_STORAGES
from recollect.api import Agent
from recollect.cli import main as recollect
from recollect.cli import session
from recollect.files import disk
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.state_files import read_state
from tests.faulty_disk import WatchedOS
from tests.zygote import in_child

STEPS = 96
FEW = ("replay", "per", "ere", "vtrace")
MOST_SECONDS = 300.0
OPTIONS = {"algo.update_every": 8, "algo.num_test_episodes": 1, "actor.hidden_sizes": [8]}
OFF_POLICY = {"algo.start_steps": 24, "algo.mini_batch_size": 8, "algo.num_mini_batch": 4, "algo.test_every": 24}
ON_POLICY = {"algo.num_mini_batch": 1, "algo.test_every": 6}
OF_STORAGE: dict[str, dict[str, Any]] = {
    "nstep": {"n_step": 3},
    "per": {"alpha": 0.6, "n_step": 3},
    "ere": {"alpha": 0.6, "cmin": 10, "eta": 0.99},
    "her": {"alpha": 0.6},
}
# How fast the machine is, and how much memory is set aside, which a storage that was read back needs less of.
OF_THE_MACHINE = (
    *(metrics.ELAPSED_S, metrics.STEPS_PER_S, metrics.UPDATES_PER_S, metrics.STORAGE_BYTES),
    *(metrics.CHECKPOINT_STALL_MS, metrics.CHECKPOINT_WRITE_S),
)


class Reach(gym.Env[Any, np.ndarray]):
    """Move to a goal on a line, with continuous actions: what hindsight needs, at no cost."""

    state_attributes = ("_place", "_goal", "_num_steps")

    def __init__(self) -> None:
        box = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._place = self._goal = np.zeros(1, np.float32)
        self._num_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._place, self._goal = self.np_random.uniform(-1, 1, (2, 1)).astype(np.float32)
        self._num_steps = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._place = np.clip(self._place + 0.2 * action, -2, 2).astype(np.float32)
        self._num_steps += 1
        return self._observe(), float(self.compute_reward(self._place, self._goal, {})), False, self._num_steps >= 7, {}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: object) -> np.ndarray:
        reward: np.ndarray = -(np.abs(achieved_goal - desired_goal).max(-1) > 0.1).astype(np.float32)
        return reward

    def _observe(self) -> dict[str, np.ndarray]:
        return {"observation": self._place, "achieved_goal": self._place, "desired_goal": self._goal}


class Cell(NamedTuple):
    """An algorithm, a storage, and the memory of the actor, if it has any."""

    algo: str
    storage: str
    memory: str = ""

    @property
    def command(self) -> list[str]:
        """Words behind `recollect train` for a small run, whose storage wraps around."""
        cls = ALGORITHMS[self.algo]
        options = {**OPTIONS, **(ON_POLICY if cls.is_on_policy else OFF_POLICY), "storage": self.storage}
        options |= {f"storage.{name}": value for name, value in OF_STORAGE.get(self.storage, {}).items()}
        if not cls.is_on_policy:
            options["storage.size"] = 35
        if self.memory:
            options["actor.memory"] = self.memory
        words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
        fixed = {"preset": "none", "seed": 5, "steps": STEPS, "num-envs": 2, "num-test-envs": 1, "threads": 1}
        words += [word for name, value in {**fixed, "final-episodes": 1}.items() for word in (f"--{name}", str(value))]
        return [self.algo, self.env, *words]

    @property
    def env(self) -> str:
        """The cheapest task for both."""
        is_discrete = gym.spaces.Discrete in ALGORITHMS[self.algo].action_spaces
        if self.storage == "her":
            return "recollect/BitFlip-v0" if is_discrete else "tests/Reach-v0"
        return "CartPole-v1" if is_discrete else "Pendulum-v1"


def all_cells() -> list[Cell]:
    """Every algorithm with every storage that it learns from, and with a memory."""
    fitting = {True: ON_POLICY_STORAGES, False: OFF_POLICY_STORAGES}
    cells = [Cell(algo, storage) for algo, cls in ALGORITHMS.items() for storage in fitting[cls.is_on_policy]]
    return cells + [Cell(algo, "vtrace" if cls.is_on_policy else "per", "gru") for algo, cls in ALGORITHMS.items()]


def few_cells() -> list[Cell]:
    """Every kind of storage, with algorithms in turn."""
    cells = all_cells()
    first = [next(cell for cell in cells if cell.storage == storage) for storage in FEW[:1]]
    for storage in FEW[1:]:
        used = {cell.algo for cell in first}
        fitting = [cell for cell in cells if cell.storage == storage]
        first.append(next((cell for cell in fitting if cell.algo not in used), fitting[0]))
    return first


class CountingOS(WatchedOS):
    """Ends the process in the operation of a number, before it happens or right after it."""

    def __init__(self, number: int | None = None, *, is_after: bool = False) -> None:
        super().__init__()
        self.number, self.is_after = number, is_after

    def change(self, name: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        is_last = len(self.calls) - 1 == self.number
        if is_last and self.is_after:
            function(*args, **kwargs)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)


class Trial:
    """A run of a cell in a folder, which may be killed and resumed.

    Parameters
    ----------
    cell : Cell
        What to train.
    folder : Path
        Where; made.
    """

    def __init__(self, cell: Cell, folder: Path) -> None:
        self.cell, self.folder = cell, folder
        self.log = folder / "log.txt"
        self.seconds, self.num_operations = 0.0, 0
        folder.mkdir(parents=True)

    @property
    def run(self) -> Path:
        """The folder of the run; a training that was killed before there was one left a folder without."""
        found = sorted(path.parent for path in self.folder.glob("*/config.yaml"))
        return found[0] if found else self.folder / "run"

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do, and to resume."""
        return (self.run / "evaluation.json").exists()

    def train(self, kill_after_s: float | None = None, faulty: CountingOS | None = None) -> bool:
        """Train or resume, as far as it gets; returns whether it was killed."""
        watched = faulty or CountingOS()
        words = ["resume", str(self.run)]
        if not (self.run / "config.yaml").exists():
            words = ["train", *self.cell.command, "--out", str(self.folder), "--name", "run"]

        def child() -> int:
            disk.os = watched  # type: ignore[assignment]
            code = recollect(words)
            (self.folder / "operations").write_text(str(len(watched.calls)))
            return code

        code, self.seconds = in_child(child, self.log, kill_after_s=kill_after_s or MOST_SECONDS)
        if code == 0:
            self.num_operations = int((self.folder / "operations").read_text())
            return False
        was_killed = code == -signal.SIGKILL if kill_after_s is None else code is None
        assert was_killed, f"{words} ended with {code}: {self.log.read_text()[-3000:]}"
        return True

    def digest(self) -> dict[str, str]:
        """What the run ended in, by path: hashes of arrays, and rows of metrics as they are."""
        target = self.folder / "digest.json"

        def child() -> int:
            target.write_text(json.dumps(dict(digest_of(self.run))))
            return 0

        ending = in_child(child, self.log, kill_after_s=MOST_SECONDS)
        assert ending.code == 0, self.log.read_text()[-3000:]
        found: dict[str, str] = json.loads(target.read_text())
        return found


def digest_of(folder: Path) -> Iterator[tuple[str, str]]:
    """All that a run ended in but what depends on the machine, by path."""
    run = RunDirectory.open(folder)
    kept = read_state(run.checkpoint(with_replay=True), "state")
    del kept["elapsed_s"]
    best = read_state(run.checkpoint(best=True), "state")
    del best["elapsed_s"]
    agent = Agent.load(folder)
    scheme = agent.scheme
    parts = {"checkpoint": kept, "best": best, "actor": dict(scheme.actor.state_dict()), "state": scheme.state()}
    parts["stored"] = scheme.storage.get_all_buffer_data()
    if not scheme.algo.is_on_policy:
        parts["drawn"] = [scheme.storage.sample(16) for _ in range(2)]
    for path, value in leaves("", parts):
        # Whole numbers of 128 bits, which generators have, are objects to NumPy.
        content = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
        yield path, f"{value.dtype}{value.shape} {hashlib.sha256(content).hexdigest()}"
    with (folder / "metrics.csv").open() as file:
        for number, row in enumerate(csv.DictReader(file)):
            yield f"row {number}", json.dumps({name: row[name] for name in row if name not in OF_THE_MACHINE})
    yield "evaluation", (folder / "evaluation.json").read_text()
    yield "session", (folder / "session.json").read_text()
    yield "left behind", json.dumps(sorted(str(path.relative_to(folder)) for path in folder.rglob("*.partial")))


def leaves(path: str, value: object) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a tree by their paths."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(f"{path}/{name}", inner)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from leaves(f"{path}/{index}", inner)
    else:
        yield path, np.asarray(value)


def kill_and_compare(whole: Trial, expected: dict[str, str], folder: Path, most: int, rng: random.Random) -> int:
    """Kill a run of the same cell up to `most` times, let it end, and compare; returns how often it was killed."""
    trial, num_kills, tries = Trial(whole.cell, folder), 0, 0
    while num_kills < most and tries < 3 * most and not trial.is_over:
        tries += 1
        at_operation = rng.random() < 0.5
        if at_operation:
            number = rng.randrange(whole.num_operations)
            was_killed = trial.train(faulty=CountingOS(number, is_after=rng.random() < 0.5))
            moment = f"operation {number} of {whole.num_operations}"
        else:
            seconds = rng.uniform(0.0, whole.seconds)
            was_killed = trial.train(kill_after_s=seconds)
            moment = f"{seconds:.3f} s of {whole.seconds:.3f}"
        if not was_killed:
            break
        num_kills += 1
        say({"kill": moment, "cell": whole.cell, "folder": folder.name})
    if not trial.is_over:
        trial.train()
    found = trial.digest()
    different = sorted(path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))
    say({"compared": len(expected), "cell": whole.cell, "folder": folder.name, "different": different[:20]})
    if not different:
        shutil.rmtree(folder)
    return num_kills


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def warm_up(folder: Path) -> None:
    """Import all and load all kernels before anything is forked, which takes as long as four trainings."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        recollect(["train", *Cell("ddqn", "per").command, "--out", str(folder), "--name", "warm"])
    dict(digest_of(folder / "warm"))
    gc.collect()
    gc.freeze()  # what is never looked at again is never copied


def main(folder: Path, seed: int, num_kills: int, cells: list[Cell]) -> None:
    """Kill runs of all cells in turn until there were as many kills as wanted, beginning anywhere."""
    torch.set_num_threads(1)
    gym.register("tests/Reach-v0", Reach)
    # Curves take half of the time of such small runs to draw.
    session.plot_run = lambda folder: folder  # type: ignore[attr-defined]
    warm_up(folder)
    rng, wholes, done = random.Random(seed), dict[Cell, tuple[Trial, dict[str, str]]](), 0
    first = rng.randrange(len(cells))
    for number, cell in enumerate(itertools.cycle(cells[first:] + cells[:first])):
        if done >= num_kills:
            return
        if cell not in wholes:
            whole = Trial(cell, folder / "-".join(["whole", *filter(None, cell)]))
            whole.train()
            wholes[cell] = whole, whole.digest()
        most = min(num_kills - done, rng.choice([1, 2, 3, 4]))
        done += kill_and_compare(*wholes[cell], folder / f"killed-{number}", most, rng)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), few_cells() if "--few" in sys.argv else all_cells())
