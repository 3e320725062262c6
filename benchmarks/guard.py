"""Counts what the hot paths do, and fails where one does more than 5 % more than in the baseline.

python -m benchmarks.guard             compare with benchmarks/guard.json
python -m benchmarks.guard --update    write it again, after a change that is worth its cost

Times are noisy; counts are not. They are calls of Python functions by Recollect's own code, torch operators that are
dispatched, and tensors that they make, in loops so small that they take seconds. Neither depends on the processor or on
the number of threads.
"""

import argparse
import gc
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import recollect

BASELINE: Final = Path(__file__).with_suffix(".json")
PACKAGE: Final = Path(recollect.__file__).parent
LIMIT: Final = 0.05
EPISODE: Final = 20
NUM_WARM, NUM_COUNTED = EPISODE, EPISODE
CALLS, OPERATORS, TENSORS = "Python calls", "torch operators", "tensors made"
# Parts that a message names.
_MOST_NAMED: Final = 5

Work = Callable[[], object]
Counts = dict[str, dict[str, int]]
"""How often each part did something, by what is counted: files of Recollect call, operators are dispatched."""


class FixedEpisodes(gym.Env[np.ndarray, Any]):
    """Episodes of one length, whatever is done in them, so that counts do not depend on what was learned."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def __init__(self, *, is_discrete: bool) -> None:
        self.action_space = gym.spaces.Discrete(2) if is_discrete else gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._states = np.random.default_rng(0).standard_normal((EPISODE + 1, 4), np.float32)
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._num_steps = 0
        return self._states[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._num_steps += 1
        return self._states[self._num_steps], 1.0, self._num_steps == EPISODE, False, {}


def _make_discrete() -> gym.Env[Any, Any]:
    return FixedEpisodes(is_discrete=True)


def _make_continuous() -> gym.Env[Any, Any]:
    return FixedEpisodes(is_discrete=False)


def _stages(algorithm: str, env: Callable[[], gym.Env[Any, Any]], **options: Any) -> Work:
    """A loop in this process; each call is a stage, warmed up."""
    from recollect.learner import Learner

    # What runs beside the loop, in a thread, would not be counted; it does the same.
    shared: dict[str, Any] = {"seed": 1, "device": "cpu", "scheme.overlap": False, "threads": 1}
    shared |= {"actor.hidden_sizes": [16, 16], "algo.test_every": 0}
    named = {name.replace("__", "."): value for name, value in options.items()}
    agent = recollect.Agent(algorithm, env, preset="none", **shared | named)
    learner = Learner(agent.scheme, target_steps=10**12)
    while learner.num_updates < NUM_WARM:
        learner.step()
    return learner.step


def _replay(algorithm: str, env: Callable[[], gym.Env[Any, Any]], **options: Any) -> Work:
    """A loop with a replay buffer: each stage makes one update."""
    replay: dict[str, Any] = {"storage__size": 1_000, "algo__start_steps": EPISODE, "algo__mini_batch_size": 8}
    return _stages(algorithm, env, algo__num_mini_batch=1, **replay | options)


def _standalone() -> dict[str, Work]:
    """The three calls of one's own loop, at one environment."""
    memory = recollect.PERBuffer.standalone(100, alpha=0.6, seed=1)
    states = np.random.default_rng(0).standard_normal((2, 1, 4), np.float32)
    action, reward, no = np.zeros(1, np.int64), np.ones(1), np.zeros(1, np.bool_)
    errors = torch.ones(8)

    def add() -> None:
        memory.add(states[0], action, reward, states[1], no, no)

    for _ in range(NUM_WARM):
        add()
    batches = [memory.sample(8) for _ in range(4)]
    return {
        "standalone add": add,
        "standalone sample": lambda: memory.sample(8),
        "standalone update_priorities": lambda: memory.update_priorities(batches[0], errors),
    }


