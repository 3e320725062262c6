"""Renderers of MuJoCo without a screen: the first that works is chosen, and none is an error of one line."""

import os
import subprocess
from typing import Any

import gymnasium as gym
import pytest

from recollect.agent.envs import rendering
from recollect.agent.envs.rendering import choose_renderer
from recollect.errors import ConfigError
from tests.unit.agent.envs.toys import Toy


class Physics(Toy):
    """Looks like an env of MuJoCo."""

    mujoco_renderer = None


@pytest.fixture(autouse=True)
def headless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"):
        monkeypatch.setenv(name, "")  # so that it is restored afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(rendering.sys, "platform", "linux")


def let_work(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Let trials of these renderers end well; returns what is tried."""
    tried: list[str] = []

    def run(command: Any, env: dict[str, str], **options: Any) -> Any:
        tried.append(env["MUJOCO_GL"])
        return subprocess.CompletedProcess(command, 0 if env["MUJOCO_GL"] in names else -6)

    monkeypatch.setattr(rendering.subprocess, "run", run)
    return tried


@pytest.mark.parametrize(("works", "chosen"), [(("egl", "osmesa"), "egl"), (("osmesa",), "osmesa")])
def test_the_first_that_works_is_chosen(works: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    let_work(monkeypatch, *works)
    choose_renderer(Physics())
    assert os.environ["MUJOCO_GL"] == chosen


def test_none_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = let_work(monkeypatch)
    with pytest.raises(ConfigError, match="tried egl and osmesa; install one, such as OSMesa: apt-get") as caught:
        choose_renderer(Physics())
    assert "\n" not in str(caught.value)
    assert tried == ["egl", "osmesa"]
    assert "MUJOCO_GL" not in os.environ


def test_a_renderer_that_hangs_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Any, timeout: float, **options: Any) -> Any:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(rendering.subprocess, "run", run)
    with pytest.raises(ConfigError, match="finds no renderer"):
        choose_renderer(Physics())


@pytest.mark.parametrize(
    ("env", "variable"), [(Physics(), "MUJOCO_GL"), (Physics(), "DISPLAY"), (Physics(), "WAYLAND_DISPLAY"), (Toy(), "")]
)
def test_what_needs_no_choice_is_left_alone(
    env: gym.Env[Any, Any], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = let_work(monkeypatch)
    if variable:
        monkeypatch.setenv(variable, "given")
    choose_renderer(env)
    assert not tried


def test_the_trial_is_what_mujoco_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.setenv("MUJOCO_GL", "disable")
    trial = subprocess.run(
        [rendering.sys.executable, "-c", rendering.TRIAL], capture_output=True, text=True, check=False
    )
    # All is well up to the drawing, for which there is no context.
    assert trial.returncode != 0
    assert "Renderer" in trial.stderr
    assert "GLContext" in trial.stderr or "gl_context" in trial.stderr
