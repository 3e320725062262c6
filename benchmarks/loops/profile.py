"""Where the time of our own loop goes, in processor time of the main thread: other work on the machine does not count.

python -m benchmarks.loops.profile sac                 sections of the loop, operators of the update, Python functions
python -m benchmarks.loops.profile ddqn-small --steps 4000 --threads 2
"""

import argparse
import cProfile
import inspect
import pstats
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, Final

import torch

from benchmarks.loops.competitors import ours
from benchmarks.loops.frames import make_env
from benchmarks.loops.matmuls import recorded
from benchmarks.loops.tasks import TASKS, Task, find

ROOT: Final = Path(__file__).resolve().parents[2]
NUM_OPERATORS: Final = 20
NUM_FUNCTIONS: Final = 25


class Sections:
    """Clocks around methods; the time of a section is its own, without that of sections inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self.places: dict[str, str] = {}
        self._open: list[float] = []

    def clock(self, title: str, owner: object, name: str) -> None:
        """Time a method of one object from now on; of a generator, every item that it gives."""
        method = getattr(owner, name)
        self.seconds[title], self.calls[title], self.places[title] = 0.0, 0, place_of(method)
        setattr(owner, name, lambda *args, **kwargs: self._call(title, method, args, kwargs))

    def _call(self, title: str, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        result = self._timed(title, lambda: method(*args, **kwargs))
        return self._items(title, result) if isinstance(result, Iterator) else result

    def _items(self, title: str, items: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while (item := self._timed(title, lambda: next(items, end))) is not end:
            yield item

    def _timed(self, title: str, call: Callable[[], Any]) -> Any:
        self._open.append(0.0)
        begin = thread_time()
        try:
            return call()
        finally:
            elapsed = thread_time() - begin
            self.seconds[title] += elapsed - self._open.pop()
            self.calls[title] += 1
            if self._open:
                self._open[-1] += elapsed


def clock_all(agent: Any, learner: Any) -> Sections:
    """Put clocks around everything that a step or an update goes through."""
    scheme, sections = agent.scheme, Sections()
    algo, actor, storage = scheme.algo, scheme.actor, scheme.col_worker.storage
    for title, owner, name in (
        ("learner: the rest of a stage", learner, "step"),
        ("collection: the rest", scheme.gradients, "collect"),
        ("taking steps: the rest", scheme.col_worker.acting, "take_step"),
        ("storing steps: the rest", scheme.col_worker.acting, "store"),
        ("env step", scheme.col_worker.envs_train, "step"),
        ("acting", algo, "acting_step"),
        ("insert", storage, "insert_transition"),
        ("observe (normalisers)", actor, "observe"),
        ("before gradients", storage, "before_gradients"),
        ("sample", storage, "generate_batches"),
        ("gradients: the rest", algo, "compute_gradients"),
        ("zero gradients", algo.optimiser, "zero_grad"),
        ("forward and backward", algo, "_backward"),
        ("clip gradients", algo, "_clip_gradients"),
        ("losses to numbers", algo, "_finite"),
        ("after gradients", storage, "after_gradients"),
        ("apply: the rest", algo, "apply_gradients"),
        ("optimiser", algo.optimiser, "step"),
        ("target networks", actor, "update_targets"),
    ):
        sections.clock(title, owner, name)
    return sections


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile one task and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops.profile", description=__doc__)
    parser.add_argument("task", choices=[task.key for task in TASKS])
    parser.add_argument("--steps", type=int, default=1_000, help="env steps of each part (1000)")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (1)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    task = find(options.task)
    agent, learner = start(task)
    print(f"{task.title}; {options.threads} thread(s)\n")
    print(_operators(agent))
    print(_functions(learner, options.steps))
    # Last, because the clocks stay where they are.
    print(_sections(task, agent, learner, options.steps))
    return 0


def start(task: Task) -> tuple[Any, Any]:
    """Build our agent and train it until it has begun to learn."""
    from recollect.learner import Learner

    agent = ours.build(task, {"overlap": False})  # the clocks are those of one thread
    learner = Learner(agent.scheme, target_steps=10**12)
    while learner.num_updates < 10:
        learner.step()
    return agent, learner


def advance(learner: Any, num_steps: int) -> tuple[int, int, float]:
    """Train for some steps; returns steps, updates and seconds."""
    steps, updates, begin = learner.num_steps, learner.num_updates, thread_time()
    while learner.num_steps < steps + num_steps:
        learner.step()
    return learner.num_steps - steps, learner.num_updates - updates, thread_time() - begin


def _sections(task: Task, agent: Any, learner: Any, num_steps: int) -> str:
    plain = advance(learner, num_steps)
    sections = clock_all(agent, learner)
    steps, updates, elapsed_s = advance(learner, num_steps)
    lines = [
        f"{steps:,} steps, {updates:,} updates: {elapsed_s / steps * 1e6:,.0f} µs a step, "
        f"{plain[2] / plain[0] * 1e6:,.0f} without these clocks; the env alone takes {_bare_env_us(task):,.0f} µs",
        f"{'section (own time)':32} {'µs/call':>9} {'µs/step':>9} {'share':>6}  where",
    ]
    ranked = sorted(sections.seconds, key=lambda title: -sections.seconds[title])
    for title in ranked:
        seconds, calls = sections.seconds[title], sections.calls[title]
        per_call = f"{seconds / calls * 1e6:9,.1f}" if calls else f"{'–':>9}"
        share, per_step = seconds / elapsed_s, seconds / steps * 1e6
        lines.append(f"{title:32} {per_call} {per_step:9,.1f} {share:6.1%}  {sections.places[title]}")
    return "\n".join(lines) + "\n"


def _bare_env_us(task: Task, num_steps: int = 500) -> float:
    """Return what one step of the env takes without anybody around it."""
    env = make_env(task)
    env.reset(seed=1)
    elapsed_s = 0.0
    for _ in range(num_steps):
        action = env.action_space.sample()
        begin = thread_time()
        _, _, terminated, truncated, _ = env.step(action)
        elapsed_s += thread_time() - begin
        if terminated or truncated:
            env.reset()
    return elapsed_s / num_steps * 1e6


def _operators(agent: Any, num_calls: int = 20) -> str:
    """List the operators of updates by their own time, and the time of the products alone."""
    update = ours.updating(agent)
    update_us, products_us = _us_per_update(update, num_calls), _us_per_update(recorded(update), num_calls)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        num_updates = sum(update() for _ in range(num_calls))
    times: dict[str, list[float]] = {}
    for event in profiler.events():
        times.setdefault(event.name, []).append(event.self_cpu_time_total)
    # The profiler reads the clock on the wall: medians leave out the calls that were interrupted.
    own_us = {name: median(each) * len(each) / num_updates for name, each in times.items()}
    lines = [
        f"an update takes {update_us:,.0f} µs, its products alone {products_us:,.0f} µs",
        f"{'operator':44} {'calls/update':>12} {'µs/update':>10} {'share':>6}",
    ]
    for name in sorted(own_us, key=lambda name: -own_us[name])[:NUM_OPERATORS]:
        calls, share = len(times[name]) / num_updates, own_us[name] / sum(own_us.values())
        lines.append(f"{name[:44]:44} {calls:12.1f} {own_us[name]:10.1f} {share:6.1%}")
    return "\n".join(lines) + "\n"


def _us_per_update(call: Callable[[], int], num_calls: int) -> float:
    begin = thread_time()
    num_updates = sum(call() for _ in range(num_calls))
    return (thread_time() - begin) / num_updates * 1e6


def _functions(learner: Any, num_steps: int) -> str:
    """List Python functions by their own time, with the profiler's own cost in it: the order counts."""
    profiler = cProfile.Profile(thread_time)
    profiler.enable()
    steps, _, _ = advance(learner, num_steps)
    profiler.disable()
    stats: Any = pstats.Stats(profiler)
    rows = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:NUM_FUNCTIONS]
    lines = [f"{'function':48} {'calls/step':>10} {'µs/step':>9}  where"]
    for (file, line, name), (_, calls, own_s, _, _) in rows:
        where = "built in" if file == "~" else f"{_short(file)}:{line}"
        lines.append(f"{name[:48]:48} {calls / steps:10.2f} {own_s / steps * 1e6:9.1f}  {where}")
    return "\n".join(lines) + "\n"


def place_of(method: Callable[..., Any]) -> str:
    """Say where a method is written: file and line."""
    code = inspect.unwrap(method).__code__
    return f"{_short(code.co_filename)}:{code.co_firstlineno}"


def _short(file: str) -> str:
    """A path within the project, or within the packages that are installed."""
    path = Path(file)
    if path.is_relative_to(ROOT):
        return str(path.relative_to(ROOT))
    return file.rpartition("site-packages/")[2]


if __name__ == "__main__":
    raise SystemExit(main())
