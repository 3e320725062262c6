"""What leaves: files with a card, a folder for the hub, weights that load again, and serving without torch."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import huggingface_hub
import numpy as np
import pytest
import yaml

import recollect as rc
from recollect.cli import main
from recollect.errors import ConfigError, SchemaError
from recollect.export.spaces import space_from_document, space_to_document
from recollect.extras import import_extra

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "export.md"
SERVE = Path(__file__).parents[3] / "examples" / "serving" / "serve_onnx.py"
# Runs a script in a process in which neither torch nor recollect can be imported.
WITHOUT = """
import runpy, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "recollect"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Refuse())
script = sys.argv.pop(1)
del sys.argv[0]
sys.argv.insert(0, script)
runpy.run_path(script, run_name="__main__")
assert not {"torch", "recollect"} & set(sys.modules)
"""
# In one process, so that what they share is made once.
pytestmark = pytest.mark.xdist_group("export")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    agent = rc.Agent("sac", "Pendulum-v1", seed=1, hidden_sizes=(8,), memory="gru", memory_size=4, start_steps=30)
    agent.learn(450, log_dir=folder, progress=False)
    agent.close()
    return folder


@pytest.fixture(scope="module")
def agent(run_folder: Path) -> Iterator[rc.Agent]:
    with rc.Agent.load(run_folder) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def policy(agent: rc.Agent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent.export(tmp_path_factory.mktemp("export") / "policy.onnx", licence="mit")


def check_serving(command: list[str], policy: Path, agent: rc.Agent) -> None:
    rows = np.random.default_rng(1).uniform(-1, 1, (4, 3)).astype(np.float32)
    lines = "".join(json.dumps(row.tolist()) + "\n" for row in rows)
    done = subprocess.run([*command, str(policy)], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    agent.begin_episode()
    expected = [agent.predict(row) for row in rows]
    np.testing.assert_allclose([json.loads(line) for line in done.stdout.splitlines()], expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_example_serves_where_torch_cannot_be_imported(policy: Path, agent: rc.Agent) -> None:
    check_serving([sys.executable, "-c", WITHOUT, str(SERVE)], policy, agent)


@pytest.mark.long
@pytest.mark.skipif("RECOLLECT_LONG" not in os.environ, reason="makes an environment")
def test_the_example_serves_in_an_environment_without_torch(policy: Path, agent: rc.Agent, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "onnxruntime"], check=True)
    assert subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 1
    check_serving([python, str(SERVE)], policy, agent)


def test_a_card_and_a_description_lie_beside_the_file(policy: Path) -> None:
    card = policy.with_suffix(".md").read_text()
    for section in ("Task", "Score", "Curve", "Config", "Versions", "Licence"):
        assert f"## {section}\n" in card
    assert "Pendulum-v1" in card
    assert "\nmit\n" in card
    assert (policy.parent / "policy-curve.png").read_bytes().startswith(b"\x89PNG")
    description = json.loads(policy.with_suffix(".json").read_text())
    assert [port["name"] for port in description["inputs"]] == ["observation", "state"]
    assert [port["shape"] for port in description["outputs"]] == [["batch", 1], ["batch", 4]]


def test_an_evaluation_is_the_score_until_more_is_learned(agent: rc.Agent, tmp_path: Path) -> None:
    found = agent.evaluate(episodes=2)
    card = agent.export(tmp_path / "policy.safetensors").with_suffix(".md").read_text()
    assert f"{found.mean:,.1f} ± {found.standard_error:,.1f} (2 episodes without exploration)" in card
    assert "ask whoever made this policy" in card
    with rc.Agent("sac", "Pendulum-v1", hidden_sizes=(8,), start_steps=10) as other:
        other.evaluate(episodes=2)
        other.learn(20, progress=False)
        assert "Not evaluated." in other.export(tmp_path / "other.safetensors").with_suffix(".md").read_text()


def test_weights_load_without_the_environment_and_act_the_same(agent: rc.Agent, tmp_path: Path) -> None:
    path = agent.export(tmp_path / "policy.safetensors")
    loaded = rc.load_policy(path)
    agent.begin_episode()
    for row in np.random.default_rng(2).uniform(-1, 1, (3, 3)):
        assert loaded.predict(row) == agent.predict(row)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is asked of the hub, in whose place stands the folder `hub`."""
    asked: list[dict[str, Any]] = []

    def stand_in(name: str, result: Any) -> None:
        signature = inspect.signature(getattr(huggingface_hub.HfApi, name))

        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments  # as the hub takes it
            asked.append({key: value for key, value in given.items() if key != "self"})
            return result(given)

        monkeypatch.setattr(huggingface_hub.HfApi, name, call)

    stand_in("create_repo", lambda given: None)
    stand_in("upload_folder", lambda given: shutil.copytree(given["folder_path"], tmp_path / "hub"))
    return asked


