"""What the scaling benchmark has measured, as tables, a projection and a figure."""

from dataclasses import dataclass, field
from os.path import relpath
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks import machine
from benchmarks.scaling_projection import ASYNC, SYNC, Costs, Load, efficiency, most_steps_per_s, most_workers

MODES = (SYNC, ASYNC)
LEAST_EFFICIENCY = {ASYNC: 0.90, SYNC: 0.85}
LEAST_WITH_STRAGGLER = 0.85
# Observations that projections are made for, and their bytes.
OBSERVATIONS = {
    "17 float32": 68,
    "376 float64": 3008,
    "a frame of 84×84 uint8": 84 * 84,
    "a stack of four of them": 4 * 84 * 84,
}
COLOURS = {"sync": "#0072B2", "async": "#D55E00", "rllib sync": "#56B4E9", "rllib async": "#999999"}

Rates = dict[str, dict[int, float]]


@dataclass
class Outcome:
    """What a run has measured.

    Attributes
    ----------
    update_every : int
        Steps of a message.
    sleep_s : float
        Seconds that the env sleeps in a step.
    rates : dict
        Steps per second by mode and number of workers.
    overhead_us : dict
        Time of the learner's process for each collected step, in µs, by mode and number of workers.
    straggler : dict
        Steps per second with and without one slow worker, and with it but without preemption.
    path : dict
        Seconds of a message and of a byte from a worker into the learner's storage; MB/s, and of a plain copy.
    messages : dict
        Bytes for each step, and µs of the learner for a message, by kind of message.
    gradients : dict
        Milliseconds of an update by scheme, and bytes of a gradient.
    rllib : dict or str
        Steps per second of RLlib's env runners by mode and number, or why there are none.
    """

    machine: dict[str, Any]
    update_every: int
    sleep_s: float
    rates: Rates = field(default_factory=dict)
    overhead_us: Rates = field(default_factory=dict)
    straggler: dict[str, float] = field(default_factory=dict)
    path: dict[str, float] = field(default_factory=dict)
    messages: dict[str, dict[str, float]] = field(default_factory=dict)
    gradients: dict[str, float] = field(default_factory=dict)
    rllib: Rates | str = ""

    @property
    def costs(self) -> Costs:
        """What a message and a byte cost."""
        return Costs(self.path["message_s"], self.path["byte_s"])

    def efficiency(self, mode: str) -> float:
        """Rate of the most workers against as many times that of one."""
        return efficiency_of(self.rates[mode])

    def load(self, bytes_per_step: float) -> Load:
        """What a worker of this run sends, were its steps so long."""
        return Load(self.update_every, bytes_per_step, self.sleep_s)


def efficiency_of(rates: dict[int, float]) -> float:
    """Rate of the most workers against as many times that of one."""
    most = max(rates)
    return rates[most] / (most * rates[1])


def measured(outcome: Outcome) -> str:
    """What was measured, as Markdown."""
    lines = [f"*{machine.summary(outcome.machine)}, {outcome.machine['time'][:10]}.*", ""]
    lines += [*_rates(outcome), "", *_efficiencies(outcome)]
    alike, most = outcome.straggler["all_alike"], max(outcome.rates[SYNC])
    kept, lost = outcome.straggler["one_slow_preempted"] / alike, outcome.straggler["one_slow"] / alike
    path = outcome.path
    lines += [
        f"- One of {most} synchronous workers five times slower: {lost:.0%} of the rate without it; with preemption "
        f"{kept:.0%} (at least {LEAST_WITH_STRAGGLER:.0%}).",
        f"- From workers into the learner's storage: {path['mb_per_s']:,.0f} MB/s in messages of "
        f"{path['message_bytes'] / 1e6:.1f} MB, 1/{path['copy_mb_per_s'] / path['mb_per_s']:.1f} of a plain copy in "
        f"memory ({path['copy_mb_per_s']:,.0f} MB/s).",
        f"- Of the learner's time, a message costs {1e3 * path['message_s']:.2f} ms and a megabyte "
        f"{1e9 * path['byte_s']:.2f} ms.",
        *(
            f"- A message of {kind}: {costs['bytes_per_step']:,.0f} bytes a step; the learner stores it in "
            f"{costs['learner_us']:,.0f} µs."
            for kind, costs in outcome.messages.items()
        ),
        "- " + _gradients(outcome.gradients),
    ]
    return "\n".join(lines)


