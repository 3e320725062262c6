"""cpprb: NumPy arrays in and out, C++ and Cython inside."""

from collections.abc import Sequence
from typing import Any

import cpprb
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import synthetic
from benchmarks.cartpole import Transitions
from benchmarks.peers.base import Adapter, UnsupportedError
from benchmarks.synthetic import Array, Chunk
from benchmarks.workloads import ALPHA, BETA, EPSILON, GAMMA, HER_RATIO, N_STEP, Store

FRAME_SHAPE = (synthetic.FRAME_SIDE, synthetic.FRAME_SIDE, synthetic.NUM_FRAMES)


class Cpprb(Adapter):
    """Frames are stored once (`next_of`, `stack_compress`); hindsight relabels when an episode ends."""

    title = "cpprb"
    distribution = "cpprb"
    missing = {"sequence": "samples single transitions only", "ere": "no ERE"}

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        if store.kind == "nstep" and store.num_envs > 1:
            raise UnsupportedError("n-step windows of one environment per buffer")
        self.buffer = _BUILDERS.get(store.kind, _plain)(store)

    def fill(self) -> None:
        if self.store.kind == "her":
            self._fill_hindsight()
        elif self.store.kind in ("nstep", "frames"):
            for episode in synthetic.episodes(self.store):
                self.buffer.add(**self._fields(episode))
                self.buffer.on_episode_end()
        else:
            for chunk in synthetic.chunks(self.store):
                self.buffer.add(**self._fields(chunk.flat()))

    def _fill_hindsight(self) -> None:
        """Every episode takes five times its steps, so a fifth of the stream fills the store."""
        for episode in synthetic.episodes(self.store):
            desired = episode.obs["desired_goal"][0]
            obs, next_obs = _state(episode.obs), _state(episode.next_obs)
            self.buffer.add(obs=obs, act=episode.action, next_obs=next_obs, done=episode.done)
            self.buffer.on_episode_end(desired)
            if self.buffer.get_stored_size() == self.store.num_steps:
                return

    def prioritise(self) -> None:
        size = self.buffer.get_stored_size()
        self.buffer.update_priorities(np.arange(size), np.random.default_rng(5).random(size, np.float32))

    def sample(self, batch_size: int) -> Any:
        return self.buffer.sample(batch_size)

    def draw(self, batch_size: int) -> Any:
        return self.buffer.sample(batch_size, BETA) if self.store.prioritised else self.buffer.sample(batch_size)

    def answer(self, batch: Any, errors: NDArray[np.float32]) -> None:
        self.buffer.update_priorities(batch["indexes"], errors)

    def steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        return [self._fields(chunk.flat()) for chunk in chunks]

    def insert(self, step: Any) -> Any:
        return self.buffer.add(**step)

    def add(
        self, obs: Array, action: Array, reward: Array, next_obs: Array, terminated: Array, truncated: Array
    ) -> None:
        self.buffer.add(obs=obs, act=action, rew=reward, next_obs=next_obs, done=terminated)

    def transitions(self, batch: Any) -> Transitions:
        obs, action, reward, next_obs, done = (
            torch.from_numpy(batch[key]) for key in ("obs", "act", "rew", "next_obs", "done")
        )
        weight = torch.from_numpy(batch["weights"][:, None]) if self.store.prioritised else None
        return Transitions(obs, action, reward, next_obs, GAMMA * (1 - done), weight)

    def num_rows(self, batch: Any) -> int:
        return len(batch["rew"])

    def _fields(self, chunk: Chunk) -> dict[str, Array]:
        obs, next_obs = chunk.obs, chunk.next_obs
        if self.store.kind == "frames":  # its stacks lie along the last axis
            obs, next_obs = np.moveaxis(obs, 1, -1), np.moveaxis(next_obs, 1, -1)
        return {
            "obs": obs,
            "act": chunk.action,
            "rew": chunk.reward,
            "next_obs": next_obs,
            "done": chunk.terminated.astype(np.float32),
        }


def _plain(store: Store) -> Any:
    return cpprb.ReplayBuffer(store.num_steps, _flat_fields(store))


def _nstep(store: Store) -> Any:
    window = {"size": N_STEP, "gamma": GAMMA, "rew": "rew", "next": "next_obs"}
    return cpprb.ReplayBuffer(store.num_steps, _flat_fields(store), Nstep=window)


def _per(store: Store) -> Any:
    return cpprb.PrioritizedReplayBuffer(store.num_steps, _flat_fields(store), alpha=ALPHA, eps=EPSILON)


def _frames(store: Store) -> Any:
    frames = {"shape": FRAME_SHAPE, "dtype": np.uint8}
    fields = {"obs": frames, "act": {"dtype": np.int64}, "rew": {}, "done": {}}
    return cpprb.ReplayBuffer(store.num_steps, fields, next_of="obs", stack_compress="obs")


def _hindsight(store: Store) -> Any:
    size = synthetic.GOAL_OBS_SIZE
    state = {"shape": size + synthetic.GOAL_SIZE}
    return cpprb.HindsightReplayBuffer(
        store.num_steps,
        {"obs": state, "act": {"shape": synthetic.GOAL_ACTION_SIZE}, "next_obs": state, "done": {}},
        store.episode_length,
        lambda next_obs, _action, goal: synthetic.compute_reward(next_obs[:, size:], goal),
        goal_func=lambda obs: obs[:, size:],
        goal_shape=(synthetic.GOAL_SIZE,),
        additional_goals=HER_RATIO,
        prioritized=False,
    )


def _flat_fields(store: Store) -> dict[str, dict[str, Any]]:
    obs: dict[str, Any] = {"shape": synthetic.SMALL_OBS_SIZE if store.is_small else synthetic.OBS_SIZE}
    action: dict[str, Any] = {"dtype": np.int64} if store.is_small else {"shape": synthetic.ACTION_SIZE}
    return {"obs": obs, "act": action, "rew": {}, "next_obs": obs, "done": {}}


def _state(obs: Any) -> Array:
    """It wants one array per state: the observation with the goal reached appended."""
    return np.concatenate([obs["observation"], obs["achieved_goal"]], axis=-1)


_BUILDERS = {"nstep": _nstep, "per": _per, "frames": _frames, "her": _hindsight}

ADAPTER = Cpprb
