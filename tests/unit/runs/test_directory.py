"""A run directory says what was run, with what, and how."""

import json
from pathlib import Path

import pytest

import recollect
from recollect.errors import ConfigError
from recollect.runs import RunDirectory


def test_what_is_known_at_the_start_is_written(tmp_path: Path) -> None:
    config = {"algo": {"name": "sac", "gamma": 0.98}, "seed": 3, "hidden": [64, 64]}
    run = RunDirectory.create(tmp_path / "deep" / "run", config, "recollect train sac")
    assert RunDirectory.open(run.path).config == config
    assert run.command_file.read_text() == "recollect train sac\n"
    versions = json.loads(run.versions_file.read_text())
    assert versions["recollect"] == recollect.__version__
    assert {"python", "torch", "numpy", "gymnasium"} <= set(versions)


def test_a_run_is_not_written_over(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path, {"seed": 1})
    with pytest.raises(ConfigError, match="holds a run already"):
        RunDirectory.create(tmp_path, {"seed": 2})
    assert RunDirectory.open(tmp_path).config == {"seed": 1}


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no run: it has no config\.yaml"):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize("text", ["a: [", "just text"])
def test_a_config_that_cannot_be_read_is_an_error(text: str, tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, {})
    run.config_file.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        _ = run.config