def hot_paths() -> Iterator[tuple[str, Work]]:
    """What is counted, one built after another."""
    yield from _standalone().items()
    yield "sac", _replay("sac", _make_continuous, algo__update_every=1)
    yield "ddqn", _replay("ddqn", _make_discrete, algo__update_every=4)
    yield "ddqn with priorities", _replay("ddqn", _make_discrete, algo__update_every=4, storage="per")
    yield (
        "ppo",
        _stages("ppo", _make_discrete, num_envs=2, algo__update_every=16, algo__num_epochs=2, algo__num_mini_batch=2),
    )


def count(work: Work, num_times: int = NUM_COUNTED) -> Counts:
    """Count what `num_times` calls do, and as many once more for what torch does."""
    gc.collect()
    gc.disable()  # what is collected, and when, is no part of the path
    try:
        return {CALLS: _calls(work, num_times)} | _operators(work, num_times)
    finally:
        gc.enable()


@cache
def _part(file: str) -> str | None:
    """Name of a file of Recollect; None of others."""
    path = Path(file)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def _calls(work: Work, num_times: int) -> dict[str, int]:
    """Calls in each file: of its functions, and by them of anybody else's."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call":
            part = _part(frame.f_code.co_filename)
        elif event == "call":
            part = _part(frame.f_code.co_filename)
            if part is None and frame.f_back is not None:
                part = _part(frame.f_back.f_code.co_filename)
        else:
            return
        if part is not None:
            counts[part] += 1

    sys.setprofile(note)
    try:
        for _ in range(num_times):
            work()
    finally:
        sys.setprofile(None)
    return dict(counts)


class OperatorCounter(TorchDispatchMode):
    """Counts operators below autograd, those of backward passes too, and the tensors that they make."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: Counter[str] = Counter()
        self.num_made = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators[str(function)] += 1
        self.num_made += sum(returned.alias_info is None for returned in function._schema.returns)
        return function(*args, **(kwargs or {}))


def _operators(work: Work, num_times: int) -> Counts:
    with OperatorCounter():  # torch keeps what its first use of a mode has seen until the next collection
        work()
    gc.collect()
    with OperatorCounter() as counter:
        for _ in range(num_times):
            work()
    return {OPERATORS: dict(counter.operators), TENSORS: {"tensors": counter.num_made}}


def growth(name: str, before: Counts, now: Counts) -> list[str]:
    """Say what a path does more than 5 % more often than before, and which parts of it do."""
    found = []
    for kind, parts in now.items():
        old = before.get(kind, {})
        total, old_total = sum(parts.values()), sum(old.values())
        if total > old_total * (1 + LIMIT):
            grown = sorted(((parts[part] - old.get(part, 0), part) for part in parts), reverse=True)
            named = ", ".join(f"{part} +{more:,}" for more, part in grown[:_MOST_NAMED] if more > 0)
            share = f"{total / old_total - 1:.0%} more" if old_total else "new"
            found.append(f"{name}: {share} {kind}, {old_total:,} → {total:,}: {named}")
    return found


def report(baseline: Mapping[str, Counts], counted: Mapping[str, Counts]) -> list[str]:
    """Say what has grown, on all paths, and which paths are new or gone."""
    lines = [line for name, counts in counted.items() for line in growth(name, baseline.get(name, {}), counts)]
    return lines + [f"{name}: in the baseline, but not counted" for name in baseline if name not in counted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, and compare with the baseline or write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--baseline", type=Path, default=BASELINE, help="file of the counts to compare with")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    counted = {}
    for name, work in hot_paths():
        counted[name] = count(work)
        totals = ", ".join(f"{sum(parts.values()):,} {kind}" for kind, parts in counted[name].items())
        print(f"{name:28} {totals}")
    if options.update:
        options.baseline.write_text(json.dumps(counted, indent=1, sort_keys=True) + "\n")
        return 0
    lines = report(json.loads(options.baseline.read_text()), counted)
    print(*lines, "" if lines else "no hot path has grown", sep="\n")
    if lines:
        print("if the growth is worth it, write the baseline again: make bench-guard ARGS=--update", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
