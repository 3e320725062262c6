"""One loop of a peer with its own replay buffer or with ours, in a process of its own.

`python -m benchmarks.adapter_loops learn sb3 ours 1` prints the processor time of the loop and the mean return of its
last half, `... memory sb3 ours` the megabytes that 5,000 steps of stacked frames take.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch

from benchmarks import cleanrl_script

STEPS: Final = {"sb3": 6_000, "cleanrl": 20_000, "torchrl": 6_000}
NUM_FRAMES, STACK, SIDE = 5_000, 4, 84
OURS: Final = "ours"
Outcome = dict[str, float]


def late_return(returns: Sequence[float], num_steps: int) -> float:
    """Mean return of the episodes that ended in the last half of the steps, of which CartPole rewards each with 1."""
    ends = np.cumsum(returns)
    return float(np.mean(np.array(returns)[ends > num_steps / 2]))


def learn_sb3(side: str, seed: int) -> Outcome:
    """DQN on CartPole with the zoo's hyperparameters."""
    from stable_baselines3 import DQN

    from recollect.adapters import sb3

    given: dict[str, Any] = {"replay_buffer_class": sb3.ReplayBuffer} if side == OURS else {}
    model = DQN(
        "MlpPolicy",
        "CartPole-v1",
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1_000,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        **given,
    )
    began = time.process_time()
    model.learn(STEPS["sb3"])
    cpu_s = time.process_time() - began
    (monitor,) = model.get_env().envs
    return {"cpu_s": cpu_s, "score": late_return(monitor.get_episode_rewards(), STEPS["sb3"])}


def learn_cleanrl(side: str, seed: int) -> Outcome:
    """CleanRL's `dqn.py` before and after the guide's change."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = cleanrl_script.download(folder)
        if side == OURS:
            script = cleanrl_script.with_change(script, cleanrl_script.diffs()[0])
        given = ("--total-timesteps", str(STEPS["cleanrl"]), "--seed", str(seed), "--learning-starts", "1000")
        returns, cpu_s = cleanrl_script.run(script, folder, *given)
    return {"cpu_s": cpu_s, "score": late_return(returns, STEPS["cleanrl"])}


def learn_torchrl(side: str, seed: int) -> Outcome:
    """DQN on CartPole in a loop as TorchRL's guides write it."""
    from tensordict.nn import TensorDictSequential
    from torchrl.collectors import Collector
    from torchrl.envs import GymEnv
    from torchrl.modules import MLP, EGreedyModule, QValueActor
    from torchrl.objectives import DQNLoss, SoftUpdate

    num_steps = STEPS["torchrl"]
    torch.manual_seed(seed)
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env.set_seed(seed)
    net = MLP(in_features=4, out_features=2, num_cells=[128, 128])
    actor = QValueActor(net, in_keys=["observation"], spec=env.action_spec, action_space="categorical")
    explore = EGreedyModule(spec=env.action_spec, annealing_num_steps=num_steps // 4, eps_end=0.05)
    loss_module = DQNLoss(actor, action_space="categorical", delay_value=True)
    loss_module.make_value_estimator(gamma=0.99)
    target_update = SoftUpdate(loss_module, eps=0.99)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=5e-4)
    rb = _torchrl_buffer(side, num_steps, 64)
    returns: list[float] = []
    length = 0
    began = time.process_time()
    for data in Collector(env, TensorDictSequential(actor, explore), frames_per_batch=50, total_frames=num_steps):
        rb.extend(data)
        explore.step(len(data))
        for _ in range(10):
            batch = rb.sample()
            loss_module(batch)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
            target_update.step()
        for is_last in data["next", "done"].flatten().tolist():
            length += 1
            if is_last:
                returns.append(float(length))
                length = 0
    return {"cpu_s": time.process_time() - began, "score": late_return(returns, num_steps)}


def memory_sb3(side: str) -> Callable[[np.ndarray, np.ndarray, bool], object]:
    """Of SB3's buffer, which CleanRL's scripts use too; returns how to add a step."""
    from stable_baselines3.common.buffers import ReplayBuffer

    from recollect.adapters import sb3

    space = gym.spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)
    make: Any = sb3.ReplayBuffer if side == OURS else ReplayBuffer
    options: dict[str, Any] = {"frame_stack": STACK} if side == OURS else {}
    buffer = make(NUM_FRAMES, space, gym.spaces.Discrete(4), **options)
    action, reward = np.zeros((1, 1), np.int64), np.zeros(1, np.float32)
    return lambda obs, after, done: buffer.add(obs, after, action, reward, np.array([done]), [{}])


def memory_torchrl(side: str) -> Callable[[np.ndarray, np.ndarray, bool], object]:
    """Of TorchRL's buffer; returns how to add a step."""
    from tensordict import TensorDict

    buffer = _torchrl_buffer(side, NUM_FRAMES, 32, **({"frame_stack": STACK} if side == OURS else {}))

    def add(obs: np.ndarray, after: np.ndarray, done: bool) -> None:
        flag = torch.tensor([[done]])
        outcome = {"pixels": torch.from_numpy(after), "reward": torch.zeros(1, 1), "done": flag, "terminated": flag}
        buffer.extend(TensorDict({"pixels": torch.from_numpy(obs), "action": torch.zeros(1, 1), "next": outcome}, [1]))

    return add


def _torchrl_buffer(side: str, size: int, batch_size: int, **options: Any) -> Any:
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

    from recollect.adapters.torchrl import ReplayBuffer

    if side == OURS:
        return ReplayBuffer(size, batch_size=batch_size, **options)
    return TensorDictReplayBuffer(storage=LazyTensorStorage(size), batch_size=batch_size)


LEARN: Final = {"sb3": learn_sb3, "cleanrl": learn_cleanrl, "torchrl": learn_torchrl}
MEMORY: Final = {"sb3": memory_sb3, "torchrl": memory_torchrl}


def measure_memory(library: str, side: str) -> Outcome:
    """Megabytes that the process grows by while the buffer is made and filled."""
    first = MEMORY[library](side)  # what imports and first calls take is no memory of the buffer
    for step in _stacks(10):
        first(*step)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    add = MEMORY[library](side)
    for step in _stacks(NUM_FRAMES):
        add(*step)
    return {"mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6}


def _stacks(num: int) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
    """Steps of a game: four stacked frames, those a step later, and whether the episode, of 200 steps, ends."""
    rng = np.random.default_rng(1)
    for number in range(num):
        if number % 200 == 0:
            stack = np.repeat(rng.integers(0, 256, (1, 1, SIDE, SIDE), dtype=np.uint8), STACK, 1)
        after = np.concatenate([stack[:, 1:], rng.integers(0, 256, (1, 1, SIDE, SIDE), dtype=np.uint8)], 1)
        yield stack, after, number % 200 == 199
        stack = after


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, library, side, *seeds = sys.argv[1:]
    outcome = measure_memory(library, side) if what == "memory" else LEARN[library](side, int(seeds[0]))
    print(json.dumps(outcome))
