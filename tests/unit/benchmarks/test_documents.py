"""Generated sections replace what stands between their markers, and nothing else."""

import re
from pathlib import Path

from benchmarks.documents import write_section

README = Path(__file__).parents[3] / "README.md"

DOCUMENT = "above\n<!-- a:start -->\nold\n<!-- a:end -->\nbetween\n<!-- b:start -->\nkept\n<!-- b:end -->\nbelow\n"


def test_only_the_named_section_changes(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(DOCUMENT)
    assert write_section(path, "a", "new")
    assert path.read_text() == DOCUMENT.replace("old", "new")


def test_a_document_without_markers_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("text\n<!-- a:start -->\n")
    assert not write_section(path, "a", "new")
    assert path.read_text() == "text\n<!-- a:start -->\n"


def test_a_missing_document_is_not_made(tmp_path: Path) -> None:
    assert not write_section(tmp_path / "page.md", "a", "new")
    assert not (tmp_path / "page.md").exists()


def rows_of(text: str) -> dict[str, list[str]]:
    """Best figures of the rows of all tables in a text, those of the five libraries by what was measured."""
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M))
    return {title: [figure.partition(" (")[0] for figure in figures[:5]] for title, *figures in cells}


def test_figures_at_the_top_of_the_readme_are_those_of_the_last_benchmark() -> None:
    top, _, rest = README.read_text().partition("<!-- bench:start -->")
    measured = rows_of(rest.partition("<!-- bench:end -->")[0])
    quoted = {title: figures for title, figures in rows_of(top).items() if title in measured}
    del quoted["---"]
    assert len(quoted) == 6
    assert quoted == {title: measured[title] for title in quoted}, "take over the figures of the new benchmark"
