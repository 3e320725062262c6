"""Learning from given data: RLPD beside SAC on a sparse task, offline algorithms beside behaviour cloning.

`make bench-data` makes the data with our own runs, takes up where it was stopped, and ends with the tables in
`docs/results/data.md`. All runs have one thread.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np

import recollect as rc
from benchmarks import machine
from benchmarks.documents import write_section
from benchmarks.learn import records
from benchmarks.learn.statistics import mean_and_error
from recollect.cli import main as recollect
from recollect.data.episode import Spaces
from recollect.data.sources import StorageSource, write_episodes

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = Path(__file__).parent / "results" / "prior_data.json"
RECORDS: Final = Path(__file__).parent / "results" / "learn"
PAGE: Final = ROOT / "docs" / "results" / "data.md"
FOLDER: Final = ROOT / "build" / "prior-data"

SPARSE, SOLVED, SEEDS = "MountainCarContinuous-v0", 90.0, (11, 12, 13)
RLPD_STEPS, EVALUATE_EVERY = 5_000, 1_000
# As the preset of SAC on this task, but for what makes RLPD.
RLPD: Final[Mapping[str, Any]] = {
    "policy_lr": 3e-4,
    "critic_lr": 3e-4,
    "temperature": 0.1,
    "learn_temperature": False,
    "noise": "ou",
    "noise_std": 0.3,
    "gamma": 0.9999,
    "tau": 0.01,
    "update_every": 32,
    "num_mini_batch": 128,
    "policy_delay": 2,
    "num_critics": 2,
    "start_steps": 500,
    "hidden_sizes": [64, 64],
}

DENSE, DATA_STEPS, UPDATES = "Pendulum-v1", 10_000, 5_000
# Env steps of SAC before each dataset was collected.
DATASETS: Final[Mapping[str, int]] = {"random": 0, "medium": 2_500, "expert": 8_000}
OFFLINE: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "behaviour cloning": ("td3-bc", {"bc_alpha": 0.0}),
    "TD3+BC": ("td3-bc", {}),
    "IQL": ("iql", {}),
    "IQL, advantage_scale=0.1": ("iql", {"advantage_scale": 0.1}),
}

Outcome = dict[str, Any]
Curve = Sequence[Sequence[float]]


def make_demonstrations() -> Outcome:
    """The good episodes of SAC's first 18,000 steps on the sparse task."""
    with rc.Agent("sac", SPARSE, seed=1, threads=1, test_every=0) as agent:
        agent.learn(18_000, progress=False).save(FOLDER / "sac", with_storage=True)
    good = ("--min-return", str(SOLVED), "--max-steps", "2000", "--force")
    recollect(["data", "slice", str(FOLDER / "sac"), "--to", str(_data_of("demonstrations")), *good])
    return {"steps": 18_000}


def learn_with_demonstrations(seed: int) -> Outcome:
    """RLPD; returns of 20 episodes without exploration after every thousand steps."""
    data, curve = str(_data_of("demonstrations")), []
    with rc.Agent(
        "rlpd", SPARSE, preset="none", storage="mixed", data=data, seed=seed, threads=1, test_every=0, **RLPD
    ) as agent:
        while agent.num_steps < RLPD_STEPS:
            agent.learn(EVALUATE_EVERY, progress=False)
            curve.append([agent.num_steps, agent.evaluate(20).mean])
    return {"curve": curve}


def make_datasets() -> Outcome:
    """Steps of one SAC agent on the dense task at three times of its training; its exploration included."""
    scores = {}
    with rc.Agent("sac", DENSE, seed=1, threads=1, test_every=0, hidden_sizes=[64, 64]) as agent:
        for name, num_steps in DATASETS.items():
            if num_steps > agent.num_steps:
                agent.learn(num_steps - agent.num_steps, progress=False)
            scores[name] = _collect(agent, name, is_random=num_steps == 0)
        scores["reference"] = agent.evaluate(50).mean
    return {"scores": scores}


def learn_offline(name: str, dataset: str, seed: int) -> Outcome:
    """An offline algorithm; the mean return of 20 episodes at its end."""
    algo, options = OFFLINE[name]
    given = {"hidden_sizes": [64, 64], "normalise_observations": True, "test_every": 0, **options}
    with rc.Agent(
        algo, DENSE, preset="none", data=str(_data_of(dataset)), updates=UPDATES, seed=seed, threads=1, **given
    ) as agent:
        return {"score": agent.learn(0, progress=False).evaluate(20).mean}


