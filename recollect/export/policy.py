"""`ExportablePolicy`: a policy as one function of tensors, from an observation to the env's action."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from recollect.agent.actors.spaces import first_observations
from recollect.agent.algorithms.learning import LearningAlgorithm
from recollect.errors import ConfigError
from recollect.export.noise import GivenNoise
from recollect.roles import Observation

OBSERVATION: Final = "observation"
STATE: Final = "state"
NEXT_STATE: Final = "next_state"
ACTION: Final = "action"
NOISE: Final = "noise"
BATCH: Final = "batch"
# What inputs and outputs beside observations are called.
_OTHERS: Final = re.compile(rf"{STATE}|{NEXT_STATE}|{ACTION}|{NOISE}(_\d+)?")


class Port(NamedTuple):
    """An input or output: its name, dtype and shape, in which a `None` stands for the batch.

    `distribution` says where noise is to be drawn from.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    distribution: str | None = None

    def to_document(self) -> dict[str, Any]:
        """The same as files have it."""
        shape = [BATCH if length is None else length for length in self.shape]
        entry = {"name": self.name, "dtype": self.dtype, "shape": shape}
        return entry if self.distribution is None else {**entry, "distribution": self.distribution}


class ExportablePolicy(nn.Module):
    """Observation parts, the hidden state and noise, as positional tensors -> the action and the next hidden state.

    Parameters
    ----------
    algo : LearningAlgorithm
        Whose acting it is. Its networks are copied, to the CPU.
    deterministic : bool
        Take the most likely action; else noise is an input.

    Attributes
    ----------
    inputs, outputs : list of Port
        What goes in and comes out, in order.
    """

    def __init__(self, algo: LearningAlgorithm, *, deterministic: bool = True) -> None:
        super().__init__()
        # A generator cannot be copied, and is not drawn from.
        self.actor = (
            deepcopy(algo.actor, {id(algo.actor.generator): torch.Generator()}).cpu().eval().requires_grad_(False)
        )
        self._algo = algo.acting_through(self.actor)
        self._deterministic = deterministic
        self._action = EnvAction(self.actor.action_space)
        spaces = flat_observation(self.actor.obs_space)
        observed = [Port(name, np.dtype(part.dtype).name, (None, *(part.shape or ()))) for name, part in spaces.items()]
        self._names = list(spaces)
        states = [(None, self.actor.recurrent_size)] if self.actor.is_recurrent else []
        self.inputs = [*observed, *(Port(STATE, "float32", shape) for shape in states)]
        if not deterministic:
            self.inputs += self._find_noise()
        self.outputs = [self._action.port, *(Port(NEXT_STATE, "float32", shape) for shape in states)]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Tensors of `inputs` -> tensors of `outputs`."""
        parts, rest = tensors[: len(self._names)], list(tensors[len(self._names) :])
        batch = parts[0].shape[0]
        rhs = rest.pop(0) if self.actor.is_recurrent else parts[0].new_zeros(batch, 1, dtype=torch.float32)
        done = torch.zeros(batch, 1)  # an episode begins with a state of zeros
        if self._deterministic:
            action, rhs = self._act(parts, rhs, done)
        else:
            with GivenNoise(rest):
                action, rhs = self._act(parts, rhs, done)
        return (action, rhs) if self.actor.is_recurrent else (action,)

    def examples(self, batch: int = 2) -> tuple[Tensor, ...]:
        """Inputs to trace with: zeros, the first of whole numbers, and noise of a half, which no distribution lacks."""
        observed = flat_observation(first_observations(self.actor.obs_space, batch))
        rest = (port for port in self.inputs if port.name not in observed)
        shapes = ((port, [batch if length is None else length for length in port.shape]) for port in rest)
        return (*observed.values(), *(torch.full(shape, 0.5 if port.distribution else 0.0) for port, shape in shapes))

    def acting(self) -> AbstractContextManager[None]:
        """Let what acts inside leave the exploration of the training as it is."""
        return self._algo.preserving_exploration()

    def _act(self, parts: Sequence[Tensor], rhs: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        obs = _nested(dict(zip(self._names, parts, strict=True)), self.actor.obs_space)
        _, action, rhs, _ = self._algo.act(obs, rhs, done, self._deterministic)
        return self._action(action), rhs

    @torch.no_grad()
    def _find_noise(self) -> list[Port]:
        """What is drawn while acting, found out by acting on two and on three observations."""
        found = [self._draws(batch) for batch in (2, 3)]
        ports = []
        for number, (two, three) in enumerate(zip(*found, strict=True)):
            pairs = zip(two.values.shape, three.values.shape, strict=True)
            shape = tuple(None if one != other else one for one, other in pairs)
            name = NOISE if len(found[0]) == 1 else f"{NOISE}_{number}"
            ports.append(Port(name, "float32", shape, two.distribution))
        return ports

    def _draws(self, batch: int) -> list[Any]:
        parts = list(self.examples(batch))
        rhs = parts.pop() if self.actor.is_recurrent else torch.zeros(batch, 1)
        recorder = GivenNoise()
        with self._algo.preserving_exploration(), recorder:
            first, _ = self._act(parts, rhs, torch.zeros(batch, 1))
        with self._algo.preserving_exploration():
            for _ in range(2):
                with GivenNoise(draw.values for draw in recorder.draws):
                    again, _ = self._act(parts, rhs, torch.zeros(batch, 1))
                if not torch.equal(first, again):
                    raise ConfigError(
                        "the exploration of this agent remembers its last steps, as OU noise does, and cannot be "
                        "exported; export it with deterministic=True"
                    )
        if not recorder.draws:
            raise ConfigError("this agent acts without chance; export it with deterministic=True")
        return recorder.draws


class EnvAction(nn.Module):
    """Gives actions in the env's units its shape and dtype, as `ActionFormat` does."""

    bounds: Tensor | None

    def __init__(self, space: gym.Space[Any]) -> None:
        super().__init__()
        self.port = Port(ACTION, np.dtype(space.dtype).name, (None, *(space.shape or ())))
        self._dtype = _torch_dtype(self.port.dtype)
        self._shape = space.shape or ()
        self._is_whole, exact = False, None
        if isinstance(space, gym.spaces.Box):
            self._is_whole = np.issubdtype(space.dtype, np.integer)
            if space.dtype not in (np.float32, np.float16):  # whose bounds float32 does not know exactly
                exact = torch.from_numpy(np.stack([space.low, space.high]).astype(np.float64))
        self.register_buffer("bounds", exact, persistent=False)

    def forward(self, action: Tensor) -> Tensor:
        """`[batch, numbers]` -> `[batch, ...]`."""
        action = action.reshape(action.shape[0], *self._shape)
        if self._is_whole:
            action = action.round()
        if self.bounds is not None:
            action = action.double().clamp(self.bounds[0], self.bounds[1])
        return action.to(self._dtype)


def flat_observation(obs: Observation) -> dict[str, Any]:
    """Parts of an observation, or of its space, by the names of their inputs.

    Parts of parts are `outer.inner`; what another input or output is called comes after `observation.`.
    """
    parts = _parts(obs)
    names = [_input_name(path) for path in parts]
    if len(set(names)) < len(names):
        raise ConfigError(f"two parts of the observation would be inputs of the same name, got {names}; rename one")
    return dict(zip(names, parts.values(), strict=True))


def _parts(obs: Observation, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(obs, (Mapping, gym.spaces.Dict)):
        return {path: obs}
    found = (_parts(inner, (*path, key)) for key, inner in obs.items())
    return {inner: part for parts in found for inner, part in parts.items()}


def _input_name(path: tuple[str, ...]) -> str:
    name = ".".join(path) or OBSERVATION
    return f"{OBSERVATION}.{name}" if _OTHERS.fullmatch(name) else name


def _nested(parts: Mapping[str, Tensor], space: gym.Space[Any], path: tuple[str, ...] = ()) -> Observation:
    """The observation whose arrays are `parts`."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _nested(parts, inner, (*path, key)) for key, inner in space.items()}
    return parts[_input_name(path)]


def _torch_dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, name)
    return dtype
