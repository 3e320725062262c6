"""Batches as Stable-Baselines3's own tuples, extended by what prioritised replay needs."""

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from recollect import keys
from recollect.agent.storages.experience.sampling.outputs import map_arrays
from recollect.agent.storages.experience.store.ring import columns
from recollect.agent.storages.off_policy.her_buffer import HERBuffer
from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer
from recollect.errors import ConfigError
from recollect.roles import Batch, Observation


class ReplaySamples(ReplayBufferSamples):
    """SB3's tuple of tensors `[batch, ...]`.

    Learn `rewards + (1 - dones) * discounts * value(next_observations)`: `dones` is 1 where the window ended in
    a termination, and `discounts` is 0 there and gamma to the power of the window's steps elsewhere.

    Attributes
    ----------
    weights : Tensor [batch, 1] or None
        What corrects the losses of rows that are drawn more often than others.
    batch : dict
        The batch that the storage drew, with the ids of its rows.
    """

    weights: torch.Tensor | None
    batch: Batch


class DictReplaySamples(DictReplayBufferSamples):
    """The same where observations are dicts."""

    weights: torch.Tensor | None
    batch: Batch


def to_samples(
    memory: ReplayBuffer, batch: Batch, device: torch.device, env: VecNormalize | None
) -> ReplaySamples | DictReplaySamples:
    """Turn a batch into SB3's tuple on `device`, with observations and rewards normalised as `env` says now."""
    obs, next_obs, rewards = batch[keys.OBS], batch[keys.NEXT_OBS], batch[keys.REWARD]
    if env is not None:
        obs, next_obs = (_normalised(env, values) for values in (obs, next_obs))
        rewards = torch.from_numpy(_normalised_rewards(memory, batch, env))
    make: Any = DictReplaySamples if isinstance(obs, dict) else ReplaySamples
    samples = make(obs, batch[keys.ACTION], next_obs, batch[keys.NEXT_TERMINATED], rewards, batch[keys.DISCOUNT])
    if rewards.device != device or samples.discounts.device != device:
        samples = make(*(map_arrays(lambda tensor: tensor.to(device), values) for values in samples))
    samples.weights = batch.get(keys.PER_WEIGHTS)
    samples.batch = batch
    result: ReplaySamples | DictReplaySamples = samples
    return result


def _normalised(env: VecNormalize, observations: Observation) -> Observation:
    arrays: Any = map_arrays(lambda tensor: tensor.cpu().numpy(), observations)
    return map_arrays(torch.from_numpy, env.normalize_obs(arrays))


def _normalised_rewards(memory: ReplayBuffer, batch: Batch, env: VecNormalize) -> np.ndarray:
    """Rewards `[batch, 1]` of windows whose steps are normalised one by one, because each is clipped for itself."""
    lengths = batch[keys.N_STEP].cpu().numpy()
    if not env.norm_reward or lengths.max() == 1:
        rewards: np.ndarray = batch[keys.REWARD].cpu().numpy()
        return env.normalize_reward(rewards).astype(np.float32)
    if isinstance(memory, HERBuffer):
        raise ConfigError(
            "rewards in hindsight cannot be normalised step by step within n-step returns: use n_step=1, or "
            "VecNormalize(..., norm_reward=False)"
        )
    steps = columns.window_rewards(memory.store, batch[keys.IDXS].numpy(), lengths)  # [batch, longest]
    steps = np.where(np.arange(steps.shape[1]) < lengths, env.normalize_reward(steps), 0)
    gammas = float(memory.algorithm.gamma) ** np.arange(steps.shape[1])
    returns: np.ndarray = (steps * gammas).sum(axis=1, keepdims=True).astype(np.float32)
    return returns
