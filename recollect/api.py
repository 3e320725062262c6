"""`Agent`: train, evaluate and save an agent in a few lines."""

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import torch
from numpy.typing import ArrayLike
from rich.console import Console

from recollect import keys
from recollect.agent.envs import VecEnv
from recollect.agent.envs.spaces import have_same_form
from recollect.agent.registry import reference_to
from recollect.agent.storages import Storage
from recollect.agent.storages.base_buffer import BaseBuffer
from recollect.callbacks import Callback, StepFunction, named_callbacks
from recollect.checks import check_count, check_list, check_whole
from recollect.config import RunConfig, build, resolve
from recollect.config.parts import ENV, STORAGE, given_name
from recollect.data.offline import load_data
from recollect.errors import ConfigError
from recollect.export.card import ModelCard, Score, curve_of, score_of
from recollect.export.exporter import export_policy, push_to_hub
from recollect.files.lock import FolderLock
from recollect.learner import Learner
from recollect.predictor import Predictor
from recollect.roles import Algorithm, EnvFunction, Observation
from recollect.runs.checkpointing.saving import restore_training, save_training
from recollect.runs.directory import RunDirectory, folder_for, load_config
from recollect.runs.display.progress import Progress
from recollect.runs.plots import plot_run
from recollect.runs.writers import MetricWriter, RowFunction
from recollect.scheme.collection.worker.evaluation import Evaluation, evaluate
from recollect.scheme.scheme import Scheme
from recollect.scheme.threads import choose_threads


