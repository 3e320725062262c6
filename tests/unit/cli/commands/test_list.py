"""`recollect list` shows all that there is."""

import pytest

from recollect.agent.algorithms import ALGORITHMS
from recollect.agent.storages import STORAGES
from recollect.config import presets
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize(
    ("what", "names"), [("algorithms", ALGORITHMS), ("storages", STORAGES), ("presets", presets.names())]
)
def test_everything_is_listed_with_what_it_is(what: str, names: list[str], recollect: Run) -> None:
    outcome = recollect("list", what)
    shown = {line.split()[0]: line.split(maxsplit=1)[1:] for line in outcome.out.splitlines() if line[2:3].strip()}
    assert set(names) <= set(shown)
    assert all(shown[name] for name in names)


def test_without_a_word_all_lists_are_shown(recollect: Run) -> None:
    shown = recollect("list").out
    for what in ("algorithms", "storages", "presets"):
        assert recollect("list", what).out in shown


def test_options_are_shown_as_they_are_set(recollect: Run) -> None:
    shown = recollect("list", "options", "sac", "per").out
    assert "algo.gamma=0.99" in shown
    assert "storage.alpha=0.6" in shown, "what `--set storage=per` brings, not the constructor's 0"
    assert "How much priorities count." in shown
    assert "storage.alpha=0.6" in recollect("list", "options", "SAC", "PER").out
    shown = recollect("list", "options", "her").out
    for text in ("storage.backing=ram", "storage.strategy=future", "storage.share=0.8"):
        assert text in shown
    assert "storage.size=1000000" in shown, "what a run has without it"
    assert "storage.size=algo.update_every" in recollect("list", "options", "gae").out
    shown = recollect("list", "options").out
    assert "actor.hidden_sizes=[256, 256]" in shown
    assert "actor.memory=none" in shown
    assert "actor.layer_norm=false" in shown
    assert "  seed=1" in shown
    assert "scheme.num_col_workers=0" in shown
    assert "scheme.col_mode=sync" in recollect("list", "options", "scheme").out


@pytest.mark.parametrize("columns", ["40", "70", "200"])
def test_long_texts_stay_in_their_column(columns: str, recollect: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = recollect("list", "options", "per").out.splitlines()
    assert max(map(len, lines)) <= max(60, int(columns))
