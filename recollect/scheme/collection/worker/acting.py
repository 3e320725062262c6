"""`Acting`: how a worker acts in its train environments, step by step."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from recollect import keys
from recollect.agent.envs.step import Step
from recollect.errors import SchemaError, WorkerError
from recollect.scheme.collection.worker.episodes import EpisodeLog

if TYPE_CHECKING:
    from recollect.scheme.collection.c_worker import CWorker


class Acting:
    """Takes steps in the train environments of a worker, whose observations and counters it moves on.

    Parameters
    ----------
    worker : CWorker
        The worker; it has its components by the time of the first step.
    """

    def __init__(self, worker: "CWorker") -> None:
        self._worker = worker
        self._log = EpisodeLog(0)
        self._heard: set[str] = set()
        self._is_mid_step = False
        self._has_joined = False
        self._num_steps_elsewhere = 0
        # The algorithm that was found to tell nothing beside its actions, so as not to ask it at every random step.
        self._silent_algo: Any = None

    def begin_episodes(self) -> None:
        """Begin an episode in every environment."""
        worker = self._worker
        worker.latest_obs, worker.rhs, worker.done = worker.actor.actor_initial_states(worker.envs_train.reset())
        self._log = EpisodeLog(worker.envs_train.num_envs)
        self._is_mid_step = False

    def hear(self, word: str) -> None:
        """Take in a word from outside."""
        self._heard.add(word)

    def follow_run(self, num_run_steps: int) -> None:
        """Take into account what other workers have collected, see `CWorker.follow_run`."""
        worker = self._worker
        if not self._has_joined and num_run_steps:
            worker.envs_train.reseed(num_run_steps)
            worker.seed_actor(worker.actor, num_run_steps)
            self.begin_episodes()
        self._has_joined = True
        before = max(0, worker.num_steps + self._num_steps_elsewhere - worker.algo.start_steps)
        # What this worker has sent may not have been counted yet.
        self._num_steps_elsewhere = max(self._num_steps_elsewhere, num_run_steps - worker.num_steps)
        after = max(0, worker.num_steps + self._num_steps_elsewhere - worker.algo.start_steps)
        if after > before:
            worker.algo.num_acted += after - before

    def take_steps(self, into: Any, num_steps: int, listen_to: Collection[str]) -> None:
        """Take `num_steps` steps, or fewer if a word is heard that ends it, and put them into a storage or recorder."""
        worker = self._worker
        if worker.envs_train is None:
            raise WorkerError(f"worker {worker.index_worker} has no train environments; give train_envs_factory")
        if self._is_mid_step:
            self._begin_anew()
        for number in range(num_steps):
            if self._heard and number >= worker.fraction_samples * num_steps and self._heard.intersection(listen_to):
                break
            self._take_step(into)
        self._heard.clear()
        worker.iter += 1

    def _begin_anew(self) -> None:
        """Replace the environments after a step was interrupted: nobody knows how far it came."""
        worker = self._worker
        assert worker.train_envs_factory is not None
        worker.replace_agent_component(keys.ENVS_TRAIN_COMPONENT, worker.train_envs_factory)
        worker.envs_train.reseed(worker.num_steps)
        self.begin_episodes()

    def _take_step(self, into: Any) -> None:
        """Act once in every train environment, and put what happened into a storage or recorder."""
        worker = self._worker
        self._is_mid_step = True
        action, clipped_action, rhs, other = self._act()
        step = worker.envs_train.step(clipped_action)
        ended = step.terminated | step.truncated
        try:
            into.insert_transition(self._sample(step, ended, action, other))
        except SchemaError as error:
            raise SchemaError(f"{error}{self._where(step, clipped_action)}") from error
        worker.actor.observe(worker.latest_obs, step.reward, step.begins, worker.algo.gamma, skip=step.skip)
        self._count(step, ended, into)
        worker.latest_obs, worker.rhs = step.obs, rhs
        worker.done = torch.from_numpy(step.begins.astype(np.float32)).to(worker.device)
        self._is_mid_step = False
        worker.tick()

    def _act(self) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Choose actions: the algorithm's, or random ones at the very beginning."""
        worker = self._worker
        if worker.num_steps + self._num_steps_elsewhere >= worker.algo.start_steps:
            chosen: tuple[Any, Any, Any, dict[str, Any]] = worker.algo.acting_step(
                worker.latest_obs, worker.rhs, worker.done
            )
            return chosen
        rhs, other = self._look_on()
        action = worker.actor.random_actions(worker.envs_train.num_envs)
        return action, worker.actor.to_env(action), rhs, other

    def _look_on(self) -> tuple[Any, dict[str, Any]]:
        """What a step with random actions needs of the algorithm: the memory, and what is stored beside actions."""
        worker = self._worker
        if worker.algo is self._silent_algo and not worker.actor.is_recurrent:
            return worker.rhs, {}
        with worker.algo.aside():
            _, _, rhs, other = worker.algo.acting_step(worker.latest_obs, worker.rhs, worker.done)
        self._silent_algo = None if other else worker.algo
        return rhs, other

    def _sample(self, step: Step, ended: np.ndarray, action: Any, other: Mapping[str, Any]) -> dict[str, Any]:
        """What the storage takes of one step, `[num_envs, ...]` by key."""
        worker = self._worker
        sample = {
            keys.OBS: worker.latest_obs,
            keys.DONE: worker.done,
            keys.ACTION: action,
            keys.REWARD: step.reward,
            keys.NEXT_OBS: step.next_obs,
            keys.NEXT_DONE: ended,
            keys.NEXT_TERMINATED: step.terminated,
        }
        if worker.actor.is_recurrent:
            sample[keys.RHS] = worker.rhs
        if other:
            sample |= {key: value for key, value in other.items() if key in worker.storage.storage_tensors}
        if step.skip is not None:
            sample[keys.SKIP] = step.skip
        if step.cut.any():
            sample[keys.CUT] = step.cut
        return sample

    def _where(self, step: Step, actions: Any) -> str:
        """Which environment gave a reward that cannot be learned from, and when; nothing if all are good."""
        bad = np.flatnonzero(~np.isfinite(step.reward[:, 0]))
        if not len(bad):
            return ""
        env = int(bad[0])
        reward, action = step.reward[env, 0], actions[env].tolist()
        return f"; env {env} gave {reward} after {self._worker.num_steps:,} steps, for the action {action}"

    def _count(self, step: Step, ended: np.ndarray, into: Any) -> None:
        worker = self._worker
        num_skipped = 0 if step.skip is None else int(np.count_nonzero(step.skip))
        worker.num_steps += len(ended) - num_skipped
        episodes = self._log.follow(step, ended)
        if episodes:
            worker.episodes.add(episodes)
            if hasattr(into, "handle_end_of_episode"):
                into.handle_end_of_episode()
