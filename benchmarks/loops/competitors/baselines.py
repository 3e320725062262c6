"""Stable-Baselines3, and SBX, which is the same interface over JAX.

Their DQN is not double: it takes the largest target value, one forward pass less than the others make.
SBX does not clip gradients in DQN, and trains PPO's policy and value function one after the other.
"""

from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any

from benchmarks.loops import tasks
from benchmarks.loops.frames import make_env
from benchmarks.loops.tasks import Task
from benchmarks.loops.watch import Watch

_NAMES = {"sac": "SAC", "td3": "TD3", "ddqn": "DQN", "ppo": "PPO"}


def run_sb3(task: Task, watch: Watch, overrides: Mapping[str, Any]) -> None:
    """Train with Stable-Baselines3 until the watch stops it."""
    import stable_baselines3
    import torch

    activation = torch.nn.Tanh if task.activation == "tanh" else torch.nn.ReLU
    model = _build(stable_baselines3, task, {"device": "cpu"}, activation)
    trained = [parameter for parameter in model.policy.parameters() if parameter.requires_grad]
    targets = [part for name, part in model.policy.named_children() if name.endswith("_target")]
    num_targets = sum(weight.numel() for part in targets for weight in part.parameters())
    note = "DQN, not double" if task.algorithm == "ddqn" else ""
    _learn(model, task, watch, sum(weight.numel() for weight in trained) - num_targets, note)


def run_sbx(task: Task, watch: Watch, overrides: Mapping[str, Any]) -> None:
    """Train with SBX until the watch stops it."""
    import jax
    import sbx
    from flax import linen

    activation = linen.tanh if task.activation == "tanh" else linen.relu
    model = _build(sbx, task, {}, activation)
    states = [getattr(model.policy, name, None) for name in ("actor_state", "qf_state", "vf_state")]
    leaves = [leaf for state in states if state is not None for leaf in jax.tree.leaves(state.params)]
    notes = {
        "ddqn": "DQN, neither double nor clipped",
        "ppo": "a CNN each for policy and critic" if task.has_frames else "",
    }
    _learn(model, task, watch, sum(leaf.size for leaf in leaves), notes.get(task.algorithm, ""))


def _build(library: ModuleType, task: Task, options: dict[str, Any], activation: Any) -> Any:
    from stable_baselines3.common.env_util import make_vec_env

    env = make_vec_env(partial(make_env, task), n_envs=task.num_envs, seed=tasks.SEED)
    policy = "CnnPolicy" if task.has_frames else "MlpPolicy"
    is_jax = library.__name__ == "sbx"
    # SBX's DQN takes the width behind its CNN from here.
    layers = [512] if is_jax and task.has_frames and not task.is_on_policy else list(task.hidden)
    return getattr(library, _NAMES[task.algorithm])(
        policy,
        env,
        seed=tasks.SEED,
        learning_rate=task.learning_rate,
        batch_size=task.batch,
        gamma=task.gamma,
        policy_kwargs={"activation_fn": activation, "net_arch": layers},
        **_rollout_options(task) if task.is_on_policy else _replay_options(task, is_jax),
        **options,
    )


def _rollout_options(task: Task) -> dict[str, Any]:
    return {
        "n_steps": task.update_every,
        "n_epochs": task.num_epochs,
        "gae_lambda": tasks.GAE_LAMBDA,
        "clip_range": tasks.CLIP,
        "ent_coef": 0.0,
        "vf_coef": tasks.VALUE_WEIGHT,
        "max_grad_norm": tasks.ROLLOUT_GRAD_NORM,
    }


def _replay_options(task: Task, is_jax: bool) -> dict[str, Any]:
    shared = {
        "buffer_size": task.buffer,
        "learning_starts": task.start_steps,
        "train_freq": task.update_every,
        "gradient_steps": 1,
    }
    if task.algorithm == "ddqn":
        clipped = {} if is_jax else {"max_grad_norm": tasks.MAX_GRAD_NORM}
        return (
            shared
            | clipped
            | {
                "tau": 1.0,
                "target_update_interval": tasks.TARGET_EVERY * task.update_every,
                "exploration_initial_eps": tasks.EPSILON,
                "exploration_final_eps": tasks.EPSILON,
            }
        )
    if task.algorithm == "td3":
        return shared | {"tau": tasks.TAU} | _td3_options(task)
    return shared | {"tau": tasks.TAU, "ent_coef": "auto"}


def _td3_options(task: Task) -> dict[str, Any]:
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise

    shape = make_env(task).action_space.shape or ()
    return {
        "action_noise": NormalActionNoise(np.zeros(shape), np.full(shape, tasks.ACTION_NOISE)),
        "policy_delay": tasks.POLICY_DELAY,
        "target_policy_noise": tasks.TARGET_NOISE,
        "target_noise_clip": tasks.TARGET_NOISE_LIMIT,
    }


def _learn(model: Any, task: Task, watch: Watch, num_parameters: int, note: str) -> None:
    from stable_baselines3.common.callbacks import BaseCallback

    def update() -> int:
        if task.is_on_policy:
            model.train()
        else:
            model.train(batch_size=task.batch, gradient_steps=1)
        return task.num_epochs * task.num_mini_batch

    class Ticking(BaseCallback):
        """Ticks when a rollout is complete: an update stage later, the next one is."""

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            watch.tick(self.num_timesteps)

    watch.ready(update, num_parameters, note)
    model.learn(10**9, callback=Ticking())