class Agent:
    """An agent that learns, is evaluated, acts, and can be saved.

    Parameters
    ----------
    algo : str or type
        Name of the algorithm (`recollect list algorithms` shows them), `"module:Name"`, or a class of your own.
    env : str or callable
        Id of the environment, `"module:Name"`, or a function that makes one; it must be picklable where workers are
        in other processes.
    storage : str or type, optional
        Name of the storage, `"module:Name"` or a class; by default that of the preset, or the plainest one.
    seed : int, optional
        Seed of everything.
    num_envs : int, optional
        Environments that are stepped together.
    preset : str
        Name of a preset; "auto" for the one of this algorithm and environment, if there is one, "none"
        for none.
    **options
        Options of the parts by name, such as `n_step=3`, or with the part where several have it:
        `**{"storage.size": 10_000}`. Networks and other functions can be given as such, or as `"module:Name"`:
        `features=MyNet`.

    Examples
    --------
    >>> agent = Agent("sac", "Pendulum-v1", storage="per", n_step=3, seed=1)
    >>> agent.learn(20_000)  # doctest: +SKIP
    >>> print(agent.evaluate(episodes=100))  # doctest: +SKIP
    -143.8 ± 7.6 over 100 episodes
    """

    def __init__(
        self,
        algo: str | type[Algorithm],
        env: str | EnvFunction,
        storage: str | type[BaseBuffer] | type[Storage] | None = None,
        *,
        seed: int | None = None,
        num_envs: int | None = None,
        preset: str = "auto",
        **options: object,
    ) -> None:
        given = {STORAGE: storage, "seed": seed, "num_envs": num_envs}
        overrides = {name: value for name, value in given.items() if value is not None} | options
        if not isinstance(env, str) and not callable(env):
            raise ConfigError(f"env must be an id or a function that makes an environment, got {env!r}")
        self._set_up(resolve(algo, env, preset=preset, overrides=overrides))
        self._choose_threads()

    def _set_up(self, config: RunConfig) -> None:
        self.config = config
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self.scheme: Scheme = build(config)
        self._predictor = Predictor(self.scheme.algo)
        self._elapsed_s = 0.0
        self._learner: Learner | None = None
        # Where the training left its metrics, and the last evaluation of the weights as they are.
        self._run: RunDirectory | None = None
        self._score: Score | None = None

    def _choose_threads(self) -> None:
        if self.config.threads is None:
            # Kept with a run, so that it is resumed with as many: the last bits of sums depend on them.
            self.config = replace(self.config, threads=choose_threads(self.scheme.algo))

    def __repr__(self) -> str:
        parts = f"{self.config.algo!r}, {self.config.env!r}, {self.config.storage!r}, seed={self.config.seed}"
        return f"Agent({parts}, num_steps={self.num_steps})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @classmethod
    def from_config(cls, config: RunConfig, *, env: EnvFunction | None = None) -> Self:
        """Make an agent as a config says, with environments that a function makes if one is given."""
        agent = cls.__new__(cls)
        agent._set_up(config if env is None else replace(config, env=given_name(ENV, env)))
        return agent

    @classmethod
    def load(cls, folder: str | PathLike[str], *, best: bool = False, trust: bool = False, **parts: object) -> Self:
        """Load the agent that `save`, or a run, left in a folder; it can act, and keep learning in this process.

        Parameters
        ----------
        folder : path-like
            Where it was left.
        best : bool
            Load the agent with the best evaluation of the run, without its replay, instead of the last one.
        trust : bool
            Whether code that its files name as `module:Name` may be imported. Names that are built in or registered
            need no trust, nor do parts that are given here.
        **parts
            Parts to take instead of those that the files name, because they cannot be imported, or are not to be:
            `env=make_task`, `algo=MySAC`, `storage=MyBuffer`, `features=MyNet`.
        """
        run = RunDirectory.open(folder)
        agent = cls.from_config(load_config(run, trust=trust, **parts))
        agent._elapsed_s = restore_training(run, agent.scheme, best=best).elapsed_s
        agent._run = run
        return agent

    @property
    def num_steps(self) -> int:
        """Env steps learned from so far."""
        return self.scheme.num_steps

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the last training, by the names in `recollect.metrics`; none before the first one."""
        return {} if self._learner is None else self._learner.get_metrics()

    def learn(
        self,
        steps: int,
        *,
        log_dir: str | PathLike[str] | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback | StepFunction] = (),
        writers: Sequence[MetricWriter | RowFunction] = (),
    ) -> Self:
        """Learn for some more env steps, over all environments together.

        An agent that was made with `data` begins with them in its storage, and with `updates` from them alone.

        After Ctrl-C the agent is in the state of the last complete update and can keep learning. SIGTERM and SIGHUP
        are handled alike: with a folder a checkpoint is saved, then `SystemExit` is raised.

        Parameters
        ----------
        steps : int
            How many. Update stages are not cut short, so it may become up to one stage more. 0 if there are updates
            from data.
        log_dir : path-like, optional
            Folder of a new run to keep config, metrics, checkpoints and the learning curve in.
        progress : bool, optional
            Show progress; by default on a terminal and in a notebook.
        callbacks : sequence of Callback or function
            What runs in the training loop, such as `StopAt(200)`; a function is called with the learner after every
            update stage. Those that the config names come first.
        writers : sequence of MetricWriter or function
            Where metrics go besides the folder; a function gets each row as a dict.
        """
        check = check_whole if self.config.updates else check_count
        target_steps = self.num_steps + check("steps", steps)
        load_data(self.config, self.scheme)
        config = replace(self.config.with_defaults(), steps=target_steps)
        learner = Learner(
            self.scheme,
            target_steps,
            log_dir,
            offline_updates=config.updates,
            config=config.to_document(),
            **config.checkpoints(),
            writers=writers,
            callbacks=[*named_callbacks(config), *check_list("callbacks", callbacks)],
        )
        learner.elapsed_s = self._elapsed_s
        self._learner, self._score = learner, None
        self._run = learner.run or self._run
        try:
            with Progress(target_steps) if _shows(progress) else nullcontext() as display:
                learner.train(display.update if display else None)
            if learner.run is not None:
                plot_run(learner.run.path)
        finally:
            self._elapsed_s = learner.elapsed_s
            learner.close()
        return self

    def evaluate(self, episodes: int | None = None, *, env: str | EnvFunction | None = None) -> Evaluation:
        """Act without exploration for some episodes.

        Parameters
        ----------
        episodes : int, optional
            How many; by default as many as the algorithm's config says.
        env : str or callable, optional
            Another environment with the same spaces, once it is in the run's wrappers: its id, or a function that
            makes one.
        """
        num_episodes = self.scheme.algo.num_test_episodes if episodes is None else episodes
        if env is None:
            found = self.scheme.col_worker.evaluate_episodes(num_episodes)
            error = None if len(found.returns) < 2 else found.standard_error
            self._score = Score(found.mean, error, f"{len(found.returns)} episodes without exploration")
            return found
        with closing(self._envs_like_ours(env)) as envs:
            return evaluate(self.scheme.algo, self.scheme.actor, envs, num_episodes)

    def _envs_like_ours(self, env: str | EnvFunction) -> VecEnv:
        factory, action_space, obs_space = VecEnv.create_factory(
            env, {}, self.config.num_test_envs, seed=self.config.seed, wrappers=self.config.wrappers
        )
        actor = self.scheme.actor
        pairs = {"observations": (actor.obs_space, obs_space), "actions": (actor.action_space, action_space)}
        for what, (ours, theirs) in pairs.items():
            if not have_same_form(ours, theirs):
                name = env if isinstance(env, str) else reference_to(env)
                raise ConfigError(f"the agent's {what} are {ours}, those of {name} {theirs}; give an env like its own")
        return factory(self.scheme.col_worker.device, mode=keys.TEST)

    def predict(self, obs: Observation, deterministic: bool = True, *, action_masks: ArrayLike | None = None) -> Any:
        """Choose an action for an observation, or actions for a batch of them.

        A recurrent agent remembers the observations before; call `begin_episode` where one begins.

        Parameters
        ----------
        obs : array or dict of arrays
            As the environment gives it, or several with an axis more in front.
        deterministic : bool
            Take the most likely action, without exploration.
        action_masks : array, optional
            Which actions are allowed, 1 or 0 for each, where the environment masks them and `obs` does not hold it.

        Returns
        -------
        action
            As the environment takes it: an int for a Discrete action space, else an array.
        """
        if self._predictor.algo is not self.scheme.algo:  # replaced, and the memory with it
            self._predictor = Predictor(self.scheme.algo)
        return self._predictor.predict(obs, deterministic, action_masks=action_masks)

    def begin_episode(self) -> None:
        """Forget what was observed before; only a recurrent agent remembers anything."""
        self._predictor.begin_episode()

    def save(self, folder: str | PathLike[str], *, with_storage: bool = False) -> Path:
        """Write a checkpoint to a folder, for `load`; with the replay only if asked for.

        Parameters
        ----------
        folder : path-like
            A new one, or one that already holds an agent of the same config. If it holds another agent, a numbered
            folder is made beside it, with a warning, so that neither is lost. One that another process trains in is
            refused.
        with_storage : bool
            Save the replay too, so that learning can resume at once. One that is already there is always brought up
            to date.
        """
        run = folder_for(Path(folder), self.config)
        with FolderLock(run.path):
            with_storage = with_storage or run.storage_folder.exists()
            return save_training(run, self.scheme, self._elapsed_s, with_storage=with_storage)

    def export(self, path: str | PathLike[str], *, deterministic: bool = True, licence: str | None = None) -> Path:
        """Export the policy, from observation to action, with a model card.

        Parameters
        ----------
        path : path-like
            A file that ends in `.onnx`, `.pt2` (torch.export) or `.safetensors` (weights), each with a `.json` beside
            it that names inputs and outputs; or a folder, which gets the layout of the Hugging Face hub.
        deterministic : bool
            Take the most likely action; else act as in training, with noise as an input.
        licence : str, optional
            Licence of the policy, for its card.
        """
        return export_policy(Path(path), self.scheme.algo, self._card(licence), deterministic=deterministic)

    def push_to_hub(
        self, repo_id: str, *, token: str | None = None, private: bool | None = None, licence: str | None = None
    ) -> str:
        """Upload the policy and its model card to the Hugging Face hub; returns the address of the commit.

        Parameters
        ----------
        repo_id : str
            Name of the repository, `user/name`; it is made if it is not there.
        token : str, optional
            Access token; by default the one that `hf auth login` left.
        private : bool, optional
            Whether a new repository is private.
        licence : str, optional
            Licence of the policy, for its card.
        """
        return push_to_hub(repo_id, self.scheme.algo, self._card(licence), token=token, private=private)

    def _card(self, licence: str | None) -> ModelCard:
        score, curve = self._score, None
        if self._run is not None:
            score, curve = score or score_of(self._run), curve_of(self._run)
        return ModelCard(self.config, self.num_steps, score, curve, licence)

    def close(self) -> None:
        """Close the environments."""
        self.scheme.stop()


def _shows(progress: bool | None) -> bool:
    """Whether to show progress; if nothing was said, where somebody is likely to look."""
    console = Console()
    return console.is_terminal or console.is_jupyter if progress is None else progress
