"""The model card: what a policy is for, how good it is, and what it was made with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from recollect import metrics
from recollect.agent.registry import title_of
from recollect.config import RunConfig
from recollect.config.files import dump_document, parse_value
from recollect.errors import StorageError
from recollect.files.disk import read_file
from recollect.runs.curves import read_returns
from recollect.runs.directory import RunDirectory, versions_in_use
from recollect.runs.plots import plot_run
from recollect.runs.writers import number_in, read_rows

_NO_LICENCE: Final = "None was given: ask whoever made this policy before you use it."
_TASK: Final = "reinforcement-learning"


@dataclass(frozen=True)
class Score:
    """Mean return without exploration, and how it was found out."""

    mean: float
    standard_error: float | None
    how: str

    def __str__(self) -> str:
        spread = "" if self.standard_error is None else f" ± {self.standard_error:,.1f}"
        return f"{self.mean:,.1f}{spread} ({self.how})"


@dataclass(frozen=True)
class ModelCard:
    """What a card says.

    Attributes
    ----------
    config : RunConfig
        What the policy was trained with.
    num_steps : int
        Env steps that it was trained for.
    score : Score, optional
        How good it is, if anybody knows.
    curve : bytes, optional
        Learning curve, as PNG.
    licence : str, optional
        Under which licence it may be used, such as `mit`.
    versions : mapping
        What it was trained with.
    """

    config: RunConfig
    num_steps: int
    score: Score | None = None
    curve: bytes | None = None
    licence: str | None = None
    versions: Mapping[str, Any] = field(default_factory=versions_in_use)

    def text(self, curve_name: str | None = None, files: Mapping[str, str] | None = None) -> str:
        """The card as Markdown, with a picture of the curve if it has a name, and what the files beside it are."""
        env, algo = title_of(self.config.env), self.config.algo
        name = f"{algo.upper()} on {env}"
        curve = f"![Learning curve]({curve_name})" if curve_name else "None was kept with this policy."
        listed = "\n".join(f"- `{file}`: {what}" for file, what in (files or {}).items())
        versions = "\n".join(f"| {package} | {version} |" for package, version in self.versions.items())
        sections = {
            "Task": f"Environment `{self.config.env}`. Trained for {self.num_steps:,} env steps.",
            "Score": f"Mean return {self.score}." if self.score else "Not evaluated.",
            "Curve": curve,
            **({"Files": listed} if listed else {}),
            "Config": f"```yaml\n{dump_document(self.document())}```",
            "Versions": f"| what | version |\n| --- | --- |\n{versions}",
            "Licence": self.licence or _NO_LICENCE,
        }
        body = "\n\n".join(f"## {title}\n\n{content}" for title, content in sections.items())
        return f"{self._front_matter(name, env)}\n# {name}\n\nA policy trained with Recollect.\n\n{body}\n"

    def document(self) -> dict[str, Any]:
        """The complete config as files have it: names, numbers and lists."""
        document: dict[str, Any] = parse_value(dump_document(self.config.with_defaults().to_document()))
        return document

    def _front_matter(self, name: str, env: str) -> str:
        """What the Hugging Face hub reads of a card."""
        head: dict[str, Any] = {
            "library_name": "recollect",
            "pipeline_tag": _TASK,
            "tags": [_TASK, "deep-reinforcement-learning", "recollect", self.config.algo, env],
        }
        if self.licence is not None:
            head["license"] = self.licence
        if self.score is not None:
            result = {
                "task": {"type": _TASK, "name": _TASK},
                "dataset": {"name": env, "type": env},
                "metrics": [{"type": "mean_reward", "value": f"{self.score.mean:.2f}", "name": "mean_reward"}],
            }
            head["model-index"] = [{"name": name, "results": [result]}]
        return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n"


def score_of(run: RunDirectory) -> Score | None:
    """The newest evaluation that a run's metrics have."""
    rows = [row for row in read_rows(run.metrics_file) if row.get(metrics.EVAL_RETURN)]
    if not rows:
        return None
    names = (metrics.EVAL_RETURN, metrics.EVAL_STANDARD_ERROR, metrics.STEPS)
    mean, error, steps = (number_in(rows[-1], name, run.metrics_file) if rows[-1].get(name) else None for name in names)
    return None if mean is None else Score(mean, error, f"evaluation after {steps or 0:,.0f} steps")


def curve_of(run: RunDirectory) -> bytes | None:
    """Picture of a run's learning curve; None where it has no points."""
    try:
        if not len(read_returns(run).points.steps):
            return None
        return read_file(run.curve_file if run.curve_file.exists() else plot_run(run.path))
    except (OSError, StorageError):
        return None