def jobs() -> Iterator[tuple[str, Callable[[], Outcome]]]:
    """What to run, by name; data come before what learns from them."""
    yield "demonstrations", make_demonstrations
    for seed in SEEDS:
        yield f"rlpd {seed}", partial(learn_with_demonstrations, seed)
    yield "datasets", make_datasets
    for seed in SEEDS:
        for dataset in DATASETS:
            for name in OFFLINE:
                yield f"{name}, {dataset}, {seed}", partial(learn_offline, name, dataset, seed)


def sparse_table(outcomes: Mapping[str, Outcome]) -> str:
    """Steps to the score that solves the task, and the score at the end, of SAC's records and of RLPD."""
    curves = {
        "SAC": [_curve_of_sac(seed) for seed in SEEDS],
        "RLPD with demonstrations": [outcomes[f"rlpd {seed}"]["curve"] for seed in SEEDS],
    }
    lines = ["| agent | steps | return at the end | first evaluation above 90, steps |", "| --- | ---: | ---: | ---: |"]
    for name, found in curves.items():
        last = mean_and_error([curve[-1][1] for curve in found])
        solved = ", ".join(map(first_above, found))
        lines.append(f"| {name} | {round(found[0][-1][0], -3):,} | {last.mean:.1f} ± {last.error:.1f} | {solved} |")
    return "\n".join(lines)


def offline_table(outcomes: Mapping[str, Outcome]) -> str:
    """Normalised scores: 0 for random actions, 100 for the agent that made the expert data."""
    scores = outcomes["datasets"]["scores"]
    low, high = scores["random"], scores["reference"]
    lines = [f"| data | its return | {' | '.join(OFFLINE)} |", f"| --- | ---: |{' ---: |' * len(OFFLINE)}"]
    for dataset in DATASETS:
        cells = []
        for name in OFFLINE:
            found = [outcomes[f"{name}, {dataset}, {seed}"]["score"] for seed in SEEDS]
            each = mean_and_error([100 * (score - low) / (high - low) for score in found])
            cells.append(f"{each.mean:.0f} ± {each.error:.0f}")
        lines.append(f"| {dataset} | {scores[dataset]:.0f} | {' | '.join(cells)} |".replace("-", "−"))
    return "\n".join(lines)


def _collect(agent: rc.Agent, name: str, *, is_random: bool) -> float:
    """Write steps of an agent that explores, or of random actions; returns the mean return of their episodes."""
    memory, env = rc.ReplayBuffer.standalone(DATA_STEPS), gym.make(DENSE)
    env.action_space.seed(1)
    obs, _ = env.reset(seed=1)
    for _ in range(DATA_STEPS):
        action = env.action_space.sample() if is_random else agent.predict(obs, deterministic=False)
        after, reward, *ended, _ = env.step(action)
        terminated, truncated = (np.array([flag]) for flag in ended)
        memory.add(obs[None], action[None], np.array([reward]), after[None], terminated=terminated, truncated=truncated)
        obs = env.reset()[0] if any(ended) else after
    source = StorageSource(memory, Spaces(env.observation_space, env.action_space, DENSE))
    write_episodes(_data_of(name), source, source.spaces, overwrite=True)
    return float(np.mean([episode.total_reward for episode in source]))


def _data_of(name: str) -> Path:
    return FOLDER / f"{name}.npz"


def _curve_of_sac(seed: int) -> Curve:
    record = records.read(RECORDS, "mountaincar-sac", seed)
    if record is None:
        raise ValueError(f"SAC's run with seed {seed} is not recorded: recollect bench learn --only mountaincar-sac")
    return record.curve


def first_above(curve: Curve) -> str:
    """Steps until the first evaluation that solves the task."""
    return next((f"{steps:,}" for steps, score in curve if score >= SOLVED), "–")


def main() -> None:
    """Run what is missing, and write the tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    known: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"outcomes": {}}
    for name, run in jobs():
        if name not in known["outcomes"]:
            known["outcomes"][name] = run()
            known |= {"date": datetime.now(UTC).date().isoformat(), "machine": machine.describe(1)}
            RESULTS.write_text(json.dumps(known, indent=1) + "\n")
            print(f"{name}: {known['outcomes'][name]}", flush=True)
    foot = f"{known['date']}; {machine.summary(known['machine'])}."
    write_section(PAGE, "sparse", f"{sparse_table(known['outcomes'])}\n\n{foot}")
    write_section(PAGE, "offline", f"{offline_table(known['outcomes'])}\n\n{foot}")


if __name__ == "__main__":
    main()
