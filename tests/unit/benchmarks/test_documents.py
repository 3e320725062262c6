"""Generated sections replace what stands between their markers, and nothing else."""

from pathlib import Path

from benchmarks.documents import write_section

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
