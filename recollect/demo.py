"""A demonstration of the experience store: `python -m recollect.demo`, or `make train`.

There are no agents yet. Until they come, random actions in CartPole fill every kind of storage, side by
side, and the demonstration shows what each of them keeps, hands out and costs.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from recollect import keys

if TYPE_CHECKING:
    from recollect.agent.storages import ReplayBuffer

GAMMA: Final = 0.99
N_STEP: Final = 3
MOST_STEPS_AN_EPISODE: Final = 30
SECONDS_A_MEASUREMENT: Final = 1.0
Sampler = Callable[[], Any]


@dataclass(frozen=True)
class Step:
    """What all environments did at one moment, `[num_envs, ...]`."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_obs: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


@dataclass
class Findings:
    """What the demonstration found, line by line, for the table at its end."""

    rates: dict[str, float] = field(default_factory=dict)
    ages: dict[str, np.ndarray] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m recollect.demo",
        description="Fill every kind of storage from CartPole with random actions, and show what it is good for: "
        "each observation stored once, windows that stop where episodes stop, right bootstraps after truncation, "
        "and how many batches a second each kind of sampling gives. Agents that learn from it come next.",
        epilog="example: python -m recollect.demo --steps 400000 --envs 16. "
        "The first run after an install compiles for a while; later ones start at once.",
    )
    parser.add_argument("--steps", type=int, default=160_000, help="transitions to collect (default: %(default)s)")
    parser.add_argument("--envs", type=int, default=8, help="environments stepped together (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=256, help="rows of a batch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of everything (default: %(default)s)")
    parser.add_argument(
        "--plot", type=Path, default=Path("runs/demo.png"), help="where the plot goes (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    for name in ("steps", "envs", "batch"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    return options


def collect(num_envs: int, num_moments: int, seed: int) -> Iterator[Step]:
    """Step CartPole with random actions; episodes end by falling or after 30 steps, whichever comes first."""
    envs = gym.make_vec(
        "CartPole-v1",
        num_envs=num_envs,
        vectorization_mode="sync",
        max_episode_steps=MOST_STEPS_AN_EPISODE,
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    envs.action_space.seed(seed)
    obs, _ = envs.reset(seed=seed)
    for _ in range(num_moments):
        action = envs.action_space.sample()
        after, reward, terminated, truncated, infos = envs.step(action)
        next_obs = after.copy()
        for env in np.flatnonzero(terminated | truncated):
            next_obs[env] = infos[keys.FINAL_OBS][env]
        yield Step(obs, action, reward, next_obs, terminated, truncated)
        obs = after
    envs.close()


def build_storages(options: argparse.Namespace) -> dict[str, "ReplayBuffer"]:
    """One storage of each kind, all of the same size."""
    from recollect.agent.storages import EREBuffer, HERBuffer, NStepReplayBuffer, PERBuffer, ReplayBuffer

    size = -(-options.steps // options.envs)
    common: dict[str, Any] = {"num_envs": options.envs, "gamma": GAMMA, "seed": options.seed}
    priorities: dict[str, Any] = {"n_step": N_STEP, "alpha": 0.6, "beta": 0.4}
    return {
        "uniform": ReplayBuffer.standalone(size, **common),
        f"{N_STEP}-step": NStepReplayBuffer.standalone(size, n_step=N_STEP, **common),
        "PER": PERBuffer.standalone(size, **priorities, **common),
        "PER + ERE": EREBuffer.standalone(size, eta=0.998, cmin=1000, **priorities, **common),
        "HER": HERBuffer.standalone(size, n_step=N_STEP, compute_reward=is_near, **common),
    }


def is_near(achieved: np.ndarray, desired: np.ndarray, info: Any) -> np.ndarray:
    """Reward of the goal task: 0 where the cart is at the desired place, -1 elsewhere."""
    return np.where(np.abs(achieved - desired)[:, 0] < 0.05, 0.0, -1.0)


def with_goal(obs: np.ndarray) -> dict[str, np.ndarray]:
    """Make a goal observation: the cart's place is achieved, the middle is desired."""
    return {keys.OBS: obs, keys.ACHIEVED_GOAL: obs[:, :1], keys.DESIRED_GOAL: np.zeros_like(obs[:, :1])}


def fill(storages: dict[str, "ReplayBuffer"], step: Step) -> None:
    """Add a step to every storage."""
    for name, storage in storages.items():
        convert = with_goal if name == "HER" else np.asarray
        flags = (step.terminated, step.truncated)
        storage.add(convert(step.obs), step.action, step.reward, convert(step.next_obs), *flags)


def watched(console: Console, steps: Iterator[Step], num_moments: int, num_envs: int) -> Iterator[Step]:
    """Hand steps on and show how many there were."""
    columns = (TextColumn("filling"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=num_moments * num_envs)
        for number, step in enumerate(steps, start=1):
            yield step
            progress.advance(task, num_envs)
            if not console.is_terminal and number % max(1, num_moments // 4) == 0:
                console.print(f"filled {number * num_envs:,} of {num_moments * num_envs:,} transitions")


def measure(sampler: Sampler) -> float:
    """Batches a second."""
    sampler()
    num_batches, start_s = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - start_s) < SECONDS_A_MEASUREMENT:
        sampler()
        num_batches += 1
    return num_batches / elapsed_s


def sampler_of(storage: "ReplayBuffer", batch_size: int, rng: np.random.Generator) -> Sampler:
    """Draw a batch and, where there are priorities, tell what was learned from it."""
    errors = rng.exponential(size=batch_size).astype(np.float32)

    def draw() -> Any:
        batch = storage.sample(batch_size)
        if keys.PER_WEIGHTS in batch:
            storage.update_priorities(batch, errors)
        return batch

    return draw


def ages_of(sampler: Sampler, storage: "ReplayBuffer", num_batches: int = 100) -> np.ndarray:
    """How long ago the rows of some batches happened, as a share of all that is stored."""
    from recollect.agent.storages.experience.ring_layout import ID_MASK

    ids = np.concatenate([sampler()[keys.IDXS].numpy() for _ in range(num_batches)])
    ages: np.ndarray = 1 - ((ids & ID_MASK) + 1) / storage.size
    return ages


def check_ends(storage: "ReplayBuffer", history: list[Step]) -> str:
    """Look at the windows of many batches that an end closed, and compare with what the envs did."""
    lasts = {
        step.next_obs[env].tobytes() for step in history for env in np.flatnonzero(step.truncated & ~step.terminated)
    }
    num_terminated = num_truncated = num_right = 0
    for _ in range(50):
        batch = storage.sample(1000)
        terminated = batch[keys.NEXT_TERMINATED][:, 0] == 1
        truncated = (batch[keys.NEXT_DONE][:, 0] == 1) & ~terminated
        num_terminated += int((batch[keys.DISCOUNT][terminated] == 0).sum())
        num_truncated += int(truncated.sum())
        rows = zip(batch[keys.NEXT_OBS][truncated].numpy(), batch[keys.DISCOUNT][truncated], strict=True)
        num_right += sum(bool(discount > 0) and last.tobytes() in lasts for last, discount in rows)
    return (
        f"{num_right:,} of {num_truncated:,} truncated windows bootstrap from the true last observation, "
        f"{num_terminated:,} terminated ones from nothing"
    )


def picture(obs: np.ndarray) -> np.ndarray:
    """Draw cart and pole, uint8 [84, 84]."""
    image = np.zeros((84, 84), np.uint8)
    place = int(np.clip(42 + 15 * obs[0], 8, 75))
    image[70:74, place - 6 : place + 7] = 255
    along = np.arange(30)
    columns = np.clip(place + along * np.sin(obs[2]), 0, 83).astype(int)
    image[(70 - along * np.cos(obs[2])).astype(int), columns] = 200
    return image


def measure_numbers(storage: "ReplayBuffer", step: Step) -> str:
    """Say what a transition of CartPole takes."""
    reward_and_flags = 6
    both = 2 * step.obs[0].nbytes + step.action[0].nbytes + reward_and_flags
    return f"{storage.num_bytes / len(storage):.0f} bytes a transition, next observations would make it {both}"


def measure_frames(history: list[Step]) -> str:
    """Store stacks of four pictures, and say what a transition takes."""
    from recollect.agent.storages import ReplayBuffer

    storage = ReplayBuffer.standalone(1000, frame_stack=4)
    stack: np.ndarray | None = None
    for step in history[:1000]:
        stack = np.stack([picture(step.obs[0])] * 4) if stack is None else stack
        next_stack = np.concatenate([stack[1:], picture(step.next_obs[0])[None]])
        flags = (step.terminated[:1], step.truncated[:1])
        storage.add(stack[None], step.action[:1], step.reward[:1], next_stack[None], *flags)
        stack = None if flags[0] | flags[1] else next_stack
    own, both = storage.num_bytes / len(storage), 2 * next_stack.nbytes
    return f"84x84 pictures in stacks of four take {own:,.0f} bytes a transition, both stacks would {both:,}"


def measure_loader(options: argparse.Namespace, history: list[Step]) -> float:
    """Batches a second of the storage with background loading."""
    from recollect.agent.storages.off_policy.nstep_replay_storage import NStepReplayStorage

    space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    with NStepReplayStorage(
        space,
        gym.spaces.Discrete(2),
        storage_size=options.steps + options.envs,
        num_envs=options.envs,
        batch_size=options.batch,
        num_workers=1,
        n_step=N_STEP,
        seed=options.seed,
    ) as storage:
        for step in history:
            flags = (step.terminated, step.truncated)
            storage.add(step.obs, step.action, step.reward, *flags, {}, step.next_obs)
        return measure(storage.sample)


def draw_plot(findings: Findings, path: Path) -> bool:
    """Draw rates and ages; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(10, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.barh(list(findings.rates), list(findings.rates.values()))
    left.invert_yaxis()
    left.set_xlabel("batches a second")
    for name, ages in findings.ages.items():
        right.hist(ages, bins=50, range=(0, 1), histtype="step", density=True, label=name)
    right.set_xlabel("age of the steps drawn (0 newest, 1 oldest)")
    right.set_ylabel("density")
    right.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return True


def report(console: Console, findings: Findings, batch_size: int) -> None:
    """Close with a table, or with plain lines where nobody watches."""
    if not console.is_terminal:
        for name, rate in findings.rates.items():
            console.print(f"{name}: {rate:,.0f} batches of {batch_size} a second")
    else:
        table = Table(title=f"batches of {batch_size}", title_justify="left")
        for header in ("sampling", "batches/s", "rows/s"):
            table.add_column(header, justify="left" if header == "sampling" else "right")
        for name, rate in findings.rates.items():
            table.add_row(name, f"{rate:,.0f}", f"{rate * batch_size / 1e6:.1f} M")
        console.print(table)
    for name, note in findings.notes.items():
        console.print(f"{name}: {note}", highlight=False, soft_wrap=True)


def run(options: argparse.Namespace, console: Console) -> Findings:
    """Fill, sample, look and measure."""
    findings, rng = Findings(), np.random.default_rng(options.seed)
    num_moments = -(-options.steps // options.envs)
    storages = build_storages(options)
    history = []
    for step in watched(console, collect(options.envs, num_moments, options.seed), num_moments, options.envs):
        fill(storages, step)
        history.append(step)
    for name, storage in storages.items():
        sampler = sampler_of(storage, options.batch, rng)
        findings.rates[name] = measure(sampler)
        if name in ("uniform", "PER + ERE"):
            findings.ages[name] = ages_of(sampler, storage)
    findings.rates["NStepReplayStorage"] = measure_loader(options, history)
    nstep = storages[f"{N_STEP}-step"]
    findings.notes["memory"] = f"{measure_numbers(nstep, history[0])}; {measure_frames(history)}"
    findings.notes["ends"] = check_ends(nstep, history)
    return findings


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration."""
    options = parse(arguments)
    console = Console()
    console.print(
        f"Recollect's experience store: CartPole with random actions, {options.envs} environments, "
        f"{options.steps:,} transitions, into five kinds of storage at once",
        soft_wrap=True,
    )
    console.print("loading (the first run after an install compiles for a while)", soft_wrap=True)
    findings = run(options, console)
    if draw_plot(findings, options.plot):
        findings.notes["plot"] = str(options.plot)
    report(console, findings, options.batch)
    console.print("Nothing has learned anything here: agents come next.")


if __name__ == "__main__":
    main()
