"""The documents do what they say: their code runs, and their links lead somewhere."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import recollect
from recollect.agent.algorithms import ALGORITHMS
from tests.samples import make_slice, with_done

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
WITH_CODE = ("README.md", "docs/guide/standalone.md", "docs/guide/storages.md", "docs/guide/data.md")
# Run by tests/unit/cli/test_guides.py, which knows the agents that they speak of.
# The page on own parts is run by tests/integration/test_own_parts.py, in a folder of its own.
RUN_ELSEWHERE = ("docs/guide/agents.md", "docs/guide/own-parts.md", "docs/guide/scaling.md", "docs/guide/export.md")
# Steps of the guide's complete loop and the start of learning, and steps of the README's agent: cut short here.
# All else runs as it stands.
FULL, SHORT = "= 1, 8, 40_000, 1_000,", "= 1, 8, 1_600, 800,"
FULL_RUN, SHORT_RUN = "agent.learn(20_000)", "agent.learn(520)"

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")  # of text and of images
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks_of(document: str) -> Iterator[tuple[int, str]]:
    """Python blocks of a document with the line each starts at."""
    text = (ROOT / document).read_text()
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start()) + 2, match.group(1)


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """What the documents take for granted: eight envs, a step of each, networks, a worker's slice."""
    rng = np.random.default_rng(1)
    observations = rng.standard_normal((2, 8, 3)).astype(np.float32)
    num_threads = torch.get_num_threads()
    yield {
        "rc": recollect,
        "gym": gymnasium,
        "np": np,
        "torch": torch,
        "obs": observations[0],
        "next_obs": observations[1],
        "action": rng.standard_normal((8, 2)).astype(np.float32),
        "reward": rng.standard_normal(8).astype(np.float32),
        "terminated": rng.random(8) < 0.5,
        "truncated": np.zeros(8, np.bool_),
        "td_errors": torch.rand(256),
        "q": lambda obs, action=None: obs.sum(dim=1, keepdim=True),
        "q_target": lambda obs: obs.sum(dim=1, keepdim=True),
        "new_data": with_done(make_slice(5, num_envs=8)),
        "worker_name": "worker-1",
        "number_of_the_first_step": 0,
        "device": "cpu",
        "actor": SimpleNamespace(is_recurrent=False),
        "algorithm": SimpleNamespace(gamma=0.99),
        "envs": SimpleNamespace(num_envs=8),
    }
    torch.set_num_threads(num_threads)


@pytest.mark.parametrize("document", WITH_CODE)
def test_code_runs_from_top_to_bottom(
    document: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    num_blocks = 0
    for line, code in blocks_of(document):
        script = tmp_path / f"{Path(document).stem}_line_{line}.py"
        script.write_text(code.replace(FULL, SHORT).replace(FULL_RUN, SHORT_RUN))
        names |= runpy.run_path(str(script), init_globals=names)
        num_blocks += 1
    assert num_blocks == (ROOT / document).read_text().count("```python")


def test_every_document_with_code_is_run() -> None:
    with_code = {name_of(path) for path in DOCUMENTS if "```python" in path.read_text()}
    assert with_code == {*WITH_CODE, *RUN_ELSEWHERE}


@pytest.mark.usefixtures("names")
def test_the_guides_complete_loop_trains_its_network(tmp_path: Path) -> None:
    loops = [code for _, code in blocks_of("docs/guide/standalone.md") if "for step in range" in code]
    assert len(loops) == 1
    assert FULL in loops[0]
    script = tmp_path / "loop.py"
    script.write_text(loops[0].replace(FULL, SHORT))
    result = runpy.run_path(str(script))
    assert len(result["memory"]) == 1_600
    assert len(result["returns"]) > 20
    torch.manual_seed(result["SEED"])
    untrained = result["make_network"]()
    for before, after in zip(untrained.parameters(), result["online"].parameters(), strict=True):
        assert after.isfinite().all()
        assert not torch.equal(before, after)


def test_the_table_of_algorithms_is_that_of_the_code() -> None:
    page = (ROOT / "docs/guide/algorithms.md").read_text()
    table = page.split("<!-- algorithms:start -->\n")[1].split("<!-- algorithms:end -->")[0]
    rows = [
        (
            f"`{name}`",
            ", ".join(space.__name__ for space in cls.action_spaces),
            "yes" if cls.masks_actions else "no",
            "rollouts" if cls.is_on_policy else "replay",
        )
        for name, cls in ALGORITHMS.items()
    ]
    assert [tuple(line.strip("| ").split(" | ")) for line in table.splitlines()[2:]] == rows
    assert f"[{len(rows)} algorithms](docs/guide/algorithms.md)" in (ROOT / "README.md").read_text()


def anchors_of(text: str) -> set[str]:
    """Anchors of a document's headings, as a forge makes them."""
    headings = HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    broken = []
    for link in LINK.findall(FENCED.sub("", document.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text())):
            broken.append(link)
    assert broken == []


def imported_by(source: Path) -> Iterator[str]:
    """Parts of the package that a module imports when it runs, by the first name below `recollect`."""
    tree = ast.parse(source.read_text())
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node))]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "recollect":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recollect."):
            yield str(node.module).split(".")[1]


def test_imports_go_the_way_that_contributing_says() -> None:
    (arrows,) = re.findall(r"^`(adapters.* → .*)`\.$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    layers = [layer.split(", ") for layer in arrows.split(" → ")]
    rank = {part: position for position, layer in enumerate(layers) for part in layer}
    backwards = []
    for source in (ROOT / "recollect").rglob("*.py"):
        part = source.relative_to(ROOT / "recollect").parts[0].removesuffix(".py")
        backwards += [
            f"{name_of(source)}: {other}"
            for other in imported_by(source)
            if part in rank and other != part and rank.get(other, len(rank)) <= rank[part]
        ]
    assert len(rank) > 10
    assert backwards == []


def test_decisions_are_numbered_and_listed() -> None:
    folder = ROOT / "docs" / "adr"
    listed = (folder / "README.md").read_text()
    for number, page in enumerate(sorted(folder.glob("0*.md")), 1):
        assert page.read_text().startswith(f"# {number:04}: ")
        assert f"[{number:04}]({page.name})" in listed


def test_links_are_found_at_all() -> None:
    links = [link for document in DOCUMENTS for link in LINK.findall(document.read_text())]
    assert sum("://" not in link for link in links) > 10
    assert any(link.endswith(".png") for link in links)