def projected(outcome: Outcome) -> str:
    """What follows for other observations and more workers, as Markdown."""
    costs, most = outcome.costs, max(outcome.rates[SYNC])
    lines = [
        "| observation | steps/s into one storage, at most | sync workers | async workers |",
        "| --- | --- | --- | --- |",
    ]
    for name, num_bytes in OBSERVATIONS.items():
        load = outcome.load(num_bytes)
        numbers = [most_workers(costs, load, mode, LEAST_EFFICIENCY[mode]) for mode in MODES]
        lines.append(f"| {name} | {most_steps_per_s(costs, load):,.0f} | {numbers[0]:,} | {numbers[1]:,} |")
    small = outcome.load(min(OBSERVATIONS.values()))
    shares = [efficiency(costs, small, most, mode) for mode in MODES]
    lines += [
        "",
        f"Workers are those that are at least {LEAST_EFFICIENCY[SYNC]:.0%} (sync) and {LEAST_EFFICIENCY[ASYNC]:.0%} "
        f"(async) efficient with {outcome.update_every} steps of {1e3 * outcome.sleep_s:g} ms in a message. For "
        f"{most} workers and the smallest observation the same sum gives {shares[0]:.0%} (sync; measured: "
        f"{outcome.efficiency(SYNC):.0%}) and {shares[1]:.0%} (async; measured: {outcome.efficiency(ASYNC):.0%}); it "
        "leaves out that workers and learner share the cores of the machine above.",
    ]
    return "\n".join(lines)


def figure_link(figure: Path, document: Path) -> str:
    """Markdown that shows the figure in a document."""
    return f"![Steps per second by number of workers]({relpath(figure, document.parent)})"


def draw(outcome: Outcome, path: Path) -> None:
    """Write a figure of the rates by number of workers, beside those of workers that never wait."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    curves = dict(outcome.rates)
    if not isinstance(outcome.rllib, str):
        curves |= {f"rllib {mode}": rates for mode, rates in outcome.rllib.items()}
    for name, rates in curves.items():
        axes.plot(list(rates), list(rates.values()), "o-", label=name, color=COLOURS[name])
    numbers = list(outcome.rates[SYNC])
    axes.plot(numbers, [number / outcome.sleep_s for number in numbers], ":", color="black", label="never waiting")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("workers")
    axes.set_ylabel("steps per second")
    axes.set_title(f"Collection with steps of {1e3 * outcome.sleep_s:g} ms, {outcome.update_every} in a message")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _rates(outcome: Outcome) -> list[str]:
    """Steps per second, ours and RLlib's side by side."""
    lines = [
        "| workers | sync, steps/s | async, steps/s | learner, µs a step | RLlib sync | RLlib async |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for number in outcome.rates[SYNC]:
        ours = [f"{outcome.rates[mode][number]:,.0f}" for mode in MODES]
        cells = [str(number), *ours, f"{outcome.overhead_us[ASYNC][number]:,.0f}"]
        lines.append(f"| {' | '.join(cells + _rllib_cells(outcome.rllib, number))} |")
    if isinstance(outcome.rllib, str):
        lines += ["", outcome.rllib + "."]
    return lines


def _rllib_cells(rates: Rates | str, number: int) -> list[str]:
    return ["–", "–"] if isinstance(rates, str) else [f"{rates[mode][number]:,.0f}" for mode in MODES]


def _efficiencies(outcome: Outcome) -> list[str]:
    most = max(outcome.rates[SYNC])
    lines = [
        f"- Efficiency of {most} {mode} workers: {outcome.efficiency(mode):.0%} (at least {least:.0%})."
        for mode, least in LEAST_EFFICIENCY.items()
    ]
    if not isinstance(outcome.rllib, str):
        shares = [f"{efficiency_of(outcome.rllib[mode]):.0%} {mode}" for mode in MODES]
        lines.append(f"- Efficiency of {most} env runners of RLlib, without a storage: {', '.join(shares)}.")
    return lines


def _gradients(found: dict[str, float]) -> str:
    return (
        f"An update by a gradient of {found['bytes'] / 1e6:.2f} MB takes {found['local']:.1f} ms in one process; with "
        f"two gradient workers {found['sync']:.1f} ms (sync), {found['async']:.1f} ms (async), "
        f"{found['decentralised']:.1f} ms (decentralised)."
    )
