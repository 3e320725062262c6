"""`recollect bench` hands over to the benchmarks of a checkout."""

from pathlib import Path

import pytest

import recollect as package
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize(
    ("suite", "about"), [("replay", "--competitors"), ("learn", "--jobs"), ("scaling", "--rllib-python")]
)
def test_arguments_are_handed_on(suite: str, about: str, recollect: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        recollect("bench", suite, "--help")
    assert left.value.code == 0
    assert about in capsys.readouterr().out


def test_without_a_checkout_it_says_what_to_do(recollect: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "__file__", str(tmp_path / "recollect" / "__init__.py"))
    outcome = recollect("bench", "replay")
    assert outcome.code == 2
    assert "clone the repository" in outcome.err
