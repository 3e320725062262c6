"""`VecEnv`: environments that are stepped together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from recollect import keys
from recollect.agent.envs.catalog import find_function
from recollect.agent.envs.factory import VecEnvFactory, find_autoreset_mode
from recollect.agent.envs.failures import describe
from recollect.agent.envs.masks import MaskCheck
from recollect.agent.envs.seeds import derive_seeds
from recollect.agent.envs.spaces import ActionFormat, check_spaces, find_misfit
from recollect.agent.envs.step import Step, VectorEnv
from recollect.agent.envs.vectors.autoreset import driver_of
from recollect.agent.envs.vectors.kinds import close_vector
from recollect.agent.masks import has_mask
from recollect.agent.wrapping import parse_wrappers
from recollect.errors import EnvError, RecollectError, StorageError
from recollect.roles import EnvFunction, Observation

# Where `FaultTolerantEnv`, the outermost layer of every env but for masks, has the state of all of them.
_STATE: Final = "all_state"
_ENVS: Final = "envs"
# Of a first reset that is still to come.
_SEEDS: Final = "seeds"


class VecEnv:
    """Environments that are stepped together, whatever kind of vector env they are in.

    Every step is a true transition: `Step.next_obs` is what the action led to, also where an episode
    ended, and `Step.obs` what to act on next. Rows that are no transition are marked in `Step.skip`. Envs
    that fail are rebuilt.

    Parameters
    ----------
    vector : gymnasium.vector.VectorEnv
        The envs.
    device : torch.device or str
        Device of the agent that acts in them; observations stay NumPy arrays.
    seeds : sequence of int, optional
        Seeds of the first reset, one for each env.
    env_fns : sequence of callable, optional
        What makes each single env.

    Examples
    --------
    >>> factory, action_space, obs_space = VecEnv.create_factory("CartPole-v1", vec_env_size=2, seed=1)
    >>> envs = factory("cpu", index_worker=0, index_parent=0)
    >>> envs.reset().shape
    (2, 4)
    >>> envs.step(np.array([[0], [1]])).reward
    array([[1.],
           [1.]], dtype=float32)
    >>> envs.close()
    """

    def __init__(
        self,
        vector: VectorEnv,
        device: torch.device | str = "cpu",
        *,
        seeds: Sequence[int] | None = None,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]] = (),
    ) -> None:
        check_spaces(vector.single_observation_space, vector.single_action_space)
        self.device = torch.device(device)
        self.num_envs = vector.num_envs
        self.observation_space = vector.single_observation_space
        self.action_space = vector.single_action_space
        self.env_fns = list(env_fns)
        self._driver = driver_of(vector)
        self._explaining = _Explaining(vector)
        self._format = ActionFormat(self.action_space, self.num_envs)
        is_masked = has_mask(self.observation_space, self.action_space)
        self._masks = MaskCheck(self.action_space) if is_masked else None
        self._seeds = self._first_seeds = None if seeds is None else list(seeds)
        self.is_closed = False

    @classmethod
    def create_factory(
        cls,
        env_fn: EnvFunction | str,
        env_kwargs: Mapping[str, Any] | None = None,
        vec_env_size: int = 1,
        *,
        kind: str = keys.SYNC,
        autoreset_mode: AutoresetMode | str | None = None,
        seed: int = 0,
        max_consecutive_failures: int = keys.MAX_CONSECUTIVE_FAILURES,
        wrappers: object = (),
        env_timeout_s: float | None = None,
    ) -> tuple[VecEnvFactory, gym.Space[Any], gym.Space[Any]]:
        """Return a function that creates `VecEnv` instances, and the spaces of one env.

        Parameters
        ----------
        env_fn : callable or str
            `env_fn(**env_kwargs)` makes one env. For the kinds "native" and "envpool" it makes the vector
            env, and gets `num_envs` too (and `seed`, one for each env, for "envpool"). Or an id, or `module:Name`.
        env_kwargs : mapping, optional
            Options of the env.
        vec_env_size : int
            How many envs.
        kind : {"sync", "async", "native", "envpool"}
            Envs that take turns, that run in processes, that are one vector env, or EnvPool's.
        autoreset_mode : AutoresetMode or str, optional
            How the vector env begins new episodes. The steps are the same in every mode.
        seed : int
            Seed of the run.
        max_consecutive_failures : int
            How often in a row an env may fail and be rebuilt; one more time is an `EnvError`. 0 rebuilds none.
        wrappers : list
            What each single env is wrapped in, innermost first: names of Gymnasium's wrappers, `module:Name`, classes
            or functions, or mappings of a `name` (any of these) and options.
        env_timeout_s : float, optional
            Seconds that an env of the kind "async" may take for a step or a reset before it counts as hung and is
            rebuilt; by default 300. Other kinds have no process of their own to end.

        Returns
        -------
        factory : VecEnvFactory
            Called as `factory(device, index_worker, index_parent, mode)`.
        action_space, obs_space : gymnasium.Space
            Those of one env.
        """
        factory = VecEnvFactory(
            vec_env_class=cls,
            env_fn=find_function(env_fn),
            env_kwargs=dict(env_kwargs or {}),
            vec_env_size=vec_env_size,
            kind=kind,
            autoreset_mode=find_autoreset_mode(autoreset_mode),
            seed=seed,
            max_consecutive_failures=max_consecutive_failures,
            wrappers=parse_wrappers(wrappers),
            env_timeout_s=env_timeout_s,
        )
        obs_space, action_space = factory.spaces()
        return replace(factory, masks=factory.gives_masks), action_space, obs_space

    @property
    def vector(self) -> VectorEnv:
        """The vector env that is stepped, for what only it can do."""
        return self._driver.vector

    @property
    def num_failures(self) -> int:
        """How often an env failed so far."""
        return self._driver.failures.num_failures

    def share_failures(self, other: "VecEnv") -> None:
        """Show a failure that other envs have shown no second time, and the other way round."""
        self._driver.failures.shown = other._driver.failures.shown

    def reset(self) -> Observation:
        """Begin an episode in every env; the first time with the seeds, later with what follows from them.

        Returns
        -------
        array or dict of arrays [num_envs, ...]
            The first observations.
        """
        seeds, self._seeds = self._seeds, None
        with self._explaining:
            obs = self._driver.reset(seeds)
        if self._masks is not None:
            self._masks.check_reset(obs)
        return obs

    def reseed(self, number: int) -> None:
        """Let the next reset have new seeds, each from its first one and `number`: how far a run had come, say."""
        if self._first_seeds is not None:
            self._seeds = [derive_seeds([seed, number], 1)[0] for seed in self._first_seeds]

    def step(self, action: torch.Tensor | np.ndarray) -> Step:
        """Step every env.

        Parameters
        ----------
        action : tensor or array [num_envs, numbers]
            In the env's units: floats for Box; for Discrete one index each.
        """
        try:
            step = self._driver.step(self._format(action))
        except Exception as error:
            self._explaining.explain(error)
            raise
        if self._masks is not None:
            self._masks.check_step(step)
        return step

    def state(self) -> dict[str, Any] | str:
        """The state of every env, plain data that a checkpoint can hold; why there is none, if it cannot be saved."""
        if not isinstance(self.vector, (SyncVectorEnv, AsyncVectorEnv)) or not self.env_fns:
            return f"the state of {type(self.vector).__name__} cannot be saved; envs of the kinds sync and async can be"
        with self._explaining:
            states = list(self.vector.get_attr(_STATE))
        if gap := next((gap for gap in states if isinstance(gap, str)), None):
            return gap
        # What envs hold before they begin by seeds is chance, or memory that nobody has written to.
        return {_ENVS: states if self._seeds is None else [None] * self.num_envs, _SEEDS: self._seeds}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Put every env where it was when `state` was asked for; they must be as many, of the same form.

        Raises
        ------
        StorageError
            If they are not.
        """
        if len(state[_ENVS]) != self.num_envs:
            raise StorageError(f"a state of {len(state[_ENVS])} envs was saved, there are {self.num_envs}")
        if state[_SEEDS] is None:
            self.reset()
            with self._explaining:
                cast(AsyncVectorEnv, self.vector).set_attr(_STATE, list(state[_ENVS]))
        else:
            self._seeds = list(state[_SEEDS])

    def render(self) -> Any:
        """What the envs draw, a frame each, if they were made with a `render_mode`."""
        return self.vector.render()

    def close(self) -> None:
        """Free what the envs hold; closing twice does nothing."""
        if not self.is_closed:
            self.is_closed = True
            close_vector(self.vector)

    def __repr__(self) -> str:
        return f"VecEnv({self.vector!r}, num_envs={self.num_envs})"


