"""Is an alpha alone safe? Every combination of a storage's ideas, with priorities and without, over ten seeds.

`python -m benchmarks.alpha_alone` takes up where it was stopped, and ends with the table in `docs/results/ablation.md`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

import recollect as rc
from benchmarks import machine
from benchmarks.documents import write_section
from benchmarks.learn.statistics import mean_and_error

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = Path(__file__).parent / "results" / "alpha-alone.json"
SEEDS: Final = range(1, 11)
ALPHA: Final = 0.6


@dataclass(frozen=True)
class Task:
    """A task that a small agent learns within seconds."""

    env: str
    steps: int
    num_episodes: int
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Storage:
    """A combination of ideas that priorities are added to; without them another class may do."""

    label: str
    name: str
    options: Mapping[str, Any]
    uniform_name: str


BIT_FLIP: Final = Task(
    "recollect/BitFlip-v0", 3_000, 50, {"env.n": 5, "start_steps": 200, "epsilon_steps": 1_000, "hidden_sizes": [64]}
)
CART_POLE: Final = Task(
    "CartPole-v1",
    4_000,
    10,
    {"start_steps": 300, "epsilon_steps": 1_500, "hidden_sizes": [64], "mini_batch_size": 64},
)
_RECENT: Final = {"eta": 0.996, "cmin": 500}
STORAGES: Final = (
    (BIT_FLIP, Storage("HER", "her", {}, "her")),
    (BIT_FLIP, Storage("HER, 2-step", "her", {"n_step": 2}, "her")),
    (BIT_FLIP, Storage("HER, ERE", "her", _RECENT, "her")),
    (BIT_FLIP, Storage("HER, 2-step, ERE", "her", {"n_step": 2, **_RECENT}, "her")),
    (CART_POLE, Storage("one step", "per", {"n_step": 1}, "nstep")),
    (CART_POLE, Storage("3-step", "per", {"n_step": 3}, "nstep")),
    (CART_POLE, Storage("ERE", "ere", {"n_step": 1}, "ere")),
    (CART_POLE, Storage("3-step, ERE", "ere", {"n_step": 3}, "ere")),
)


def train(task: Task, storage: Storage, seed: int, *, has_alpha: bool) -> float:
    """Train one agent; returns its success rate, or its mean return where nothing counts as success."""
    options = {**task.options, **storage.options, "storage.size": 20_000, "threads": 1}
    name = storage.uniform_name
    if has_alpha:
        name, options["alpha"] = storage.name, ALPHA
    agent = rc.Agent("ddqn", task.env, name, seed=seed, **options)
    evaluation = agent.learn(task.steps).evaluate(task.num_episodes)
    return evaluation.mean if evaluation.success_rate is None else evaluation.success_rate


def table(scores: Mapping[str, float]) -> str:
    """Return the means over the seeds that there are, one row for each combination."""
    lines = ["| task | storage | seeds | uniform | with `alpha=0.6` |", "| --- | --- | ---: | ---: | ---: |"]
    for task, storage in STORAGES:
        found = [[scores.get(_key(task, storage, seed, flag)) for seed in SEEDS] for flag in (False, True)]
        pairs = np.array([pair for pair in zip(*found, strict=True) if None not in pair], np.float64)
        if len(pairs):
            estimates = [mean_and_error(column) for column in pairs.T]
            cells = [f"{each.mean:.2f} ± {each.error:.2f}" for each in estimates]
            lines.append(f"| {task.env} | {storage.label} | {len(pairs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _key(task: Task, storage: Storage, seed: int, has_alpha: bool) -> str:
    return f"{task.env} · {storage.label} · {'alpha' if has_alpha else 'uniform'} · seed {seed}"


def main() -> None:
    """Run what is missing, seed by seed, and write the table."""
    known: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"scores": {}}
    for seed in SEEDS:
        for task, storage in STORAGES:
            for has_alpha in (False, True):
                key = _key(task, storage, seed, has_alpha)
                if key in known["scores"]:
                    continue
                known["scores"][key] = train(task, storage, seed, has_alpha=has_alpha)
                known |= {"date": datetime.now(UTC).date().isoformat(), "machine": machine.describe(1)}
                RESULTS.write_text(json.dumps(known, indent=1) + "\n")
                print(f"{key}: {known['scores'][key]:.2f}", flush=True)
    scores = known["scores"]
    note = f"Means with standard errors: success rates of bit flip, returns of CartPole. {len(scores)} runs"
    section = f"{table(scores)}\n\n{note}, {known['date']}; {machine.summary(known['machine'])}."
    write_section(ROOT / "docs" / "results" / "ablation.md", "alpha", section)


if __name__ == "__main__":
    main()
