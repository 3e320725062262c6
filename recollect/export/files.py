"""Writes a policy as ONNX, as a program of torch.export, or as plain weights, and a description beside it."""

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any, Final

import torch

from recollect.agent.actors.checkpoint import save_weights
from recollect.errors import ConfigError, StorageError, closest
from recollect.export.policy import BATCH, ExportablePolicy, Port
from recollect.extras import import_extra
from recollect.files.disk import make_folder, write_file

ONNX: Final = ".onnx"
PT2: Final = ".pt2"
WEIGHTS: Final = ".safetensors"
DESCRIPTION: Final = ".json"
_EXTRA: Final = "export"


def write_policy(path: Path, policy: ExportablePolicy, description: Mapping[str, Any]) -> Path:
    """Write a policy in the form that the suffix of a path names, and its description beside it as JSON.

    Parameters
    ----------
    path : Path
        Ends in `.onnx`, `.pt2` or `.safetensors`.
    policy : ExportablePolicy
        What to write.
    description : mapping
        What to say of it, beside its inputs and outputs.
    """
    write = WRITERS.get(path.suffix)
    if write is None:
        raise ConfigError(
            f"a policy is exported to a file that ends in {', '.join(WRITERS)}, or to a folder, got {path.name!r}; "
            f"{closest(path.suffix, WRITERS, 'name one of these')}"
        )
    try:
        make_folder(path.parent)
        write(path, policy)
        write_json(path.with_suffix(DESCRIPTION), describe(policy) | dict(description))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}; name another place") from error
    return path


def describe(policy: ExportablePolicy) -> dict[str, Any]:
    """What goes into a policy and comes out of it."""
    ports = {"inputs": policy.inputs, "outputs": policy.outputs}
    return {kind: [port.to_document() for port in found] for kind, found in ports.items()}


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as JSON."""
    write_file(path, (json.dumps(document, indent=1) + "\n").encode())


def _write_onnx(path: Path, policy: ExportablePolicy) -> None:
    for module in ("onnx", "onnxscript"):
        import_extra(module, _EXTRA, "Exporting to ONNX needs")
    program = _traced(policy)
    names = [[port.name for port in ports] for ports in (policy.inputs, policy.outputs)]
    with _quiet():
        found: Any = torch.onnx.export(
            program, (), None, input_names=names[0], output_names=names[1], dynamo=True, verbose=False
        )
    model = found.model_proto
    _name_batch(model.graph, policy.inputs + policy.outputs)
    write_file(path, model.SerializeToString())


def _write_pt2(path: Path, policy: ExportablePolicy) -> None:
    buffer = io.BytesIO()
    with _quiet():
        torch.export.save(_traced(policy), buffer)
    write_file(path, buffer.getvalue())


def _write_weights(path: Path, policy: ExportablePolicy) -> None:
    save_weights(policy.actor, path)


WRITERS: Final[Mapping[str, Callable[[Path, ExportablePolicy], None]]] = {
    ONNX: _write_onnx,
    PT2: _write_pt2,
    WEIGHTS: _write_weights,
}


def _traced(policy: ExportablePolicy) -> torch.export.ExportedProgram:
    """The policy as a graph of operators, for batches of any size."""
    batch = torch.export.Dim(BATCH, min=1)
    shapes = tuple({axis: batch for axis, length in enumerate(port.shape) if length is None} for port in policy.inputs)
    try:
        with torch.no_grad(), _quiet(), policy.acting():
            return torch.export.export(policy, policy.examples(), dynamic_shapes=(shapes,), strict=False)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ConfigError(
            "the agent's acting cannot be traced by torch.export: "
            f"{str(error).strip().splitlines()[0]}; networks of your own must not decide by values of tensors nor take "
            "the batch size for a number, and exploration that does is exported with deterministic=True"
        ) from error


def _name_batch(graph: Any, ports: list[Port]) -> None:
    """Call the symbolic axis of every tensor what people call it."""
    values = (*graph.input, *graph.output, *graph.value_info)
    shapes = [value.type.tensor_type.shape.dim for value in values]
    own = {dim.dim_param for shape in shapes[: len(ports)] for dim in shape if dim.dim_param}
    for dim in (dim for shape in shapes for dim in shape):
        if dim.dim_param in own:
            dim.dim_param = BATCH


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep exporters from telling what they did not do; what fails is raised."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
