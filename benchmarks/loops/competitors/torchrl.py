"""TorchRL: collector, replay buffer, loss module and target updater, put together as in its own examples.

Frames are scaled in the network and not by a transform, so that they are stored as bytes.
"""

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.loops import tasks
from benchmarks.loops.frames import make_env
from benchmarks.loops.tasks import Task
from benchmarks.loops.watch import Watch

_FEATURES = "features"


def run(task: Task, watch: Watch, overrides: Mapping[str, Any]) -> None:
    """Train until the watch stops it."""
    import torch

    torch.manual_seed(tasks.SEED)
    if task.is_on_policy:
        _run_ppo(task, watch)
    else:
        _run_replay(task, watch)


def _run_replay(task: Task, watch: Watch) -> None:
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

    env = _make_env(task)
    policy, loss_module, updater = _BUILDERS[task.algorithm](task, env)
    optimiser = _optimiser(task, loss_module)
    clipped = list(loss_module.parameters()) if task.algorithm == "ddqn" else []
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(task.buffer), batch_size=task.batch)
    # TD3 trains its policy, and moves its targets, less often than its critics.
    delay = tasks.POLICY_DELAY if task.algorithm == "td3" else 1
    updates = itertools.count(1)

    def update() -> int:
        batch = replay.sample()
        is_due = next(updates) % delay == 0
        if task.algorithm == "td3":
            loss_module.value_loss(batch)[0].backward()
            if is_due:
                loss_module.actor_loss(batch)[0].backward()
        else:
            _sum(loss_module(batch)).backward()
        _step(optimiser, clipped, tasks.MAX_GRAD_NORM)
        if is_due:
            updater.step()
        return 1

    watch.ready(update, _num_parameters(loss_module))
    collector = Collector(
        env, policy, frames_per_batch=task.update_every, total_frames=-1, init_random_frames=task.start_steps
    )
    num_steps = 0
    for data in collector:
        replay.extend(data.reshape(-1))
        num_steps += data.numel()
        if num_steps > task.start_steps:
            update()
        watch.tick(num_steps)


def _run_ppo(task: Task, watch: Watch) -> None:
    import torch
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    env = _make_env(task)
    actor, critic = _ppo_networks(task, env)
    loss_module = ClipPPOLoss(
        actor_network=actor,
        critic_network=critic,
        clip_epsilon=tasks.CLIP,
        entropy_bonus=False,
        critic_coeff=tasks.VALUE_WEIGHT,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    advantage = GAE(gamma=task.gamma, lmbda=tasks.GAE_LAMBDA, value_network=critic, average_gae=False)
    weights = list(loss_module.parameters())
    optimiser = torch.optim.Adam(weights, lr=task.learning_rate, eps=tasks.ADAM_EPSILON)
    size = task.update_every * task.num_envs
    replay = TensorDictReplayBuffer(
        storage=LazyTensorStorage(size), sampler=SamplerWithoutReplacement(), batch_size=task.batch
    )

    def update() -> int:
        for _ in range(task.num_epochs):
            for batch in replay:
                _sum(loss_module(batch)).backward()
                _step(optimiser, weights, tasks.ROLLOUT_GRAD_NORM)
        return task.num_epochs * task.num_mini_batch

    watch.ready(update, sum(weight.numel() for weight in weights))
    collector = Collector(env, actor, frames_per_batch=size, total_frames=-1)
    num_steps = 0
    for data in collector:
        with torch.no_grad():
            data = advantage(data)
        replay.empty()
        replay.extend(data.reshape(-1))
        update()
        num_steps += size
        watch.tick(num_steps)


def _sum(losses: Any) -> Any:
    return sum(value for name, value in losses.items() if name.startswith("loss"))


def _step(optimiser: Any, clipped: Any, limit: float) -> None:
    import torch

    if clipped:
        torch.nn.utils.clip_grad_norm_(clipped, limit)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)


def _make_env(task: Task) -> Any:
    import numpy as np
    from torchrl.envs import DoubleToFloat, SerialEnv, TransformedEnv

    create = partial(_wrap, task)
    env = create() if task.num_envs == 1 else SerialEnv(task.num_envs, create)
    is_double = make_env(task).observation_space.dtype == np.float64
    env = TransformedEnv(env, DoubleToFloat(in_keys=["observation"])) if is_double else env
    env.set_seed(tasks.SEED)
    return env


def _wrap(task: Task) -> Any:
    from torchrl.envs import GymWrapper

    return GymWrapper(make_env(task))


def _optimiser(task: Task, loss_module: Any) -> Any:
    import torch

    return torch.optim.Adam(
        [weight for weight in loss_module.parameters() if weight.requires_grad], lr=task.learning_rate
    )


def _num_parameters(loss_module: Any) -> int:
    named = loss_module.named_parameters()
    return sum(weight.numel() for name, weight in named if weight.requires_grad and "alpha" not in name)


def _layers(task: Task, num_inputs: int, num_outputs: int) -> Any:
    from torch import nn
    from torchrl.modules import MLP

    activation = nn.Tanh if task.activation == "tanh" else nn.ReLU
    return MLP(
        in_features=num_inputs, out_features=num_outputs, num_cells=list(task.hidden), activation_class=activation
    )


