"""The same envs sampled by RLlib's env runners; a process of its own, because RLlib has pins of its own.

python -m benchmarks.scaling_rllib 1 2 4 --seconds 3    prints steps per second by mode and number as JSON
"""

import argparse
import json
import logging
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.sleeping_env import SleepingEnv

ROOT = Path(__file__).resolve().parent.parent
INSTALL = 'pip install "ray[rllib]" torch'
_TIMEOUT_S = 1800
# What a runner has on its way at most, as a worker of `AsyncCollector` has.
_NUM_AHEAD = 2

Rates = dict[str, dict[int, float]]


def rates_elsewhere(python: str, numbers: list[int], steps: int, sleep_s: float, seconds: float) -> Rates | str:
    """Measure in another interpreter; returns why not, where RLlib is not to be had."""
    if subprocess.run([python, "-c", "import ray.rllib"], capture_output=True, check=False).returncode:
        return f"RLlib is not installed; {INSTALL} in an environment of its own, and name it with --rllib-python"
    words = [*map(str, numbers), "--steps", str(steps), "--sleep-s", str(sleep_s), "--seconds", str(seconds)]
    run = subprocess.run(
        [python, "-m", "benchmarks.scaling_rllib", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if run.returncode:
        return f"RLlib's env runners failed: {(run.stderr.strip().splitlines() or ['no message'])[-1]}"
    found = json.loads(run.stdout.strip().splitlines()[-1])
    return {mode: {int(number): rate for number, rate in rates.items()} for mode, rates in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("numbers", type=int, nargs="+")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--sleep-s", type=float, default=0.01)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    rates: Rates = {"sync": {}, "async": {}}
    for number in options.numbers:
        runners = _make_runners(number, options.steps, options.sleep_s)
        rates["sync"][number] = _sync_rate(runners, options.seconds)
        rates["async"][number] = _async_rate(runners, options.seconds)
        runners.stop()
    print(json.dumps(rates))


def _make_runners(number: int, steps: int, sleep_s: float) -> Any:
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.env.env_runner_group import EnvRunnerGroup
    from ray.tune.registry import register_env

    if not ray.is_initialized():
        ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    register_env("sleeping", lambda config: SleepingEnv(config["sleep_s"]))
    share = ray.cluster_resources()["CPU"] / (number + 1)
    config: Any = PPOConfig()
    config = (
        config.environment("sleeping", env_config={"sleep_s": sleep_s})
        .env_runners(
            num_env_runners=number,
            num_cpus_per_env_runner=min(1.0, int(share * 1e4) / 1e4),
            rollout_fragment_length=steps,
            max_requests_in_flight_per_env_runner=_NUM_AHEAD,
        )
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16]))
    )
    return EnvRunnerGroup(config=config, local_env_runner=False)


def _sync_rate(runners: Any, seconds: float) -> float:
    """All sample, and all are waited for."""
    _num_steps(runners.foreach_env_runner("sample", local_env_runner=False))
    begin, num_steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        num_steps += _num_steps(runners.foreach_env_runner("sample", local_env_runner=False))
    return num_steps / (time.perf_counter() - begin)


def _async_rate(runners: Any, seconds: float) -> float:
    """Each is asked again once it has answered."""

    def fetch() -> int:
        ready = runners.foreach_env_runner_async_fetch_ready("sample", tag="sample", timeout_seconds=0.02)
        return _num_steps(ready)

    warm_until = time.perf_counter() + seconds / 2
    while time.perf_counter() < warm_until:
        fetch()
    begin, num_steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        num_steps += fetch()
    return num_steps / (time.perf_counter() - begin)


def _num_steps(samples: list[list[Any]]) -> int:
    """Steps of all episodes, or pieces of them, that runners brought."""
    return sum(len(episode) for episodes in samples for episode in episodes)


if __name__ == "__main__":
    main()
