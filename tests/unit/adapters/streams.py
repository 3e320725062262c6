"""Random streams of steps whose observations say which step they are, and what a batch of them must hold."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Step:
    obs: float
    next_obs: float
    action: float
    reward: float
    terminated: bool
    truncated: bool


def make_stream(seed: int, num_steps: int, num_envs: int) -> list[list[Step]]:
    """Steps `[num_steps][num_envs]`; no observation comes twice, but as what one step led to and the next starts at."""
    rng = np.random.default_rng(seed)
    names = iter(range(1, 10 * num_steps * num_envs))
    at = [float(next(names)) for _ in range(num_envs)]
    stream = []
    for _ in range(num_steps):
        steps = []
        for env in range(num_envs):
            to = float(next(names))
            kind = rng.random()
            terminated, truncated = kind < 0.15, 0.15 <= kind < 0.3
            steps.append(Step(at[env], to, rng.normal(), rng.normal(), bool(terminated), bool(truncated)))
            at[env] = float(next(names)) if terminated or truncated else to
        stream.append(steps)
    return stream


def window_of(stream: list[list[Step]], obs: float, n_step: int) -> list[Step]:
    """The steps of the window that starts from an observation."""
    for begin, steps in enumerate(stream):
        for env, step in enumerate(steps):
            if step.obs == obs:
                window = []
                for row in stream[begin : begin + n_step]:
                    window.append(row[env])
                    if row[env].terminated or row[env].truncated:
                        break
                return window
    raise AssertionError(f"no step starts from {obs}")


def column(steps: list[Step], name: str, dtype: type = np.float32) -> np.ndarray:
    """One field of the steps of all envs, `[num_envs]`."""
    return np.array([getattr(step, name) for step in steps], dtype)
