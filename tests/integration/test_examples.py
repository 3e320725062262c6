"""Every example runs as it stands, only shorter, and does what it says."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from tests.learning import Check

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = {
    "atari",
    "compare_buffers",
    "custom_algorithm",
    "custom_env",
    "custom_network",
    "her",
    "offline_storage",
    "per_nstep",
    "quickstart",
    "recurrent",
}


@cache
def load(name: str) -> ModuleType:
    spec = spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gain(rates: Mapping[str, float], with_it: str, without: str) -> float:
    """How much more often an agent succeeds with an ingredient than without."""
    return rates[with_it] - rates[without]


CHECKS: Final = {
    # Who always goes the same way reaches half of the floors.
    "custom_env": Check(
        train=lambda seed: load("custom_env").main(4_000, seed),
        threshold=0.7,
        trials="0 of 21 failed; worst 0.8, median 1; chance of a false alarm 8e-05",
    ),
    # Examples broken on purpose had 9 (nothing learned, wrong sign) to 41 (no bootstrap).
    "custom_network": Check(
        train=lambda seed: load("custom_network").main(4_000, seed),
        threshold=80,
        trials="0 of 21 failed; worst 148.3, median 237.9; chance of a false alarm 8e-05",
    ),
    "custom_algorithm": Check(
        train=lambda seed: load("custom_algorithm").main(4_000, seed),
        threshold=80,
        trials="0 of 21 failed; worst 156.9, median 265.4; chance of a false alarm 8e-05",
    ),
    # Without hindsight a few percent are reached.
    "her": Check(
        train=lambda seed: gain(load("her").main(4_000, seed), "her", "replay"),
        threshold=0.3,
        trials="0 of 21 failed; worst 0.89, median 0.97; chance of a false alarm 8e-05",
    ),
    # Without memory nothing but chance is possible, which is 0.5.
    "recurrent": Check(
        train=lambda seed: gain(load("recurrent").main(10_000, seed), "gru", "None"),
        threshold=0.3,
        trials="0 of 21 failed; worst 0.39, median 0.5; chance of a false alarm 8e-05",
    ),
    # Random play: 22.
    "offline_storage": Check(
        train=lambda seed: load("offline_storage").main(4_000, seed),
        threshold=100,
        trials="0 of 21 failed; worst 191.2, median 253.4; chance of a false alarm 8e-05",
    ),
}


def test_every_example_is_run_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == NAMES
    source = Path(__file__).read_text()
    assert {name for name in NAMES if re.search(rf'load\("{name}"\)|examples/{name}.py', source)} == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_example_is_short_and_says_what_it_shows(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 85
    assert '"--steps"' in text


def test_quickstart_from_the_command_line() -> None:
    command = [sys.executable, "examples/quickstart.py", "--steps", "800"]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, cwd=FOLDER.parent, env=one_thread, capture_output=True, text=True, check=True)
    output = process.stdout
    assert re.search(r"-[\d,.]+ ± [\d,.]+ over 20 episodes", output)
    assert re.search(r"one episode of the loaded agent: -\d+", output)


@pytest.mark.parametrize("name", ["custom_env", "her", "recurrent", "offline_storage"])
def test_an_example_learns(name: str) -> None:
    CHECKS[name].judge()


def count_calls(owner: type, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with every call of a method."""
    calls, method = [], getattr(owner, name)

    def counted(self: Any, *arguments: Any) -> Any:
        calls.append(name)
        return method(self, *arguments)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_custom_network_is_used_and_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("custom_network")
    calls = count_calls(example.FourierFeatures, "forward", monkeypatch)
    CHECKS["custom_network"].judge()
    assert len(calls) > 4_000


def test_custom_algorithm_gives_the_targets_and_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("custom_algorithm")
    calls = count_calls(example.SoftQ, "_target", monkeypatch)
    CHECKS["custom_algorithm"].judge()
    assert len(calls) > 1_000


def test_prioritised_n_step_changes_on_the_way() -> None:
    learner = load("per_nstep").main(steps=900)
    storage = learner.scheme.storage
    assert storage.n_step == 1
    assert storage.beta == pytest.approx(1.0)
    assert learner.num_steps == 900


def test_atari_keeps_frames_once() -> None:
    assert load("atari").main(steps=240) < 16


def test_buffers_are_compared_in_a_plot() -> None:
    files = load("compare_buffers").main(steps=400, num_seeds=1)
    assert {file.suffix for file in files} == {".png", ".svg"}
    assert all(file.stat().st_size > 10_000 for file in files)
