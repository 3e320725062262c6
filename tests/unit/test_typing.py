"""Users' type checkers see the types of the package in the environment that `make` builds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
from gymnasium.spaces import Box
from recollect import SAC, Agent, OffPolicyActor, PERBuffer
from recollect.learner import Learner

def train(learner: Learner) -> None:
    learner.step(1)

reveal_type(Agent("sac", "Pendulum-v1").learn(100))
reveal_type(PERBuffer.standalone(100, alpha=0.6).num_bytes)

sac = SAC.create_factory(num_critics=5, optimiser="adamw", gamma="high", polcy_lr=1e-3)
OffPolicyActor.create_factory(Box(-1, 1), Box(-1, 1), sac, seed="one", hidden_sizes=(64, 64))
"""
EXPECTED = """\
script.py:7: error: Too many arguments for "step" of "Learner"  [call-arg]
script.py:9: note: Revealed type is "recollect.api.Agent"
script.py:10: note: Revealed type is "int"
script.py:12: error: Unexpected keyword argument "polcy_lr"; did you mean "policy_lr"?  [call-arg]
script.py:12: error: Argument "gamma" has incompatible type "str"; expected "float"  [arg-type]
script.py:13: error: Argument "seed" to "__call__" of "Creates" has incompatible type "str"; expected "int"  [arg-type]
Found 4 errors in 1 file (checked 1 source file)
"""


@pytest.mark.slow
@pytest.mark.xdist_group("mypy")  # who share a cache take turns
def test_a_script_outside_of_the_checkout_is_checked(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    # Found as installed, not by a path that the tests were started with.
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    # To read PyTorch takes a while, so the second time it comes from the cache.
    cache = str(ROOT / ".mypy_cache" / "users")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == EXPECTED, done.stderr
