"""TorchRL: TensorDicts in and out.

Wheels of TorchRL whose C++ extension was built against another torch do not load it, and without it there is
no prioritised replay. Where a compiler is at hand the extension is rebuilt once from the sources that the
wheel carries, so that TorchRL competes as its authors meant it to.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import synthetic
from benchmarks.cartpole import Transitions
from benchmarks.peers.base import Adapter, UnsupportedError
from benchmarks.synthetic import Array, Chunk
from benchmarks.workloads import ALPHA, BETA, EPSILON, GAMMA, HER_RATIO, N_STEP, SEQUENCE_LENGTH, Store

EXTEND_STEPS = 5_000
"""Steps written at once: its n-step transform takes more than linear time."""
EXTENSION = "_torchrl"
TORCH = torch.__version__


def _package_root() -> Path:
    spec = find_spec("torchrl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'torchrl'")
    return Path(spec.submodule_search_locations[0])


def _load_binary(path: Path) -> ModuleType:
    loader = ExtensionFileLoader(EXTENSION, str(path))
    spec = spec_from_file_location(EXTENSION, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is no extension module")
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _rebuild(sources: Path) -> ModuleType:
    from torch.utils import cpp_extension

    folder = f"torchrl-{version('torchrl')}-torch-{TORCH}"
    build_directory = Path(cpp_extension.get_default_build_root()) / folder
    build_directory.mkdir(parents=True, exist_ok=True)
    module: ModuleType = cpp_extension.load(
        EXTENSION,
        [str(sources / name) for name in ("pybind.cpp", "utils.cpp")],
        extra_cflags=["-O3"],
        build_directory=str(build_directory),
    )
    return module


@cache
def extension() -> str:
    """Load the C++ extension before the package looks for it, and say which build it is."""
    root = _package_root()
    try:
        module = _load_binary(next(root.glob(f"{EXTENSION}*.so")))
        origin = "C++ extension of the wheel"
    except (ImportError, StopIteration):
        try:
            module = _rebuild(root / "csrc")
        except (ImportError, OSError, RuntimeError) as error:
            return f"no C++ extension: the wheel's does not load, rebuilding failed ({type(error).__name__})"
        origin = f"C++ extension rebuilt from the wheel's sources (its own does not load on torch {TORCH})"
    sys.modules[f"torchrl.{EXTENSION}"] = module
    return origin


os.environ.setdefault("RL_WARNINGS", "0")
os.environ.setdefault("RL_LOGGING_LEVEL", "WARNING")
BUILD = extension()

from tensordict import TensorDict  # noqa: E402
from torchrl.data import (  # noqa: E402
    HERReplayBuffer,
    LazyTensorStorage,
    PrioritizedSampler,
    ReplayBuffer,
    SliceSampler,
)
from torchrl.envs.transforms import MultiStepTransform  # noqa: E402


class TorchRL(Adapter):
    """Both observations of a step are stored; n-step returns are folded when steps are written."""

    title = "TorchRL"
    distribution = "torchrl"
    missing = {"ere": "no ERE"}

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        if store.kind == "per" and BUILD.startswith("no"):
            raise UnsupportedError(f"no prioritised replay; {BUILD}")
        self.buffer = _build(store)

    @classmethod
    def note(cls) -> str:
        return BUILD

    @property
    def _by_env(self) -> bool:
        """Windows over time need a storage with an axis of environments, if there are several."""
        return self.store.kind == "nstep" and self.store.num_envs > 1

    def fill(self) -> None:
        for chunk in synthetic.chunks(self.store):
            for start in range(0, chunk.num_steps, EXTEND_STEPS):
                self.buffer.extend(self._tensordict(chunk.rows(start, start + EXTEND_STEPS)))

    def prioritise(self) -> None:
        size = len(self.buffer)
        priorities = np.random.default_rng(5).random(size, np.float32)
        self.buffer.update_priority(torch.arange(size), torch.from_numpy(priorities))

    def sample(self, batch_size: int) -> Any:
        if self.store.kind == "sequence":
            batch_size -= batch_size % SEQUENCE_LENGTH
        return self.buffer.sample(batch_size)

    def draw(self, batch_size: int) -> Any:
        return self.buffer.sample(batch_size, return_info=True)

    def answer(self, batch: Any, errors: NDArray[np.float32]) -> None:
        self.buffer.update_priority(batch[1]["index"], torch.from_numpy(errors))

    def steps(self, chunks: Sequence[Chunk]) -> list[Any]:
        dicts = [self._tensordict(chunk) for chunk in chunks]
        return dicts if self.store.num_envs > 1 else [step[0] for step in dicts]

    def insert(self, step: Any) -> Any:
        return self.buffer.add(step) if self.store.num_envs == 1 else self.buffer.extend(step)

    def add(
        self, obs: Array, action: Array, reward: Array, next_obs: Array, terminated: Array, truncated: Array
    ) -> None:
        following = {
            "observation": next_obs[0],
            "reward": reward.astype(np.float32),
            "done": terminated | truncated,
            "terminated": terminated,
        }
        self.buffer.add(TensorDict({"observation": obs[0], "action": action[0], "next": TensorDict(following)}))

    def transitions(self, batch: Any) -> Transitions:
        rows, info = batch
        following = rows["next"]
        return Transitions(
            rows["observation"],
            rows["action"].view(-1, 1),
            following["reward"],
            following["observation"],
            GAMMA * (~following["terminated"]).float(),
            torch.as_tensor(info["priority_weight"]).view(-1, 1) if self.store.prioritised else None,
        )

    def num_rows(self, batch: Any) -> int:
        transitions = batch[0] if isinstance(batch, tuple) else batch
        return int(transitions.numel())

    def _tensordict(self, chunk: Chunk) -> TensorDict:
        if not self._by_env:
            return _tensordict(chunk.flat(), [chunk.num_steps * self.store.num_envs])
        return _tensordict(chunk, [chunk.num_steps, self.store.num_envs]).transpose(0, 1).contiguous()


def _tensordict(chunk: Chunk, shape: list[int]) -> TensorDict:
    obs, next_obs = (x if isinstance(x, dict) else {"observation": x} for x in (chunk.obs, chunk.next_obs))
    following = {
        **next_obs,
        "reward": chunk.reward[..., None],
        "done": chunk.done[..., None],
        "terminated": chunk.terminated[..., None],
    }
    return TensorDict({**obs, "action": chunk.action, "next": TensorDict(following, shape)}, shape)


def _reward(transition: TensorDict) -> torch.Tensor:
    achieved, desired = transition["next", "achieved_goal"], transition["desired_goal"]
    return torch.from_numpy(synthetic.compute_reward(achieved.numpy(), desired.numpy())).unsqueeze(-1)


def _build(store: Store) -> Any:
    by_env = store.kind == "nstep" and store.num_envs > 1
    storage = LazyTensorStorage(store.num_steps, ndim=2 if by_env else 1)
    if store.kind == "her":
        ratio = HER_RATIO / (HER_RATIO + 1)
        return HERReplayBuffer(_reward, her_ratio=ratio, strategy="future", storage=storage)
    if store.kind == "nstep":
        return ReplayBuffer(storage=storage, transform=MultiStepTransform(N_STEP, GAMMA))
    if store.kind == "per":
        sampler = PrioritizedSampler(store.num_steps, ALPHA, BETA, EPSILON)
        return ReplayBuffer(storage=storage, sampler=sampler)
    if store.kind == "sequence":
        # Caching the episodes' ends is its fastest setting; an insert makes it search for them again.
        sampler = SliceSampler(slice_len=SEQUENCE_LENGTH, end_key=("next", "done"), cache_values=True)
        return ReplayBuffer(storage=storage, sampler=sampler)
    return ReplayBuffer(storage=storage)


ADAPTER = TorchRL