class _Explaining:
    """Names what goes wrong around envs; what they raise themselves does not come as far as here."""

    def __init__(self, vector: VectorEnv) -> None:
        self._vector = vector

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            self.explain(error)

    def explain(self, error: Exception) -> None:
        """Raise the error that says what went wrong; nothing if this one says it itself."""
        if isinstance(error, RecollectError | gym.error.Error):
            return
        if isinstance(error, EOFError | ConnectionError):
            raise EnvError(
                f"the process of an env is gone ({type(error).__name__}): it was killed, or the machine ran out of "
                "memory; use fewer envs, or kind='sync' to see what happens"
            ) from error
        reason = _misfit(self._vector) or describe(error)
        raise EnvError(
            f"an env returned what does not fit its spaces or Gymnasium's interface ({reason}): reset"
            " must return (obs, info), and step (obs, reward, terminated, truncated, info); "
            "gymnasium.utils.env_checker.check_env tells more"
        ) from error


def _misfit(vector: VectorEnv) -> str | None:
    """Which env gave an observation of the wrong shape, where that can be told."""
    # Gymnasium's envs that take turns say neither, and keep there what each of them gave.
    for env, obs in enumerate(getattr(vector, "_env_obs", ())):
        misfit = find_misfit(vector.single_observation_space, obs)
        if misfit is not None:
            return f"env {env}: {misfit}"
    return None
