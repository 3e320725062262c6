"""`Acting`: how a worker acts in its train environments, step by step."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from recollect import keys
from recollect.agent.actors.spaces import map_observation
from recollect.agent.envs.step import Step
from recollect.errors import SchemaError, StorageError
from recollect.roles import (
    ActingStep,
    Algorithm,
    FollowsEpisodes,
    Observation,
    Sample,
    SavableEnvs,
    VectorEnvs,
)
from recollect.scheme.collection.worker.components import Components
from recollect.scheme.collection.worker.counts import Counts
from recollect.scheme.collection.worker.episodes import Episode, EpisodeLog
from recollect.scheme.collection.worker.rows import Rows

_ENVS: Final = "envs"
_OF_ACTOR: Final = "actor"
GAP: Final = "gap"


class StepSink(Protocol):
    """Takes steps: a storage, or what sends them to one. If it has `handle_end_of_episode`, it is called after one."""

    def insert_transition(self, sample: Sample) -> None: ...


class TakenStep(NamedTuple):
    """A step of every environment: what was seen and known before it, what was done, and what it brought."""

    obs: Observation
    rhs: Tensor
    done: Tensor
    action: Tensor
    clipped_action: Tensor
    other: dict[str, Tensor]
    step: Step


class Acting:
    """Takes steps in train environments, and counts them.

    Parameters
    ----------
    components : Components
        Has the environments, the actor and the algorithm; any of them may be replaced between steps.
    counts : Counts
        Where steps and episodes are counted.
    on_step : callable
        Called after every step.

    Attributes
    ----------
    latest_obs : (nested) arrays
        Latest observations `[num_envs, ...]` as the environments gave them.
    rhs, done : tensors
        Hidden states `[num_envs, R]`, and whether the observations begin an episode `[num_envs, 1]`.
    is_mid_step : bool
        Whether a step was interrupted, or not stored: nobody knows how far the environments came.
    num_steps_elsewhere : int
        Steps that other workers have taken, as far as is known here.
    """

    latest_obs: Observation
    rhs: Tensor
    done: Tensor

    def __init__(self, components: Components, counts: Counts, on_step: Callable[[], None]) -> None:
        self._components = components
        self._counts = counts
        self._device = components.device
        self._on_step = on_step
        self._signals: set[str] = set()
        self._has_joined = False
        self.num_steps_elsewhere = 0
        self._rows: Rows | None = None
        # Steps of a stage after which each of its episodes ended.
        self._ends: list[int] = []
        self._num_taken = 0
        # The algorithm that was found to tell nothing beside its actions, so as not to ask it at every random step.
        self._silent_algo: Algorithm | None = None
        self.begin_episodes()

    def begin_episodes(self) -> None:
        """Begin an episode in every environment."""
        envs = self._components.envs_train
        self.latest_obs, self.rhs, self.done = self._components.actor.actor_initial_states(envs.reset())
        self._none = torch.zeros_like(self.done)
        self._log = EpisodeLog(envs.num_envs)
        self._tell_actor({})
        self._chosen: ActingStep | None = None
        self.is_mid_step = False

    @property
    def is_signalled(self) -> bool:
        """Whether any signal came since the last steps were taken."""
        return bool(self._signals)

    def state(self) -> dict[str, Any]:
        """Where the episodes in progress are; only why they cannot be resumed, if the environments cannot be saved."""
        envs = "a step was interrupted" if self.is_mid_step else state_of(self._components.envs_train)
        if isinstance(envs, str):
            return {GAP: envs}
        actor = self._components.actor
        return {
            _ENVS: envs,
            keys.OBS: self.latest_obs,
            keys.RHS: self.rhs,
            keys.DONE: self.done,
            keys.EPISODES: self._log.state(),
            _OF_ACTOR: actor.episodes_state() if isinstance(actor, FollowsEpisodes) else {},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue the episodes of `state`; a `StorageError` if they are of another form than those here."""
        own = {keys.OBS: self.latest_obs, keys.RHS: self.rhs, keys.DONE: self.done}
        for key, values in own.items():
            if (found := _form(state[key])) != (expected := _form(values)):
                raise StorageError(f"the state of episodes has {key} of {found}, expected {expected}")
        cast(SavableEnvs, self._components.envs_train).load_state(state[_ENVS])
        self.latest_obs = map_observation(lambda values: np.asarray(values).copy(), state[keys.OBS])
        self.rhs, self.done = (state[key].to(self._device, copy=True) for key in (keys.RHS, keys.DONE))
        self._log.load_state(state[keys.EPISODES])
        self._tell_actor(state.get(_OF_ACTOR, {}))
        self._chosen = None
        self.is_mid_step = False
        self._has_joined = True

    def _tell_actor(self, state: Mapping[str, Any]) -> None:
        """Tell an actor that follows episodes where they are; nothing stands for new ones."""
        actor = self._components.actor
        if isinstance(actor, FollowsEpisodes):
            actor.load_episodes(state, self._components.envs_train.num_envs)

    def signal(self, name: str) -> None:
        """Receive a signal."""
        self._signals.add(name)

    def forget_leftovers(self) -> None:
        """Forget signals that came too late, and actions that were chosen and not taken."""
        self._signals.clear()
        self._chosen = None

    def follow_run(self, num_run_steps: int, rows: Rows | None = None) -> None:
        """Take into account what other workers have collected: random steps and schedules are those of the run.

        A worker that joins a run on its way does not begin with what was seen at the beginning. `rows` are its own
        among those of all workers, if they act as one.
        """
        has_joined, self._has_joined = self._has_joined, True
        if not has_joined and num_run_steps:
            self._components.envs_train.reseed(num_run_steps)
            self._components.seed_actor(num_run_steps)
            self.begin_episodes()
        self._rows = rows
        if rows is not None and has_joined:
            # Nobody has anything that is not counted yet, and all actions of the run were counted here.
            self.num_steps_elsewhere = num_run_steps - self._counts.num_steps
            return
        before = self._num_steps_after_start()
        # What this worker has sent may not have been counted yet.
        self.num_steps_elsewhere = max(self.num_steps_elsewhere, num_run_steps - self._counts.num_steps)
        after = self._num_steps_after_start()
        if after > before:
            self._components.algo.num_acted += after - before

    def take_steps(self, into: StepSink, num_steps: int, listen_to: Collection[str], fraction: float) -> None:
        """Take `num_steps` steps, or fewer if a signal comes after a fraction of them."""
        self._ends, self._num_taken = [], 0
        for number in range(num_steps):
            if self._signals and number >= fraction * num_steps and self._signals.intersection(listen_to):
                break
            self.store(self.take_step(self._components.algo), into)
        self._signals.clear()

    def placed(self, episodes: Sequence[Episode]) -> tuple[list[Episode], list[int]]:
        """Episodes that ended recently, and the number of each one's last step in the stage; 0 if it is not known.

        Environments are numbered among those of all workers that act as one.
        """
        first = 0 if self._rows is None else self._rows.first
        numbers = [0] * (len(episodes) - len(self._ends)) + self._ends
        return [episode._replace(env=first + episode.env) for episode in episodes], numbers

    def choose_ahead(self) -> None:
        """Choose the actions of the next step now, with the present weights."""
        self._chosen = self._act(self._components.algo)

    def take_step(self, algo: Algorithm) -> TakenStep:
        """Act once in every train environment, and let others see nothing of it yet."""
        self.is_mid_step = True
        action, clipped_action, rhs, other = self._chosen or self._act(algo)
        self._chosen = None
        step = self._components.envs_train.step(clipped_action)  # type: ignore[attr-defined]  # those that act step
        taken = TakenStep(self.latest_obs, self.rhs, self.done, action, clipped_action, other, step)
        self.latest_obs, self.rhs = step.obs, rhs
        self.done = self._none if step.is_plain else torch.from_numpy(step.begins.astype(np.float32)).to(self._device)
        self.is_mid_step = False
        self._on_step()
        return taken

    def store(self, taken: TakenStep, into: StepSink) -> None:
        """Hand on what happened in a step, and count it."""
        is_mid_step, self.is_mid_step = self.is_mid_step, True
        step, ended = taken.step, taken.step.ended
        try:
            into.insert_transition(self._sample(taken, ended))
        except SchemaError as error:
            raise SchemaError(f"{error}{self._where(step, taken.clipped_action)}") from error
        self._components.actor.observe(taken.obs, step.reward, step.begins, self._components.algo.gamma, skip=step.skip)
        self._count(step, ended, into)
        self.is_mid_step = is_mid_step

    def _num_steps_after_start(self) -> int:
        num_steps = self._counts.num_steps + self.num_steps_elsewhere
        return max(0, num_steps - self._components.algo.start_steps)

    def _act(self, algo: Algorithm) -> ActingStep:
        """Choose actions, in all environments of the run if workers act as one."""
        rows = self._rows
        if rows is None:
            return self._choose(algo, self.latest_obs, self.rhs, self.done)
        chosen = self._choose(algo, rows.fill_obs(self.latest_obs), rows.fill(self.rhs), rows.fill(self.done))
        return rows.take_step(chosen, len(self.done))

    def _choose(self, algo: Algorithm, obs: Observation, rhs: Tensor, done: Tensor) -> ActingStep:
        """Choose actions: the algorithm's, or random ones at the very beginning."""
        actor = self._components.actor
        if self._counts.num_steps + self.num_steps_elsewhere >= algo.start_steps:
            return algo.acting_step(obs, rhs, done)
        other: dict[str, Tensor] = {}
        if algo is not self._silent_algo or actor.is_recurrent:
            # A step with random actions needs of it the memory, and what is stored beside actions.
            with algo.preserving_exploration():
                _, _, rhs, other = algo.acting_step(obs, rhs, done)
            self._silent_algo = None if other else algo
        action = actor.random_actions(len(done), obs)
        return action, actor.to_env(action), rhs, other

    def _sample(self, taken: TakenStep, ended: np.ndarray) -> Sample:
        """What the storage takes of one step, `[num_envs, ...]` by key."""
        step = taken.step
        sample = {
            keys.OBS: taken.obs,
            keys.DONE: taken.done,
            keys.ACTION: taken.action,
            keys.REWARD: step.reward,
            keys.NEXT_OBS: step.next_obs,
            keys.NEXT_DONE: ended,
            keys.NEXT_TERMINATED: step.terminated,
        }
        if self._components.actor.is_recurrent:
            sample[keys.RHS] = taken.rhs
        if taken.other:
            stored = self._components.storage.storage_tensors
            sample |= {key: value for key, value in taken.other.items() if key in stored}
        rewarding = getattr(self._components.algo, "intrinsic_reward", None)
        intrinsic = None if rewarding is None else rewarding(step.next_obs)
        if intrinsic is not None:
            sample[keys.IREWARD] = intrinsic
        if step.skip is not None:
            sample[keys.SKIP] = step.skip
        if not step.is_plain and step.cut.any():
            sample[keys.CUT] = step.cut
        return sample

    def _where(self, step: Step, actions: Tensor) -> str:
        """Which environment gave a reward that cannot be learned from, and when; nothing if all are good."""
        bad = np.flatnonzero(~np.isfinite(step.reward[:, 0]))
        if not len(bad):
            return ""
        env = int(bad[0])
        reward, action = step.reward[env, 0], actions[env].tolist()
        return f"; env {env} gave {reward} after {self._counts.num_steps:,} steps, for the action {action}"

    def _count(self, step: Step, ended: np.ndarray, into: StepSink) -> None:
        num_steps = len(ended) if step.skip is None else len(ended) - int(np.count_nonzero(step.skip))
        self._counts.num_steps += num_steps
        episodes = self._log.follow(step, ended)
        if self._rows is not None:
            # All others take as many steps meanwhile.
            self.num_steps_elsewhere += num_steps * (self._rows.num_all // len(ended) - 1)
            self._num_taken += 1
            self._ends += [self._num_taken] * len(episodes)
        if episodes:
            self._counts.episodes.add(episodes)
            if hasattr(into, "handle_end_of_episode"):
                into.handle_end_of_episode()


def state_of(envs: VectorEnvs) -> dict[str, Any] | str:
    """The state of environments; why there is none, if they cannot be saved."""
    return envs.state() if isinstance(envs, SavableEnvs) else f"{type(envs).__name__} has no method state"


def _form(values: Observation) -> object:
    """Dtypes and shapes of (nested) arrays, as nested."""
    if isinstance(values, Mapping):
        return {key: _form(value) for key, value in values.items()}
    array = values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)
    return f"{array.dtype} {array.shape}"
