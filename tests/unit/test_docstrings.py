"""Every example in a docstring of the package runs and prints what it shows."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules() -> list[str]:
    """Modules with examples, found in the source, so that no other has to be imported."""
    paths = sorted((ROOT / "recollect").rglob("*.py"))
    names = [path.relative_to(ROOT).with_suffix("").parts for path in paths if ">>> " in path.read_text()]
    return [".".join(parts).removesuffix(".__init__") for parts in names]


@pytest.mark.parametrize("name", modules())
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(import_module(name))
    assert results.attempted > 0, "has examples that doctest does not find"
    assert results.failed == 0