def _cnn() -> Any:
    from torch import nn

    class Scaled(nn.Module):
        def forward(self, frames: Any) -> Any:
            # Envs and time come as axes of their own.
            lead = frames.shape[:-3]
            return features(frames.reshape(-1, *frames.shape[-3:]) / 255.0).reshape(*lead, -1)

    features = nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
    )
    scaled = Scaled()
    scaled.features = features
    return scaled


def _sac(task: Task, env: Any) -> tuple[Any, Any, Any]:
    from tensordict.nn import TensorDictModule
    from torch import nn
    from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import SACLoss, SoftUpdate

    num_obs, num_actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    network = nn.Sequential(_layers(task, num_obs, 2 * num_actions), NormalParamExtractor(scale_lb=1e-4))
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        spec=env.action_spec,
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=False,
    )
    critic = ValueOperator(_layers(task, num_obs + num_actions, 1), in_keys=["action", "observation"])
    loss_module = SACLoss(
        actor_network=actor, qvalue_network=critic, num_qvalue_nets=2, loss_function="l2", alpha_init=1.0
    )
    loss_module.make_value_estimator(gamma=task.gamma)
    return actor, loss_module, SoftUpdate(loss_module, tau=tasks.TAU)


def _td3(task: Task, env: Any) -> tuple[Any, Any, Any]:
    from tensordict.nn import TensorDictModule, TensorDictSequential
    from torch import nn
    from torchrl.modules import AdditiveGaussianModule, ValueOperator
    from torchrl.objectives import SoftUpdate, TD3Loss

    num_obs, num_actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    network = nn.Sequential(_layers(task, num_obs, num_actions), nn.Tanh())
    actor = TensorDictModule(network, in_keys=["observation"], out_keys=["action"])
    critic = ValueOperator(_layers(task, num_obs + num_actions, 1), in_keys=["action", "observation"])
    loss_module = TD3Loss(
        actor_network=actor,
        qvalue_network=critic,
        action_spec=env.action_spec,
        num_qvalue_nets=2,
        policy_noise=tasks.TARGET_NOISE,
        noise_clip=tasks.TARGET_NOISE_LIMIT,
        loss_function="l2",
    )
    loss_module.make_value_estimator(gamma=task.gamma)
    noise = AdditiveGaussianModule(
        env.action_spec, sigma_init=tasks.ACTION_NOISE, sigma_end=tasks.ACTION_NOISE, annealing_num_steps=1
    )
    return TensorDictSequential(actor, noise), loss_module, SoftUpdate(loss_module, tau=tasks.TAU)


def _ddqn(task: Task, env: Any) -> tuple[Any, Any, Any]:
    from tensordict.nn import TensorDictSequential
    from torch import nn
    from torchrl.modules import EGreedyModule, QValueActor
    from torchrl.objectives import DQNLoss, HardUpdate

    num_actions = env.action_spec.space.n
    network = (
        nn.Sequential(_cnn(), nn.Linear(512, num_actions))
        if task.has_frames
        else _layers(task, env.observation_spec["observation"].shape[-1], num_actions)
    )
    actor = QValueActor(network, spec=env.action_spec, in_keys=["observation"])
    loss_module = DQNLoss(actor, loss_function="smooth_l1", double_dqn=True, delay_value=True)
    loss_module.make_value_estimator(gamma=task.gamma)
    explore = EGreedyModule(env.action_spec, eps_init=tasks.EPSILON, eps_end=tasks.EPSILON, annealing_num_steps=1)
    updater = HardUpdate(loss_module, value_network_update_interval=tasks.TARGET_EVERY)
    return TensorDictSequential(actor, explore), loss_module, updater


def _ppo_networks(task: Task, env: Any) -> tuple[Any, Any]:
    """The policy and the critic, behind one CNN if there are frames."""
    from tensordict.nn import AddStateIndependentNormalScale, InteractionType, TensorDictModule
    from torch import nn
    from torchrl.modules import (
        ActorValueOperator,
        IndependentNormal,
        OneHotCategorical,
        ProbabilisticActor,
        ValueOperator,
    )

    is_discrete = hasattr(env.action_spec.space, "n")
    num_actions = env.action_spec.space.n if is_discrete else env.action_spec.shape[-1]
    source = _FEATURES if task.has_frames else "observation"
    num_inputs = 512 if task.has_frames else env.observation_spec["observation"].shape[-1]
    layers = _layers(task, num_inputs, num_actions)
    network = layers if is_discrete else nn.Sequential(layers, AddStateIndependentNormalScale(num_actions))
    policy = ProbabilisticActor(
        TensorDictModule(network, in_keys=[source], out_keys=["logits"] if is_discrete else ["loc", "scale"]),
        in_keys=["logits"] if is_discrete else ["loc", "scale"],
        distribution_class=OneHotCategorical if is_discrete else IndependentNormal,
        return_log_prob=True,
        default_interaction_type=InteractionType.RANDOM,
    )
    critic = ValueOperator(_layers(task, num_inputs, 1), in_keys=[source])
    if not task.has_frames:
        return policy, critic
    body = TensorDictModule(_cnn(), in_keys=["observation"], out_keys=[_FEATURES])
    both = ActorValueOperator(body, policy, critic)
    return both.get_policy_operator(), both.get_value_operator()


_BUILDERS = {"sac": _sac, "td3": _td3, "ddqn": _ddqn}