@pytest.mark.slow
def test_uploads_a_folder_that_loads_again(agent: rc.Agent, tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    agent.push_to_hub("me/pendulum", licence="mit", private=True)
    assert asked[0] == {"repo_id": "me/pendulum", "private": True, "exist_ok": True}
    assert asked[1]["repo_id"] == "me/pendulum"
    hub = tmp_path / "hub"
    names = {path.name for path in hub.iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors", "policy.onnx", "policy.json", "curve.png"}
    head = yaml.safe_load((hub / "README.md").read_text().split("---")[1])
    assert (head["library_name"], head["license"]) == ("recollect", "mit")
    agent.begin_episode()
    assert rc.load_policy(hub).predict([1.0, 0.0, 0.0]) == agent.predict([1.0, 0.0, 0.0])


@pytest.mark.slow
def test_the_guide_runs_as_it_stands(
    agent: rc.Agent, tmp_path: Path, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agent.export("policy.safetensors")
    names = {"rc": rc, "agent": agent, "obs": [1.0, 0.0, 0.0]}
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 2
    assert len(asked) == 2


def test_the_command_line_exports(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run_folder), "--to", str(tmp_path / "policy.pt2"), "--noise"]) == 0
    assert str(tmp_path / "policy.pt2") in capsys.readouterr().out
    inputs = json.loads((tmp_path / "policy.json").read_text())["inputs"]
    assert inputs[-1] == {"name": "noise", "dtype": "float32", "shape": ["batch", 1], "distribution": "normal"}


def test_other_suffixes_are_refused(agent: rc.Agent, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.onnx, \.pt2, \.safetensors"):
        agent.export(tmp_path / "policy.pth")


@pytest.mark.parametrize(
    ("options", "message"), [({"noise": "ou"}, "remembers its last steps"), ({"noise": "none"}, "without chance")]
)
def test_exploration_that_no_noise_explains_is_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with (
        rc.Agent("ddpg", "Pendulum-v1", hidden_sizes=(8,), **options) as ddpg,
        pytest.raises(ConfigError, match=message),
    ):
        ddpg.export(tmp_path / "policy.onnx", deterministic=False)


def test_choices_by_values_are_refused_with_noise(tmp_path: Path) -> None:
    with (
        rc.Agent("ddqn", "CartPole-v1", hidden_sizes=(8,)) as ddqn,
        pytest.raises(ConfigError, match="deterministic=True"),
    ):
        ddqn.export(tmp_path / "policy.onnx", deterministic=False)


def test_code_that_a_description_names_is_not_imported(agent: rc.Agent, tmp_path: Path) -> None:
    path = agent.export(tmp_path / "policy.safetensors")
    file = path.with_suffix(".json")
    document = json.loads(file.read_text())
    document["config"]["actor"]["features"] = "antigravity:Net"
    file.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="trust=True"):
        rc.load_policy(path)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "recollect-policy", "config": []}', "[" * 100_000])
def test_what_describes_no_policy_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "policy.json").write_text(content)
    with pytest.raises(SchemaError):
        rc.load_policy(tmp_path / "policy.safetensors")


SPACES = [
    gym.spaces.Box(-np.inf, np.inf, (2,), np.float64),
    gym.spaces.Box(np.array([0, 1], np.int16), np.array([5, 6], np.int16)),
    gym.spaces.Dict(
        {"a": gym.spaces.Discrete(3, start=-1), "b": gym.spaces.Dict({"c": gym.spaces.MultiBinary([2, 2])})}
    ),
    gym.spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]]),
    gym.spaces.MultiDiscrete([2, 3], dtype=np.int32),
    gym.spaces.Discrete(3, dtype=np.int32),
    gym.spaces.MultiBinary(4),
    gym.spaces.Box(-(2**63), 2**63 - 1, (2,), np.int64),
    gym.spaces.Box(0, 2**64 - 1, (1,), np.uint64),
    gym.spaces.Box(0, 1, (2,), np.bool_),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_survive_a_file(space: gym.Space[Any]) -> None:
    found = space_from_document(json.loads(json.dumps(space_to_document(space))))
    assert found == space
    assert found.dtype == space.dtype


@pytest.mark.parametrize(
    "document",
    [None, {}, {"kind": "Box"}, {"kind": "Box", "shape": [2**40], "dtype": "float32", "low": 0, "high": 1},
     {"kind": "Box", "shape": [1], "dtype": "object", "low": 0, "high": 1}, {"kind": "Discrete", "n": 0, "start": 0},
     {"kind": "Discrete", "n": 2, "start": 0, "dtype": "float32"}, {"kind": "MultiBinary", "shape": -1},
     {"kind": "Box", "shape": [1], "dtype": "uint8", "low": 0, "high": 256}],
)  # fmt: skip
def test_other_documents_are_no_spaces(document: Any) -> None:
    with pytest.raises(SchemaError):
        space_from_document(document)


def test_a_missing_library_names_its_extra() -> None:
    with pytest.raises(ConfigError, match=r"needs the extra 'export': pip install \"recollect\[export\]\""):
        import_extra("no_such_library", "export", "Exporting to ONNX needs")
