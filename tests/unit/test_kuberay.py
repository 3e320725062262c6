"""The ready YAML for Kubernetes is what KubeRay takes, and its command is one that can be typed."""

import copy
import json
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from recollect.cli.commands.train import make_parser, resolve_options

FILE = Path(__file__).parents[2] / "docs" / "guide" / "kuberay.yaml"
SCHEMA = json.loads(Path(__file__).with_name("kuberay.schema.json").read_text())


def load_job() -> Any:
    job, _ = yaml.safe_load_all(FILE.read_text())
    return job


def test_the_job_follows_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(load_job(), SCHEMA)


@pytest.mark.parametrize(
    "damage",
    [
        lambda job: job.update(kind="RayJobs"),
        lambda job: job["spec"].pop("entrypoint"),
        lambda job: job["spec"]["rayClusterSpec"].update(workerGroups=[]),
        lambda job: job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"].update({"num-cpus": 0}),
        lambda job: job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0].update(replicas="4"),
    ],
)
def test_the_schema_finds_mistakes(damage: Any) -> None:
    job = copy.deepcopy(load_job())
    damage(job)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job, SCHEMA)


def test_its_command_can_be_typed_and_its_pods_hold_the_workers() -> None:
    spec = load_job()["spec"]
    *program, command = shlex.split(spec["entrypoint"])[:4]
    words = shlex.split(spec["entrypoint"])[4:]
    assert (program, command) == (["python", "-m", "recollect"], "train")
    options = resolve_options(make_parser().parse_args(words)).scheme_options
    (group,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    cores = int(group["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    assert options["num_col_workers"] * options["col_resources"]["num_cpus"] == group["replicas"] * cores
    assert options["ray_address"] == "auto"


def test_its_volume_is_claimed() -> None:
    job, claim = yaml.safe_load_all(FILE.read_text())
    (volume,) = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["volumes"]
    assert claim["kind"] == "PersistentVolumeClaim"
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
