"""CleanRL's own DQN script, before and after the change that the guide shows."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guide" / "switch.md"
# The last release; it declares older versions of Python, which its scripts do not need.
RELEASE = "cleanrl==1.2.0"
SCRIPT = "cleanrl/dqn.py"
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The script was written for Gymnasium before 1.0, whose vector environments reset at once and had these infos.
# The time of its loop is that since the first reset, without imports.
PRELUDE = """
import atexit
import time

import gymnasium as gym


class OldVectorEnv(gym.vector.SyncVectorEnv):
    def __init__(self, env_fns):
        super().__init__(env_fns, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)

    def reset(self, **options):
        began = time.process_time()
        atexit.register(lambda: print(f"loop_cpu_s={time.process_time() - began}"))
        return super().reset(**options)

    def step(self, actions):
        *outcome, infos = super().step(actions)
        if "final_obs" in infos:
            episodes = infos.pop("final_info")["episode"]
            ended = infos["_final_observation"] = infos.pop("_final_obs")
            infos["final_observation"] = infos.pop("final_obs")
            infos["final_info"] = [
                {"episode": {name: episodes[name][env] for name in "rl"}} if is_last else {}
                for env, is_last in enumerate(ended)
            ]
        return *outcome, infos


gym.vector.SyncVectorEnv = OldVectorEnv
"""


def download(folder: Path) -> str:
    """Return the script as it was released."""
    options = ["--quiet", "--no-deps", "--ignore-requires-python", "--disable-pip-version-check", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, RELEASE], check=True)
    (wheel,) = folder.glob("cleanrl-*.whl")
    with zipfile.ZipFile(wheel) as files:
        return files.read(SCRIPT).decode()


def diffs() -> list[str]:
    """Changes that the guide shows: the plain buffer, then priorities."""
    return [diff for diff in DIFF.findall(PAGE.read_text()) if "recollect.adapters.cleanrl" in diff]


def with_change(script: str, diff: str) -> str:
    """The script with every line that the diff takes away replaced by those that it puts in its place."""
    for old, new in re.findall(r"^-(.*\n)((?:\+.*\n)+)", diff, re.MULTILINE):
        if script.count(old) != 1:
            raise ValueError(f"the script has the line {script.count(old)} times: {old.strip()}")
        script = script.replace(old, re.sub(r"^\+", "", new, flags=re.MULTILINE))
    return script


def run(script: str, folder: Path, *options: str) -> tuple[list[float], float]:
    """Run a script in a folder; returns the episodes' returns, and the processor time of its loop."""
    path = folder / "dqn.py"
    path.write_text(PRELUDE + script)
    command = [sys.executable, "-W", "ignore", str(path), *options]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise RuntimeError(outcome.stderr)
    returns = [float(value) for value in re.findall(r"episodic_return=\[?([\d.]+)", outcome.stdout)]
    return returns, float(re.findall(r"loop_cpu_s=([\d.]+)", outcome.stdout)[0])
