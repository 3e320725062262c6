"""Generated sections replace what stands between their markers, and nothing else."""

import re
from pathlib import Path

from benchmarks.documents import write_section

ROOT = Path(__file__).parents[3]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results" / "replay.md"

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


def section_of(path: Path, name: str) -> str:
    """What a document has between its markers."""
    _, _, rest = path.read_text().partition(f"<!-- {name}:start -->")
    section, found, _ = rest.partition(f"<!-- {name}:end -->")
    assert found
    return section


def rows_of(text: str) -> dict[str, list[str]]:
    """Best figures of the rows of all tables in a text, those of the five libraries by what was measured."""
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M))
    return {title: [figure.partition(" (")[0] for figure in figures[:5]] for title, *figures in cells}


def test_what_the_readme_says_of_stable_baselines3_is_what_was_measured() -> None:
    top, measured = README.read_text(), rows_of(section_of(PAGE, "bench"))
    ratio = {
        title: float(figures[0].replace(",", "")) / float(figures[4].replace(",", ""))
        for title, figures in measured.items()
        if len(figures) == 5 and all(re.fullmatch(r"[\d,.]+", figures[k]) for k in (0, 4))
    }
    batches = [title for title in ratio if "sample" in title or "batch" in title]
    inserts = [title for title in ratio if "insert" in title]
    assert len(batches) >= 6
    assert len(inserts) >= 2
    assert "[several times as fast]" in top
    assert all(ratio[title] <= 1 / 2 for title in batches)
    assert "inserts about as fast" in top
    assert all(0.8 <= ratio[title] <= 1.2 for title in inserts)
    assert "in 60 % of the memory for small vectors" in top
    assert round(ratio["float32[17] / [6]"], 1) == 0.6
    assert "a quarter of it for stacked frames" in top
    assert round(ratio["uint8 frames 4×84×84"], 2) == 0.25


def test_the_readmes_rows_are_those_of_the_last_benchmark() -> None:
    measured, quoted = (rows_of(section_of(*place)) for place in ((PAGE, "bench"), (README, "bench-short")))
    header, _, *titles = quoted
    assert header == "µs per call, and bytes per transition"
    assert len(titles) == 6
    assert all(quoted[title] == measured[title] for title in titles), "take over the figures of the new benchmark"
