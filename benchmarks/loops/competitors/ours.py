"""Recollect: the agent as `recollect.Agent` builds it, trained by `Learner`."""

from collections.abc import Mapping
from typing import Any

from benchmarks.loops import tasks
from benchmarks.loops.frames import STACK, make_frames
from benchmarks.loops.tasks import Task
from benchmarks.loops.watch import Watch

_FOREVER = 10**12


def run(task: Task, watch: Watch, overrides: Mapping[str, Any]) -> None:
    """Train until the watch stops it."""
    from recollect.learner import Learner

    agent = build(task, overrides)
    actor = agent.scheme.actor
    trained = [*actor.policy_parameters(), *actor.critic_parameters()]
    learner = Learner(agent.scheme, target_steps=_FOREVER)
    watch.ready(updating(agent), sum(weight.numel() for weight in trained))
    while not learner.done():
        learner.step()
        watch.tick(learner.num_steps)


def build(task: Task, overrides: Mapping[str, Any]) -> Any:
    """Build the agent of a task."""
    from recollect import Agent

    env = make_frames if task.has_frames else task.env
    return Agent(task.algorithm, env, preset="none", **options_of(task) | dict(overrides))


def updating(agent: Any) -> Any:
    """Return a function that makes the updates of one stage with what is stored."""
    worker, algo = agent.scheme.gradients, agent.scheme.algo

    def update() -> int:
        num_updates = 0
        for _ in worker.compute_gradients():
            algo.apply_gradients()
            num_updates += 1
        return num_updates

    return update


def options_of(task: Task) -> dict[str, Any]:
    """Return the options of the agent's parts, by path."""
    shared: dict[str, Any] = {
        "seed": tasks.SEED,
        "device": "cpu",
        "num_envs": task.num_envs,
        "actor.hidden_sizes": list(task.hidden),
        "actor.activation": task.activation,
        "algo.gamma": task.gamma,
        "algo.update_every": task.update_every,
        "algo.num_epochs": task.num_epochs,
        "algo.num_mini_batch": task.num_mini_batch,
        "algo.start_steps": task.start_steps,
        "algo.test_every": 0,
    }
    frames = {"storage.frame_stack": STACK} if task.has_frames else {}
    return shared | frames | (_rollout_options(task) if task.is_on_policy else _replay_options(task))


def _rollout_options(task: Task) -> dict[str, Any]:
    return {
        "algo.lr": task.learning_rate,
        "algo.clip": tasks.CLIP,
        "algo.value_weight": tasks.VALUE_WEIGHT,
        "algo.max_grad_norm": tasks.ROLLOUT_GRAD_NORM,
        "storage": "gae",
        "storage.gae_lambda": tasks.GAE_LAMBDA,
    }


def _replay_options(task: Task) -> dict[str, Any]:
    shared = {
        "algo.critic_lr": task.learning_rate,
        "algo.mini_batch_size": task.batch,
        "storage": "replay",
        "storage.size": task.buffer,
    }
    if task.algorithm == "ddqn":
        return shared | {
            "algo.tau": 1.0,
            "algo.target_update_every": tasks.TARGET_EVERY,
            "algo.initial_epsilon": tasks.EPSILON,
            "algo.final_epsilon": tasks.EPSILON,
            "algo.max_grad_norm": tasks.MAX_GRAD_NORM,
        }
    shared |= {"algo.policy_lr": task.learning_rate, "algo.tau": tasks.TAU}
    if task.algorithm == "td3":
        return shared | {
            "algo.policy_delay": tasks.POLICY_DELAY,
            "algo.noise_std": tasks.ACTION_NOISE,
            "algo.target_noise_std": tasks.TARGET_NOISE,
            "algo.target_noise_limit": tasks.TARGET_NOISE_LIMIT,
        }
    return shared | {"algo.temperature_lr": task.learning_rate}
