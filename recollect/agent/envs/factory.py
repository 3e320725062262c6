"""`VecEnvFactory`: creates the envs of a run, here or in a worker that it was sent to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode

from recollect import keys
from recollect.agent.envs.catalog import frame_stack_of, make_for
from recollect.agent.envs.masks import gives_mask, masked_space
from recollect.agent.envs.seeds import derive_seeds
from recollect.agent.envs.spaces import check_spaces
from recollect.agent.envs.vectors.kinds import BUILDERS, EnvBuilder
from recollect.agent.wrapping import Wrapping, wrapped
from recollect.checks import check_count, check_number, check_whole
from recollect.errors import ConfigError, OwnPart, closest
from recollect.roles import EnvFunction

if TYPE_CHECKING:
    from recollect.agent.envs.vec_env import VecEnv

_MODES: Final = (keys.TRAIN, keys.TEST)


@dataclass(frozen=True, kw_only=True, repr=False)
class VecEnvFactory:
    """Creates `VecEnv` instances of one configuration; each worker's envs have seeds of their own.

    The attributes are the parameters of `VecEnv.create_factory`, and whether envs give action masks beside their
    observations; None to look at one of them.
    """

    vec_env_class: "type[VecEnv]"
    env_fn: EnvFunction | str
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    vec_env_size: int = 1
    kind: str = keys.SYNC
    autoreset_mode: AutoresetMode | None = None
    seed: int = 0
    max_consecutive_failures: int = keys.MAX_CONSECUTIVE_FAILURES
    masks: bool | None = None
    wrappers: tuple[Wrapping, ...] = ()
    env_timeout_s: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.env_fn) and not isinstance(self.env_fn, str):
            raise ConfigError(f"env_fn must be callable or an id, got {self.env_fn!r}")
        if self.kind not in BUILDERS:
            raise ConfigError(f"there is no kind {self.kind!r} of vector env; {closest(str(self.kind), BUILDERS)}")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ConfigError(f"seed must be a whole number of at least 0, got {self.seed!r}")
        check_count("vec_env_size", self.vec_env_size)
        check_whole("max_consecutive_failures", self.max_consecutive_failures)
        if self.env_timeout_s is not None:
            self._check_timeout(self.env_timeout_s)
        if self.wrappers and self.kind not in (keys.SYNC, keys.ASYNC):
            raise ConfigError(f"wrappers go around single envs, which {self.kind!r} has none of; use 'sync' or 'async'")

    def __call__(
        self, device: torch.device | str = "cpu", index_worker: int = 0, index_parent: int = 0, mode: str = keys.TRAIN
    ) -> "VecEnv":
        """Create the envs of one worker, for training or for tests."""
        seeds = self.seeds(index_worker, index_parent, mode)
        vector = BUILDERS[self.kind](self, seeds, mode == keys.TRAIN)
        return self.vec_env_class(vector, device, seeds=seeds, env_fns=self.env_fns(mode))

    def _check_timeout(self, timeout_s: float) -> None:
        check_number("env_timeout_s", timeout_s, 0.0, above_low=True)
        if self.kind != keys.ASYNC:
            raise ConfigError(
                f"an env that hangs can be ended only in a process of its own, which {self.kind!r} does not have; use "
                "kind 'async' (--vec async) with env_timeout_s, or collect in workers, which worker_timeout_s watches"
            )

    def seeds(self, index_worker: int = 0, index_parent: int = 0, mode: str = keys.TRAIN) -> list[int]:
        """Seeds of one worker's envs, from the run's seed and the place of each env among those of all workers."""
        if mode not in _MODES:
            raise ConfigError(f"mode must be one of {_MODES}, got {mode!r}")
        first = index_worker * self.vec_env_size
        return derive_seeds([self.seed, index_parent, 0, _MODES.index(mode)], first + self.vec_env_size)[first:]

    def build_by(self, make: EnvFunction) -> partial[Any]:
        """What makes the env (or vector env): `make` from an id, or the caller's own function."""
        build = partial(make, self.env_fn) if isinstance(self.env_fn, str) else self.env_fn
        return partial(build, **self.env_kwargs)

    def build_one(self, is_training: bool = True) -> EnvBuilder:
        """What makes one env."""
        build = self.build_by(partial(make_for, is_training))
        return partial(wrapped, build, self.wrappers) if self.wrappers else build

    def env_fns(self, mode: str = keys.TRAIN) -> list[EnvBuilder]:
        """What makes each single env of a worker; none where there are no single envs."""
        has_single = self.kind in (keys.SYNC, keys.ASYNC)
        return [self.build_one(mode == keys.TRAIN)] * self.vec_env_size if has_single else []

    def spaces(self) -> tuple[gym.Space[Any], gym.Space[Any]]:
        """Observation and action space of one env."""
        return self._found[0], self._found[1]

    @property
    def gives_masks(self) -> bool:
        """Whether an env gives action masks beside its observations, which are then put into them."""
        return self._found[2] if self.masks is None else self.masks

    @cached_property
    def _found(self) -> tuple[gym.Space[Any], gym.Space[Any], bool]:
        """What one env tells: its spaces, and whether it gives masks."""
        env_fns = self.env_fns()
        with OwnPart(f"{self!r} cannot make its environment"):
            env: Any = env_fns[0]() if env_fns else BUILDERS[self.kind](self, [0], True)
        if env_fns and not hasattr(env, "observation_space"):
            raise ConfigError(f"env_fn must return a Gymnasium environment, got {env!r}")
        prefix = "" if env_fns else "single_"
        obs_space, action_space = getattr(env, f"{prefix}observation_space"), getattr(env, f"{prefix}action_space")
        check_spaces(obs_space, action_space)
        gives_masks = self.masks if self.masks is not None else bool(env_fns) and gives_mask(env)
        env.close()
        return masked_space(obs_space, action_space) if gives_masks else obs_space, action_space, gives_masks

    def frame_stack(self) -> int | None:
        """How many frames observations are stacks of, where the id tells, for storages to keep each frame once."""
        if not isinstance(self.env_fn, str):
            return None
        depth = frame_stack_of(self.env_fn, self.kind, self.env_kwargs)
        # A wrapper may have made something else of the stack.
        is_kept = depth is None or not self.wrappers or (self.spaces()[0].shape or ())[:1] == (depth,)
        return depth if is_kept else None

    def __repr__(self) -> str:
        name = self.env_fn if isinstance(self.env_fn, str) else getattr(self.env_fn, "__name__", repr(self.env_fn))
        options = f", env_kwargs={dict(self.env_kwargs)}" if self.env_kwargs else ""
        return (
            f"VecEnvFactory({name!r}{options}, vec_env_size={self.vec_env_size}, kind={self.kind!r}, seed={self.seed})"
        )


def find_autoreset_mode(value: AutoresetMode | str | None) -> AutoresetMode | None:
    """The mode of a name; None is the vector env's own."""
    try:
        return None if value is None else AutoresetMode(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in AutoresetMode)
        raise ConfigError(f"autoreset_mode must be one of {known}, got {value!r}") from None
