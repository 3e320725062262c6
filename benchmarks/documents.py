"""Puts generated sections into documents, between their markers."""

import logging
from pathlib import Path

logger = logging.getLogger("benchmarks")


def write_section(path: Path, name: str, section: str) -> bool:
    """Replace what stands between a document's markers; False where it has none."""
    document = path.read_text() if path.exists() else ""
    changed = replace_section(document, name, section)
    if changed is None:
        logger.info("%s has no markers for the section %r; nothing is written there", path.name, name)
        return False
    path.write_text(changed)
    return True


def replace_section(document: str, name: str, section: str) -> str | None:
    """Return the document with a section between `<!-- name:start -->` and `<!-- name:end -->`, if it has them."""
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    head, found_start, rest = document.partition(start)
    _, found_end, tail = rest.partition(end)
    if not found_start or not found_end:
        return None
    return f"{head}{start}\n{section}\n{end}{tail}"
