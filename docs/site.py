"""Lays out the sources of the site in a folder of its own, for `make docs`.

The documents keep the places that they have in the repository, so that their links hold in both. Files that they link
to come along, and every public name gets an entry in the reference.
"""

import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path

import recollect

ROOT = Path(__file__).resolve().parents[1]
STYLE = Path("docs") / "site.css"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
# Title of a page of the reference, and the packages whose public names stand there.
REFERENCE = {
    "Agents": ("recollect.api", "recollect.predictor"),
    "Storages": ("recollect.agent.storages",),
    "Algorithms": ("recollect.agent.algorithms",),
    "Actors and environments": ("recollect.agent.actors", "recollect.agent.envs", "recollect.agent.registry"),
    "Training": ("recollect.scheme", "recollect.learner", "recollect.callbacks", "recollect.runs"),
}
OTHERS = "Data and policies"
ADAPTERS = "Adapters"
LIBRARIES = ("sb3", "cleanrl", "torchrl")


def documents() -> list[Path]:
    """Every page, relative to the repository."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    return sorted(page.relative_to(ROOT) for page in [*pages, *(ROOT / "examples").glob("*.md")])


def linked_files(page: Path) -> Iterator[Path]:
    """Files other than pages that a page links to, relative to the repository."""
    for link, _ in LINK.findall((ROOT / page).read_text()):
        target = (ROOT / page.parent / link).resolve()
        if "://" not in link and target.is_file() and target.suffix != ".md":
            yield target.relative_to(ROOT)


def options_table(part: type) -> str:
    """Options of a storage or an algorithm, with default and meaning; empty for what has none."""
    config = getattr(part, "config_class", None)
    if config is None:
        return ""
    meanings = config.docs()
    defaults = {
        entry.name: "required" if entry.default is MISSING else f"`{entry.default!r}`" for entry in fields(config)
    }
    rows = [f"| `{name}` | {default} | {meanings[name]} |" for name, default in defaults.items()]
    heading = f"### Options of {part.__name__}"
    return "\n".join(["\n", heading, "", "| option | default | meaning |", "| --- | --- | --- |", *rows])


def reference_pages() -> dict[str, list[str]]:
    """Titles of the reference's pages, and the entries of the public names on each."""
    pages = defaultdict(list)
    for name in sorted(recollect.__all__, key=str.lower):
        part = getattr(recollect, name)
        module = getattr(part, "__module__", None)
        if module is not None:
            title = next((page for page, packages in REFERENCE.items() if module.startswith(packages)), OTHERS)
            pages[title].append(f"::: {module}.{part.__name__}{options_table(part)}")
    pages[ADAPTERS] = list(adapters())
    return pages


def adapters() -> Iterator[str]:
    """Entries of the classes for each library, by their full names, because they are called alike."""
    for library in LIBRARIES:
        module = import_module(f"recollect.adapters.{library}")
        own = (name for name, part in vars(module).items() if getattr(part, "__module__", "") == module.__name__)
        for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
            path = f"{getattr(module, name).__module__}.{name}"
            yield f"## recollect.adapters.{library}.{name}\n\n::: {path}\n    options: {{show_root_heading: false}}"


def lay_out(target: Path) -> None:
    """Write the sources of the site below `target`."""
    shutil.rmtree(target, ignore_errors=True)
    pages = documents()
    for path in {*pages, *(file for page in pages for file in linked_files(page))}:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target / path)
    shutil.copyfile(ROOT / STYLE, target / STYLE)
    folder = target / "docs" / "reference"
    folder.mkdir()
    for title, entries in reference_pages().items():
        text = "\n\n".join([f"# {title}", *entries, ""])
        (folder / f"{title.lower().replace(' ', '-')}.md").write_text(text)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
