"""The site builds without a warning, and its reference has every public name with its options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import recollect

ROOT = Path(__file__).parents[2]
# In one process, so that what they share is made once.
pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from a layout outside the repository."""
    folder = tmp_path_factory.mktemp("site")
    config = folder / "mkdocs.yml"
    config.write_text((ROOT / "mkdocs.yml").read_text().replace("build/", "").replace("paths: [.]", f"paths: [{ROOT}]"))
    subprocess.run([sys.executable, ROOT / "docs" / "site.py", folder / "docs"], check=True, cwd=ROOT)
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return folder / "site"


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    reference = "".join(page.read_text() for page in (site / "docs" / "reference").glob("*.html"))
    names = [name for name in recollect.__all__ if hasattr(getattr(recollect, name), "__module__")]
    assert len(names) > 20
    assert [name for name in names if f'.{name}"' not in reference] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "names"),
    [
        ("sb3", ["DQN", "SAC", "TD3", "TQC", "EREBuffer", "HERBuffer", "NStepBuffer", "PERBuffer", "ReplayBuffer"]),
        ("cleanrl", ["EREBuffer", "PERBuffer", "ReplayBuffer", "ReplayBufferSamples"]),
        ("torchrl", ["EREBuffer", "PERBuffer", "ReplayBuffer"]),
    ],
)
def test_every_adapter_is_in_the_reference(site: Path, library: str, names: list[str]) -> None:
    page = (site / "docs" / "reference" / "adapters.html").read_text()
    assert [name for name in names if f"recollect.adapters.{library}.{name}<" not in page] == []


@pytest.mark.slow
def test_options_stand_beside_the_classes_that_have_them(site: Path) -> None:
    storages = (site / "docs" / "reference" / "storages.html").read_text()
    assert "Options of EREBuffer" in storages
    assert recollect.EREBuffer.config_class.docs()["eta"] in storages


@pytest.mark.slow
def test_links_between_pages_are_kept(site: Path) -> None:
    assert 'href="docs/guide/agents.html"' in (site / "index.html").read_text()
    assert (site / "docs" / "images" / "store.svg").is_file()
