"""Parts of one's own train on Ray, in collectors and gradient workers, whichever way they are named."""

import subprocess
import sys
from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor, nn

import recollect as rc
from recollect import keys
from tests.waiting import PATIENCE_S

HERE = __name__
RESOURCES = {"num_cpus": 0.1}
OPTIONS: dict[str, Any] = {
    "preset": "none",
    "seed": 1,
    "start_steps": 20,
    "update_every": 10,
    "num_mini_batch": 2,
    "mini_batch_size": 8,
    "test_every": 0,
    "hidden_sizes": [8],
    "num_test_envs": 1,
    "num_col_workers": 1,
    "num_grad_workers": 1,
    "col_resources": RESOURCES,
    "grad_resources": RESOURCES,
}


class OwnNet(nn.Module):
    """Features of an odd width, by which they are recognised."""

    def __init__(self, obs_space: gym.Space[Any]) -> None:
        super().__init__()
        self.out_features = 7
        self.layer = nn.Linear(4, 7)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.layer(obs))


class OwnDQN(rc.DDQN):
    """Reports that it was here."""

    title: ClassVar[str] = "OwnDQN"

    def compute_gradients(self, *args: Any, **options: Any) -> Any:
        gradients, info = super().compute_gradients(*args, **options)
        info[keys.ALGORITHM]["own"] = 3.0
        return gradients, info


class OwnBuffer(rc.PERBuffer):
    """Reports that it was here, too."""

    def after_gradients(self, batch: Any, info: Any) -> Any:
        info = super().after_gradients(batch, info)
        info[keys.STORAGE]["own"] = 5.0
        return info


def short_pole(max_steps: int) -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", max_episode_steps=max_steps)


def train(algo: str, storage: str, features: str, **options: Any) -> None:
    """Train with own parts in a collector and a gradient worker, and see that they were there."""
    with rc.Agent(
        algo, f"{HERE}:short_pole", storage, alpha=0.6, features=features, **{"env.max_steps": 5}, **OPTIONS, **options
    ) as agent:
        agent.learn(80)
        assert agent.num_steps >= 80
        assert agent.metrics["algorithm/own"] == 3.0
        assert agent.metrics["storage/own"] == 5.0
        assert agent.metrics["train/length"] <= 5
        assert isinstance(agent.scheme.actor.body.features, OwnNet)
        assert max(agent.evaluate(2).lengths) <= 5


SCRIPT = f"""
import sys
import recollect as rc
from {HERE} import OwnBuffer, OwnNet, train

rc.register("algorithm", "mine", "{HERE}:OwnDQN")
rc.register("storage", "mine", OwnBuffer)
rc.register("features", "mine", OwnNet)
train("mine", "mine", "mine", ray_address=sys.argv[1])
"""


def test_modules_lead_workers_to_own_parts(ray_cluster: Any) -> None:
    train(f"{HERE}:OwnDQN", f"{HERE}:OwnBuffer", f"{HERE}:OwnNet")


def test_workers_need_not_know_registered_names(ray_cluster: Any) -> None:
    # In a process of its own: what is registered stays.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ray_cluster.address], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
