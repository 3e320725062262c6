"""Tianshou: its collector and its algorithms in a plain loop, without the trainer's progress bars and averages.

Its DQN does not clip gradients. Its PPO evaluates the rollout once more before it learns, and frames pass the CNN
twice: for the policy and for the critic.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.loops import tasks
from benchmarks.loops.frames import STACK, make_env
from benchmarks.loops.tasks import Task
from benchmarks.loops.watch import Watch


def run(task: Task, watch: Watch, overrides: Mapping[str, Any]) -> None:
    """Train until the watch stops it."""
    import torch
    from tianshou.algorithm.algorithm_base import policy_within_training_step
    from tianshou.data import Collector
    from tianshou.env import DummyVectorEnv
    from tianshou.utils.torch_utils import torch_train_mode

    torch.manual_seed(tasks.SEED)
    envs = DummyVectorEnv([partial(make_env, task)] * task.num_envs)
    envs.seed(tasks.SEED)
    algorithm = _BUILDERS[task.algorithm](task, make_env(task))
    buffer = _buffer(task)
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()

    def update() -> int:
        with policy_within_training_step(algorithm.policy), torch_train_mode(algorithm):
            if task.is_on_policy:
                algorithm.update(buffer=buffer, batch_size=task.batch, repeat=task.num_epochs)
            else:
                algorithm.update(buffer=buffer, sample_size=task.batch)
        return task.num_epochs * task.num_mini_batch

    note = "DQN without clipping" if task.algorithm == "ddqn" else ""
    watch.ready(update, _num_parameters(algorithm), note)
    num_steps = task.start_steps
    if num_steps:
        collector.collect(n_step=num_steps, random=True)
    while True:
        with policy_within_training_step(algorithm.policy):
            collector.collect(n_step=task.update_every * task.num_envs)
        num_steps += task.update_every * task.num_envs
        update()
        watch.tick(num_steps)
        if task.is_on_policy:
            collector.reset_buffer(keep_statistics=True)


def _buffer(task: Task) -> Any:
    from tianshou.data import VectorReplayBuffer

    frames = {"stack_num": STACK, "ignore_obs_next": True, "save_only_last_obs": True} if task.has_frames else {}
    size = task.update_every * task.num_envs if task.is_on_policy else task.buffer
    return VectorReplayBuffer(size, task.num_envs, **frames)


def _num_parameters(algorithm: Any) -> int:
    modules = [getattr(algorithm, name, None) for name in ("policy", "critic", "critic2")]
    weights = {id(weight): weight for module in modules if module is not None for weight in module.parameters()}
    return sum(weight.numel() for weight in weights.values())


def _adam(task: Task, **options: Any) -> Any:
    from tianshou.algorithm.optim import AdamOptimizerFactory

    return AdamOptimizerFactory(lr=task.learning_rate, **options)


def _net(task: Task, env: Any, **options: Any) -> Any:
    """Hidden layers, or a CNN, from observations."""
    from tianshou.env.atari.atari_network import DQNet, ScaledObsInputActionReprNet
    from tianshou.utils.net.common import Net
    from torch import nn

    if task.has_frames:
        return ScaledObsInputActionReprNet(
            DQNet(*env.observation_space.shape, env.action_space.n, features_only=True, output_dim_added_layer=512)
        )
    activation = nn.Tanh if task.activation == "tanh" else nn.ReLU
    return Net(state_shape=env.observation_space.shape, hidden_sizes=task.hidden, activation=activation, **options)


def _critic(task: Task, env: Any) -> Any:
    from tianshou.utils.net.continuous import ContinuousCritic

    return ContinuousCritic(preprocess_net=_net(task, env, action_shape=env.action_space.shape, concat=True))


def _sac(task: Task, env: Any) -> Any:
    from tianshou.algorithm import SAC
    from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic

    space = env.action_space
    actor = ContinuousActorProbabilistic(
        preprocess_net=_net(task, env), action_shape=space.shape, unbounded=True, conditioned_sigma=True
    )
    return SAC(
        policy=SACPolicy(actor=actor, action_space=space),
        policy_optim=_adam(task),
        critic=_critic(task, env),
        critic_optim=_adam(task),
        critic2=_critic(task, env),
        tau=tasks.TAU,
        gamma=task.gamma,
        alpha=AutoAlpha(-float(space.shape[0]), 0.0, _adam(task)),
    )


def _td3(task: Task, env: Any) -> Any:
    from tianshou.algorithm import TD3
    from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
    from tianshou.exploration import GaussianNoise
    from tianshou.utils.net.continuous import ContinuousActorDeterministic

    space = env.action_space
    actor = ContinuousActorDeterministic(preprocess_net=_net(task, env), action_shape=space.shape)
    noise = GaussianNoise(sigma=tasks.ACTION_NOISE)
    return TD3(
        policy=ContinuousDeterministicPolicy(actor=actor, exploration_noise=noise, action_space=space),
        policy_optim=_adam(task),
        critic=_critic(task, env),
        critic_optim=_adam(task),
        critic2=_critic(task, env),
        tau=tasks.TAU,
        gamma=task.gamma,
        policy_noise=tasks.TARGET_NOISE,
        noise_clip=tasks.TARGET_NOISE_LIMIT,
        update_actor_freq=tasks.POLICY_DELAY,
    )


def _ddqn(task: Task, env: Any) -> Any:
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.env.atari.atari_network import DQNet, ScaledObsInputActionReprNet

    space = env.action_space
    model = (
        ScaledObsInputActionReprNet(DQNet(*env.observation_space.shape, space.n))
        if task.has_frames
        else _net(task, env, action_shape=space.n)
    )
    return DQN(
        policy=DiscreteQLearningPolicy(model=model, action_space=space, eps_training=tasks.EPSILON),
        optim=_adam(task),
        gamma=task.gamma,
        target_update_freq=tasks.TARGET_EVERY,
        huber_loss_delta=1.0,
    )


def _ppo(task: Task, env: Any) -> Any:
    import gymnasium as gym
    import torch
    from tianshou.algorithm import PPO
    from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

    space = env.action_space
    body = _net(task, env)
    # Frames pass one CNN, numbers a network each.
    value_body = body if task.has_frames else _net(task, env)
    if isinstance(space, gym.spaces.Discrete):
        actor = DiscreteActor(preprocess_net=body, action_shape=space.n, softmax_output=False)
        policy = DiscreteActorPolicy(
            actor=actor, dist_fn=lambda logits: torch.distributions.Categorical(logits=logits), action_space=space
        )
        critic: Any = DiscreteCritic(preprocess_net=value_body)
    else:
        actor = ContinuousActorProbabilistic(preprocess_net=body, action_shape=space.shape, unbounded=True)
        policy = ProbabilisticActorPolicy(
            actor=actor,
            dist_fn=lambda loc_scale: torch.distributions.Independent(torch.distributions.Normal(*loc_scale), 1),
            action_space=space,
            action_scaling=True,
            action_bound_method="clip",
        )
        critic = ContinuousCritic(preprocess_net=value_body)
    return PPO(
        policy=policy,
        critic=critic,
        optim=_adam(task, eps=tasks.ADAM_EPSILON),
        eps_clip=tasks.CLIP,
        vf_coef=tasks.VALUE_WEIGHT,
        ent_coef=0.0,
        max_grad_norm=tasks.ROLLOUT_GRAD_NORM,
        gae_lambda=tasks.GAE_LAMBDA,
        gamma=task.gamma,
    )


_BUILDERS = {"sac": _sac, "td3": _td3, "ddqn": _ddqn, "ppo": _ppo}
