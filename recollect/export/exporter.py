"""Exports an agent's policy: to one file, or to a folder as the Hugging Face hub lays models out."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from recollect import __version__
from recollect.agent.algorithms.learning import LearningAlgorithm
from recollect.errors import ConfigError, StorageError
from recollect.export.card import ModelCard
from recollect.export.files import DESCRIPTION, ONNX, WEIGHTS, write_policy
from recollect.export.policy import ExportablePolicy
from recollect.export.spaces import space_to_document
from recollect.extras import import_extra
from recollect.files.disk import make_folder, write_file
from recollect.roles import Algorithm

FORMAT: Final = "recollect-policy"
# The files of a folder; that with the weights and its description go by the names that the hub knows.
MODEL: Final = "model"
CONFIG: Final = "config"
_POLICY: Final = f"policy{ONNX}"
_CARD: Final = "README.md"
_CURVE: Final = "curve.png"
_WHAT: Final = {
    _POLICY: "the policy for onnxruntime and others; `policy.json` says what goes in and comes out",
    f"{MODEL}{WEIGHTS}": "the weights, for `recollect.load_policy`",
    f"{CONFIG}{DESCRIPTION}": "spaces and config of the policy",
}


def export_policy(path: Path, algo: Algorithm, card: ModelCard, *, deterministic: bool = True) -> Path:
    """Write a policy and its model card.

    Parameters
    ----------
    path : Path
        A file that ends in `.onnx`, `.pt2` or `.safetensors`, or a folder: a path without suffix.
    algo : Algorithm
        Whose acting is exported.
    card : ModelCard
        What to say of it.
    deterministic : bool
        Take the most likely action; else noise is an input.
    """
    if not isinstance(algo, LearningAlgorithm):
        raise ConfigError(f"only what derives from LearningAlgorithm can be exported, got {type(algo).__name__}")
    policy = ExportablePolicy(algo, deterministic=deterministic)
    description = _describe(policy, card, deterministic)
    if not path.suffix:
        return _write_folder(path, policy, card, description)
    write_policy(path, policy, description)
    _write_card(card, path.with_suffix(".md"), f"{path.stem}-{_CURVE}")
    return path


def push_to_hub(repo_id: str, algo: Algorithm, card: ModelCard, **options: Any) -> str:
    """Export to a folder and upload it to the Hugging Face hub; returns the address of the commit.

    Parameters
    ----------
    repo_id : str
        Name of the repository, `user/name`; it is made if it is not there.
    algo : Algorithm
        Whose acting is exported.
    card : ModelCard
        What to say of it.
    **options
        `token` and `private`, as `huggingface_hub` takes them.
    """
    hub = import_extra("huggingface_hub", "hub", "Uploading to the Hugging Face hub needs")
    with tempfile.TemporaryDirectory() as folder:
        export_policy(Path(folder) / MODEL, algo, card)
        api = hub.HfApi(token=options.get("token"))
        api.create_repo(repo_id, private=options.get("private"), exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id, folder_path=Path(folder) / MODEL, commit_message="Policy trained with Recollect"
        )
    return str(commit)


def _describe(policy: ExportablePolicy, card: ModelCard, deterministic: bool) -> Mapping[str, Any]:
    return {
        "format": FORMAT,
        "recollect": __version__,
        "deterministic": deterministic,
        "observation_space": space_to_document(policy.actor.obs_space),
        "action_space": space_to_document(policy.actor.action_space),
        CONFIG: card.document(),
    }


def _write_folder(folder: Path, policy: ExportablePolicy, card: ModelCard, description: Mapping[str, Any]) -> Path:
    write_policy(folder / _POLICY, policy, description)
    write_policy(folder / f"{MODEL}{WEIGHTS}", policy, description)
    (folder / f"{MODEL}{DESCRIPTION}").rename(folder / f"{CONFIG}{DESCRIPTION}")
    _write_card(card, folder / _CARD, _CURVE, _WHAT)
    return folder


def _write_card(card: ModelCard, path: Path, curve_name: str, files: Mapping[str, str] | None = None) -> None:
    try:
        make_folder(path.parent)
        if card.curve is not None:
            write_file(path.with_name(curve_name), card.curve)
        write_file(path, card.text(curve_name if card.curve is not None else None, files).encode())
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}; name another place") from error
