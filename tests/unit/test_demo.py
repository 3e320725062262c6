"""The demonstration runs, and says what is true."""

import re
from pathlib import Path

import pytest

from recollect import demo


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SECONDS_A_MEASUREMENT", 0.01)


@pytest.mark.usefixtures("quick")
def test_it_runs_in_plain_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(["--steps", "3000", "--envs", "4", "--batch", "32", "--plot", str(tmp_path / "runs" / "demo.png")])
    printed = capsys.readouterr().out
    for name in ("uniform", "3-step", "PER", "PER + ERE", "HER", "NStepReplayStorage"):
        assert re.search(rf"^{re.escape(name)}: [\d,]+ batches of 32 a second$", printed, re.MULTILINE), name
    right, all_of_them = re.search(r"ends: ([\d,]+) of ([\d,]+) truncated windows", printed).groups()  # type: ignore[union-attr]
    assert right == all_of_them != "0"
    assert "agents come next" in printed
    assert (tmp_path / "runs" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_help_and_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        demo.parse(["--help"])
    assert "example" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        demo.parse(["--steps", "0"])
    assert "--steps must be at least 1" in capsys.readouterr().err
