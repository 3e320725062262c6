"""Mistakes of users, and the whole message that each of them reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import recollect as rc
from recollect.agent.actors.networks.distributions import Deterministic
from recollect.config import RunConfig
from recollect.errors import ConfigError, PartError, RecollectWarning, SchemaError, StorageError
from tests.masked_envs import Gates
from tests.unit.cli.conftest import Run


class TooWide(nn.Identity):
    """Features that are fewer than they say."""

    out_features = 8


class Narrow(nn.Linear):
    """Features that cannot take the observations."""

    out_features = 2

    def __init__(self, obs_space: object) -> None:
        super().__init__(9, 2)


class Forgetful(nn.Identity):
    """A memory whose state is not as wide as it says."""

    out_features = state_size = 3

    def __init__(self, num_features: int, memory_size: int) -> None:
        super().__init__()

    def forward(self, features: torch.Tensor, state: torch.Tensor) -> Any:  # type: ignore[override]
        return features[:, :3], state[:, :1]


def unplugged() -> Any:
    """An environment that cannot be made."""
    raise OSError("no robot here")


def lost(*given: object) -> Any:
    """A function of goals that fails."""
    raise KeyError("goal")


class Scores(nn.Linear):
    """A policy head that gives numbers instead of a distribution."""

    def __init__(self, num_features: int, action_space: Any, config: object) -> None:
        super().__init__(num_features, int(action_space.n))


class Maskless(Scores):
    """A policy head whose distribution cannot leave actions out."""

    def forward(self, features: torch.Tensor) -> Any:
        return Deterministic(super().forward(features).argmax(-1, keepdim=True))


# What is typed, with ~ for a space within a word, and the line that answers it.
TYPED = [
    ("trian", "there is no command 'trian'; did you mean 'train'?"),
    ("train sca", "there is no algorithm 'sca'; did you mean 'sac'?"),
    ("train sac Pendulm-v1", "there is no env 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
    ("train sac CartPole-v1", "SAC (continuous) cannot act in Discrete(2). Use --algo ddqn, ppo or sac-discrete."),
    (
        "train ppo nothing_here:Env-v0",
        "'nothing_here:Env-v0' names a module that cannot be imported: No module named 'nothing_here'",
    ),
    (
        "train ddqn recollect/BitFlip-v0 --set env.bits=3",
        "recollect/BitFlip-v0 does not take the options {'n': 16, 'bits': 3}: "
        "BitFlip.__init__() got an unexpected keyword argument 'bits'",
    ),
    ("train sac Pendulum-v1 --set storage.alhpa=0.6", "storage has no option 'alhpa'; did you mean 'alpha'?"),
    (
        "train sac Pendulum-v1 --set learning_rate=1e-3",
        "a run has no option 'learning_rate'; did you mean 'policy_lr' or 'critic_lr'?",
    ),
    (
        "train sac Pendulum-v1 --set storage",
        "an override is written NAME=VALUE, e.g. storage.alpha=0.6, got 'storage'",
    ),
    (
        "train sac Pendulum-v1 --set alpha=[",
        "'[' is not valid YAML: line 1, column 2: expected the node content, but found '<stream end>'",
    ),
    ("train --sed 3", "recollect train has no option --sed; did you mean '--seed'?"),
    ("train --steps 0", "steps must be at least 1, got 0; to learn from data alone give --data and --updates"),
    ("train iql Pendulum-v1 --updates 9", "updates=9 before the first env step need data; give --data"),
    ("train --steps many", "steps must be a whole number, got 'many'"),
    ("train --seed -1", "seed must be at least 0, got -1"),
    ("train --seeds 0", "--seeds: must be a whole number of at least 1, got '0'; see recollect train --help"),
    ("train --jobs two", "--jobs: must be a whole number of at least 1, got 'two'; see recollect train --help"),
    ("train sac Pendulum-v1 more", "recollect train does not know what to do with 'more'; see recollect train --help"),
    ("train --set algo.gamma=2", "gamma must be a number at least 0 and at most 1, got 2"),
    ("train ddqn CartPole-v1 --callbacks StopAtt", "there is no callback 'StopAtt'; did you mean 'StopAt'?"),
    ("train ddqn CartPole-v1 --wrappers TimeLimt", "there is no wrapper 'TimeLimt'; did you mean 'TimeLimit'?"),
    ("train --vec threads", "vec must be one of 'sync', 'async', 'native', 'envpool', got 'threads'"),
    ("train --preset pendulm-sac", "there is no preset 'pendulm-sac'; did you mean 'pendulum-sac'?"),
    ("train --col-mode fast", "col_mode must be one of 'sync', 'async', got 'fast'"),
    ("train --col-workers -1", "num_col_workers must be at least 0, got -1"),
    ("train ddqn CartPole-v1 --num-envs 0", "num_envs must be at least 1, got 0"),
    ("train ddqn CartPole-v1 --set mini_batch_size=0", "mini_batch_size must be at least 1, got 0"),
    ("train ddqn CartPole-v1 --set storage.size=1.5", "size must be a whole number, got 1.5"),
    (
        "train ddqn CartPole-v1 --set actor.hidden_sizes=big",
        "hidden_sizes must be a list of widths, got 'big'; for two layers of 64 write [64, 64]",
    ),
    ("eval nowhere", "nowhere holds no run: it has no config.yaml"),
    ("eval nowhere --seed one", "--seed: must be a whole number, got 'one'; see recollect eval --help"),
    (
        "eval nowhere --episodes 0",
        "--episodes: must be a whole number of at least 1, got '0'; see recollect eval --help",
    ),
    ("resume nowhere", "nowhere holds no run: it has no config.yaml"),
    ("plot nowhere", "nowhere holds no run: it has no config.yaml"),
    ("plot .", "there is no run to plot: . holds no run: it has no config.yaml"),
    ("list options sca", "there is no 'sca' with options; did you mean 'sac'?"),
    ("list presets pendulum", "recollect list presets takes no names, got pendulum"),
    ("list algoritms", "recollect list does not know 'algoritms'; did you mean 'algorithms'?"),
    ("bench repaly", "recollect bench does not know 'repaly'; did you mean 'replay'?"),
    (
        "train sac Pendulum-v1 --name ../up",
        "--name: must be the name of a folder, got '../up'; --out says where it lies; see recollect train --help",
    ),
    (
        "tune ddqn CartPole-v1 --name a/b",
        "--name: must be the name of a folder, got 'a/b'; --out says where it lies; see recollect tune --help",
    ),
    ("train ddqn CartPole-v1 --set storage=per --set storage.beta=yes", "beta must be a number at least 0, got True"),
    ("train ddqn CartPole-v1 --set storage=ere --set eta=2", "eta must be a number above 0 and at most 1, got 2"),
    (
        "train ddqn CartPole-v1 --set storage=her --set strategy=futur",
        "strategy must be one of 'future', 'final', 'episode', 'random', got 'futur'",
    ),
    (
        "train ddqn CartPole-v1 --set storage=her --set share=1.5",
        "share must be a number at least 0 and at most 1, got 1.5",
    ),
    ("train rlpd Pendulum-v1 --set data_share=2", "data_share must be a number at least 0 and at most 1, got 2"),
    (
        "train ddqn CartPole-v1 --set storage.path=here",
        "backing='file' needs path=, a folder for the store's files; no other backing takes a path",
    ),
    ("train sac Pendulum-v1 --set actor.hidden_sizes=[0]", "hidden_sizes must be at least 1, got 0"),
    ("train sac Pendulum-v1 --set memory=rnn", "there is no memory 'rnn'; known: gru, lstm"),
    ("train sac Pendulum-v1 --set features=mine.Net", "there are no features 'mine.Net'; did you mean 'mine:Net'?"),
    ("train sac Pendulum-v1 --set features=json:Net", "features 'json:Net' is not there; see json"),
    ("train sac Pendulum-v1 --set critic_lr=fast", "critic_lr must be a number at least 0, got 'fast'"),
    ("train sac Pendulum-v1 --set batch_size=64", "a run has no option 'batch_size'; did you mean 'mini_batch_size'?"),
    ("train sac Pendulum-v1 --set buffer_size=64", "a run has no option 'buffer_size'; did you mean 'storage.size'?"),
    ("train sac Pendulum-v1 --set num_critics=0", "num_critics must be at least 1, got 0"),
    ("train ppo CartPole-v1 --set clip=-1", "clip must be a number above 0, got -1"),
    ("train ppo CartPole-v1 --set storage=ere", "ppo cannot learn from the storage 'ere'; use gae or vtrace"),
    ("train c51 CartPole-v1 --set num_atoms=1", "num_atoms must be at least 2, got 1; ddqn learns the mean alone"),
    ("train qr-dqn CartPole-v1 --set num_quantiles=0", "num_quantiles must be at least 1, got 0"),
    ("train ddqn CartPole-v1 --set compile=maybe", "compile must be true or false, got 'maybe'"),
    ("train ddqn CartPole-v1 --set precision=float16", "precision must be one of 'float32', 'bfloat16', got 'float16'"),
    ("train ddqn CartPole-v1 --set scheme.replay_ratio=-1", "replay_ratio must be a number above 0, got -1"),
    ("train ddqn CartPole-v1 --set =3", "an override is written NAME=VALUE, e.g. storage.alpha=0.6, got '=3'"),
    ("train sac HalfCheetah-v9", "there is no env 'HalfCheetah-v9'; did you mean 'HalfCheetah-v5'?"),
    ("train sac", "the run needs an env, a Gymnasium id, e.g. Pendulum-v1"),
    (
        "train ddqn json:Zzyzx",
        "there is no env 'json:Zzyzx': json neither has nor registers 'Zzyzx'; `gymnasium.pprint_registry()` "
        "shows those that there are",
    ),
    (
        "train collections:Counter CartPole-v1",
        "algo must be a class with create_factory, got <class 'collections.Counter'>; derive it from DDQN, SAC or "
        "another algorithm",
    ),
    (
        "train recollect:PERBuffer CartPole-v1",
        "algo must be an algorithm, got <class 'recollect.agent.storages.off_policy.per_buffer.PERBuffer'>; derive "
        "it from DDQN, SAC or another algorithm",
    ),
    (
        "train ddqn CartPole-v1 --set storage=recollect:SAC",
        "storage must be a storage, got <class 'recollect.agent.algorithms.off_policy.sac.SAC'>; derive it from "
        "ReplayBuffer or another storage",
    ),
    (
        "train ddqn CartPole-v1 --wrappers TimeLimit",
        "the wrapper gymnasium.wrappers.common:TimeLimit does not take the options {}: TimeLimit.__init__() missing "
        "1 required positional argument: 'max_episode_steps'",
    ),
    (
        "train ddqn CartPole-v1 --wrappers [3]",
        "a wrapper is a name, 'module:Name', a class, a function, or a mapping of its name and options, got 3",
    ),
    (
        "train ddqn CartPole-v1 --vec native --wrappers TimeLimit",
        "wrappers go around single envs, which 'native' has none of; use 'sync' or 'async'",
    ),
    (
        "train ddqn CartPole-v1 --callbacks StopAt",
        "the callback recollect.callbacks.stopping:StopAt does not take the options {}: StopAt.__init__() missing 1 "
        "required positional argument: 'score'",
    ),
    ("train ddqn CartPole-v1 --callbacks {name:~StopAt,~score:~high}", "score must be a number, got 'high'"),
    ("train ddqn CartPole-v1 --callbacks {name:~SaveEvery,~num_steps:~0}", "num_steps must be at least 1, got 0"),
    (
        "train ddqn CartPole-v1 --callbacks {name:~StopWithoutImprovement,~patience:~0}",
        "patience must be at least 1, got 0",
    ),
    (
        "train ddqn CartPole-v1 --callbacks {name:~Schedule,~option:~critic_rl}",
        "there is no option 'critic_rl' that can change; did you mean 'algo.critic_lr'?",
    ),
    (
        "train ddqn CartPole-v1 --callbacks {name:~Schedule,~option:~critic_lr,~how:~cosin}",
        "a schedule is 'linear', 'cosine', points or a function, got 'cosin'",
    ),
    ("train ddqn CartPole-v1 --stop-at high", "--stop-at: invalid float value: 'high'; see recollect train --help"),
    ("train ddqn CartPole-v1 --max-consecutive-failures -1", "max_consecutive_failures must be at least 0, got -1"),
    ("train ddqn CartPole-v1 --vec async --env-timeout-s 0", "env_timeout_s must be a number above 0, got 0"),
    ("train ddqn CartPole-v1 --checkpoint-minutes -1", "checkpoint_minutes must be a number above 0, got -1"),
    ("train ddqn CartPole-v1 --keep-checkpoints 0", "keep_checkpoints must be at least 1, got 0"),
    ("train --config nothere.yaml", "there is no config file 'nothere.yaml'"),
    ("eval nowhere --record x", "--record: must be a whole number of at least 1, got 'x'; see recollect eval --help"),
    ("export nowhere --to p.onnx", "nowhere holds no run: it has no config.yaml"),
    ("data inspect nothere.npz", "recollect data does not know 'inspect'; known: convert, info, merge, slice"),
    (
        "checkpoints nowhere --keep 0",
        "--keep: must be a whole number of at least 1, got '0'; see recollect checkpoints --help",
    ),
    (
        "resume nowhere --steps -5",
        "--steps: must be a whole number of at least 1, got '-5'; see recollect resume --help",
    ),
]

# What a config file holds, and the line that answers `recollect train --config`.
WRITTEN = [
    ("run.yaml", "algo: ddqn\nenv: CartPole-v1\nstesp: 5\n", "a run has no entry 'stesp'; did you mean 'steps'?"),
    (
        "run.yaml",
        "algo: {name: ddqn, critic_rl: 0.1}\nenv: CartPole-v1\n",
        "algo has no option 'critic_rl'; did you mean 'critic_lr'?",
    ),
    ("run.yaml", "algo: ddqn\n", "the run needs an env, a Gymnasium id, e.g. Pendulum-v1"),
    (
        "run.yaml",
        "algo: ddqn\nseed: 1\nseed: 2\n",
        "run.yaml is not valid YAML: line 3, column 1: 'seed' is given twice; keep one of them",
    ),
    (
        "run.yaml",
        "algo: [ddqn\n",
        "run.yaml is not valid YAML: line 2, column 1: expected ',' or ']', but got '<stream end>'",
    ),
    ("run.yaml", "- ddqn\n", "run.yaml must be a mapping of names to values, got list"),
    ("run.yaml", "algo: {name: 5}\n", "run.yaml: the name of algo must be a string, got 5"),
    ("run.yaml", "3: 4\n", "run.yaml: names must be strings, got 3; put it in quotes"),
    ("run.yaml", "algo: ddqn\nenv: CartPole-v1\nsteps: many\n", "steps must be a whole number, got 'many'"),
    (
        "run.yaml",
        "algo: ppo\nenv: CartPole-v1\nstorage: per\n",
        "ppo cannot learn from the storage 'per'; use gae or vtrace",
    ),
    (
        "run.yaml",
        "algo: ddqn\nenv: mine:Thing\n",
        "run.yaml asks to import the module mine; a file can name anything, so allow it only if you trust where it is "
        "from: --trust",
    ),
    ("run.toml", "algo = \n", "run.toml is not valid TOML: Invalid value (at line 1, column 8)"),
    ("run.json", "{}", "a config file ends in .yaml, .yml or .toml, got 'run.json'"),
]


def agent(algo: str = "ddqn", env: Any = "CartPole-v1", storage: str | None = None, **options: Any) -> rc.Agent:
    return rc.Agent(algo, env, storage, **options)


# What is called, and the error that answers it.
CALLED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: agent("sca"), ConfigError, "there is no algorithm 'sca'; did you mean 'sac'?"),
    (lambda: agent(env="CartPol-v1"), ConfigError, "there is no env 'CartPol-v1'; did you mean 'CartPole-v1'?"),
    (lambda: agent(storage="pre"), ConfigError, "there is no storage 'pre'; did you mean 'per'?"),
    (lambda: agent(storage="per", alhpa=0.5), ConfigError, "a run has no option 'alhpa'; did you mean 'alpha'?"),
    (
        lambda: agent(storage="replay", alpha=0.6),
        ConfigError,
        "storage has no option 'alpha'; per, ere, her, mixed have it, replay has not",
    ),
    (
        lambda: agent(env="Pendulum-v1"),
        ConfigError,
        "DDQN cannot act in Box(-2.0, 2.0, (1,), float32). Use the algorithm ddpg, mpo, ppo, sac or td3.",
    ),
    (
        lambda: agent("ppo", storage="per"),
        ConfigError,
        "ppo cannot learn from the storage 'per'; use gae or vtrace",
    ),
    (lambda: agent(env=lambda: 3), ConfigError, "env_fn must return a Gymnasium environment, got 3"),
    (lambda: agent(gamma=1.5), ConfigError, "gamma must be a number at least 0 and at most 1, got 1.5"),
    (lambda: agent(storage="nstep", n_step=0), ConfigError, "n_step must be at least 1, got 0"),
    (lambda: agent(activation="gelu"), ConfigError, "activation must be one of 'relu', 'tanh', got 'gelu'"),
    (lambda: agent(seed=-1), ConfigError, "seed must be at least 0, got -1"),
    (
        lambda: agent(sequence_overlap=3),
        ConfigError,
        "'sequence_overlap' is an option of actor and storage; say which: actor.sequence_overlap",
    ),
    (
        lambda: agent("ppo", start_steps=5),
        ConfigError,
        "start_steps must be 0, got 5; on-policy algorithms learn only from actions of their own policy",
    ),
    (
        lambda: agent(preset="cartpole-dqn"),
        ConfigError,
        "there is no preset 'cartpole-dqn'; did you mean 'cartpole-ddqn'?",
    ),
    (lambda: agent().learn(0), ConfigError, "steps must be at least 1, got 0"),
    (lambda: agent().evaluate(0), ConfigError, "num_episodes must be at least 1, got 0"),
    (
        lambda: agent().predict(np.zeros(3, np.float32)),
        SchemaError,
        "an observation must have the shape (4,), or [batch, *(4,)], got (3,)",
    ),
    (
        lambda: agent().predict([0.0, np.nan, 0.0, 0.0]),
        SchemaError,
        "an observation is NaN: [0.0, nan, 0.0, 0.0]; check what the environment gives",
    ),
    (
        lambda: agent().predict(np.zeros(4), action_masks=[1, 0]),
        SchemaError,
        "the agent's environment masks no actions, got action_masks; leave them out",
    ),
    (
        lambda: agent(env=Gates).predict(np.zeros(4)),
        SchemaError,
        "the agent's environment masks actions, and none were given; pass action_masks=, as the environment gives them "
        "in info['action_mask'] or by its method action_masks()",
    ),
    (
        lambda: agent(features=TooWide),
        ConfigError,
        "features say out_features=8, and make (2, 4) of two observations, expected (2, 8); set out_features to the "
        "width of what `forward` returns, one row for each observation",
    ),
    (
        lambda: agent(features=Narrow),
        PartError,
        "features must take observations of Box([-4.8               -inf -0.41887903        -inf], "
        "[4.8               inf 0.41887903        inf], (4,), float32): RuntimeError: "
        "mat1 and mat2 shapes cannot be multiplied (2x4 and 9x2)",
    ),
    (
        lambda: agent(features=rc.PERBuffer),
        PartError,
        "features must be made of an observation space: BaseBuffer.__init__() missing 4 required positional arguments: "
        "'device', 'actor', 'algorithm', and 'envs'",
    ),
    (
        lambda: agent(memory=Narrow),
        PartError,
        "memory must be made of a number of features and memory_size: "
        "Narrow.__init__() takes 2 positional arguments but 3 were given",
    ),
    (
        lambda: agent(memory=Forgetful),
        ConfigError,
        "memory says out_features=3 and state_size=3, and makes output and state of shapes ((2, 3), (2, 1)) of two "
        "rows, expected ((2, 3), (2, 3))",
    ),
    (
        lambda: agent(critic_head=Narrow),
        PartError,
        "critic_head must be made of a number of features, an action space and the actor's config: "
        "Narrow.__init__() takes 2 positional arguments but 4 were given",
    ),
    (
        lambda: agent("ppo", policy_head=Narrow),
        PartError,
        "policy_head must be made of a number of features, an action space and the actor's config: "
        "Narrow.__init__() takes 2 positional arguments but 4 were given",
    ),
    (
        lambda: agent(env=unplugged),
        PartError,
        "VecEnvFactory('unplugged', vec_env_size=1, kind='sync', seed=0) cannot make its environment: "
        "OSError: no robot here",
    ),
    (
        lambda: agent(wrappers=[lost]),
        PartError,
        "the wrapper tests.unit.cli.test_mistakes:lost does not take the options {}: KeyError: 'goal'",
    ),
    (
        lambda: agent(env="recollect/BitFlip-v0", storage="her", her_function=lost, start_steps=50).learn(100),
        PartError,
        "her_function must take obs, rhs, next_obs, next_rhs, reward, initial_state and final_state: KeyError: 'goal'",
    ),
    (
        lambda: agent(env="recollect/BitFlip-v0", storage="her", compute_reward=lost, start_steps=50).learn(100),
        PartError,
        "lost must take achieved goals, desired goals and a dict: KeyError: 'goal'",
    ),
    (
        lambda: agent().learn(10, callbacks=[rc.RecordVideo(5)]),
        ConfigError,
        "RecordVideo.on_start: the learner has no folder to save to or resume from; give log_dir",
    ),
    (
        lambda: agent("ppo", policy_head=Scores),
        ConfigError,
        "policy_head must return a Distribution of recollect.agent.actors.networks.distributions, such as Gaussian or "
        "Categorical, got Tensor of torch",
    ),
    (
        lambda: agent("ppo", Gates, policy_head=Maskless),
        ConfigError,
        "the environment masks actions, and Deterministic, which policy_head returns, has no method masked(mask); "
        "write one that returns the same distribution among allowed actions, or return a Categorical",
    ),
    (
        lambda: agent(env=Gates).predict(np.zeros(4), action_masks=[1, 0]),
        SchemaError,
        "'action_mask' of an observation must have the shape (4,), or [batch, *(4,)], got (2,)",
    ),
    (
        lambda: agent(env=Gates).predict(np.zeros(4), action_masks=[0, 0, 0, 0]),
        SchemaError,
        "action_masks allow no action: [[0, 0, 0, 0]]; 1 stands for allowed",
    ),
    (
        lambda: agent(env="recollect/BitFlip-v0").predict([0, 1]),
        SchemaError,
        "an observation must be a dict with ['achieved_goal', 'desired_goal', 'observation'], got list",
    ),
    (
        lambda: agent().learn(10, callbacks=[rc.StopAt]),  # type: ignore[list-item]
        ConfigError,
        "callbacks must be instances of Callback or functions of the learner, got <class "
        "'recollect.callbacks.stopping.StopAt'>; give an instance, StopAt(...)",
    ),
    (
        lambda: agent().learn(10, callbacks=len),  # type: ignore[arg-type]
        ConfigError,
        "callbacks must be a list, got <built-in function len>; write callbacks=[...]",
    ),
    (
        lambda: agent().learn(10, writers=len),  # type: ignore[arg-type]
        ConfigError,
        "writers must be a list, got <built-in function len>; write writers=[...]",
    ),
    (
        lambda: agent(callbacks=[rc.StopAt(3)]),
        ConfigError,
        "a config names callbacks, got a StopAt that is made already; write {'name': 'StopAt', ...} with its options, "
        "or give it to learn(callbacks=[...])",
    ),
    (
        lambda: agent(n_step=3, storage="nstep").learn(10, callbacks=[rc.Schedule("n_step")]),
        ConfigError,
        "Schedule(n_step) comes to a value that cannot be: n_step must be at least 1, got 0",
    ),
    (
        lambda: agent(critic_head=Scores, env=Gates, algo="c51"),
        ConfigError,
        "critic_head must take features and give every action's value, in 51 atoms: expected (2, 4, 51) of two rows, "
        "got (2, 4)",
    ),
    (
        lambda: agent(callbacks=[{"name": "StopAt", "scroe": 3}]).learn(10),
        ConfigError,
        "the callback recollect.callbacks.stopping:StopAt does not take the options {'scroe': 3}: "
        "StopAt.__init__() got an unexpected keyword argument 'scroe'",
    ),
    (
        lambda: agent().learn(10, callbacks=[rc.Schedule("critic_rl")]),
        ConfigError,
        "there is no option 'critic_rl' that can change; did you mean 'algo.critic_lr'?",
    ),
    (
        lambda: rc.Schedule("critic_lr", "exponential"),
        ConfigError,
        "a schedule is 'linear', 'cosine', points or a function, got 'exponential'",
    ),
    (
        lambda: agent().learn(10, writers=[3]),  # type: ignore[list-item]
        ConfigError,
        "writers must have the methods write and close, or be functions of a row, got 3",
    ),
    (
        lambda: agent(optimiser="adman"),
        ConfigError,
        "optimiser must be one of adadelta, adafactor, adagrad, adam, adamax, adamw, asgd, nadam, radam, rmsprop, "
        "rprop, sgd, got 'adman'; did you mean 'adamax'?",
    ),
    (
        lambda: agent("sac", "Pendulum-v1", dueling=True),
        ConfigError,
        "dueling needs a critic of kind 'q_values', got 'q_action'; leave dueling out",
    ),
    (
        lambda: agent(**{"actor.sequence_overlap": 3}),
        ConfigError,
        "sequence_overlap warms a memory up, and there is none, got 3; choose memory='gru' or 'lstm', or leave "
        "sequence_overlap at 0",
    ),
    (
        lambda: rc.register("algorithm", "sac", rc.SAC),
        ConfigError,
        "algorithm 'sac' is built in; register yours under another name",
    ),
    (lambda: rc.Agent.load("nowhere"), ConfigError, "nowhere holds no run: it has no config.yaml"),
    (
        lambda: rc.SAC.create_factory(crtic_lr=1e-3),  # type: ignore[call-arg]
        ConfigError,
        "SAC (continuous) has no option 'crtic_lr'; did you mean 'critic_lr'?",
    ),
    (
        lambda: rc.VecEnv.create_factory("CartPole-v1", kind="asink"),
        ConfigError,
        "there is no kind 'asink' of vector env; did you mean 'async'?",
    ),
    (
        lambda: RunConfig.from_document({"env": "Pendulum-v1"}),
        ConfigError,
        "the run needs an algo, e.g. sac; `recollect list algorithms` shows all",
    ),
]


def memory(num_steps: int = 10, **options: Any) -> rc.PERBuffer:
    """A storage that stands alone, with some steps of one environment."""
    storage = rc.PERBuffer.standalone(**{"size": 100, "num_envs": 1, "alpha": 0.6, "seed": 1, **options})
    for _ in range(num_steps):
        add(storage)
    return storage


def add(storage: rc.PERBuffer, **given: np.ndarray) -> None:
    obs, flag = np.zeros((1, 3), np.float32), np.zeros(1, bool)
    step = {"obs": obs, "action": obs, "reward": np.zeros(1, np.float32), "next_obs": obs}
    storage.add(**{**step, "terminated": flag, "truncated": flag, **given})  # type: ignore[arg-type]


STORED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: memory(size=0), ConfigError, "size must be at least 1, got 0"),
    (lambda: memory(aplha=0.6), ConfigError, "PERBuffer has no option 'aplha'; did you mean 'alpha'?"),
    (lambda: memory(gamma=2), ConfigError, "gamma must be a number at least 0 and at most 1, got 2"),
    (lambda: memory(alpha=-1), ConfigError, "alpha must be a number at least 0, got -1"),
    (lambda: memory(backing="disk"), ConfigError, "backing must be one of ram, shared, file, got 'disk'"),
    (
        lambda: memory(backing="file"),
        ConfigError,
        "backing='file' needs path=, a folder for the store's files; no other backing takes a path",
    ),
    (lambda: memory(0).sample(4), StorageError, "the storage is empty: insert data before sampling or reading"),
    (lambda: memory().sample(0), ConfigError, "mini_batch_size must be at least 1, got 0"),
    (
        lambda: add(memory(), reward=np.full(1, np.nan, np.float32)),
        SchemaError,
        "a reward is NaN or infinite; rewards must be finite",
    ),
    (
        lambda: add(memory(), action=np.zeros((1, 2), np.float32)),
        SchemaError,
        "Action: expected shape (1, 3) and dtype float32, got (1, 2) and float32; "
        "shapes and dtypes are fixed by the first sample",
    ),
    (
        lambda: add(memory(0), obs=np.array([["a"]])),
        SchemaError,
        "Observation has dtype <U1; expected bool, integers or floats",
    ),
    (
        lambda: add(memory(), obs=np.full((1, 3), np.nan, np.float32)),
        SchemaError,
        "Observation of env 0 is NaN at step 0 of 1 given; let the environment, or a wrapper around it, give numbers",
    ),
    (
        lambda: add(memory(), obs=np.zeros((1, 4), np.float32)),
        SchemaError,
        "Observation: expected shape (1, 3) and dtype float32, got (1, 4) and float32; "
        "shapes and dtypes are fixed by the first sample",
    ),
    (
        lambda: add(memory(0), obs=np.zeros(3, np.float32), next_obs=np.zeros(3, np.float32)),
        SchemaError,
        "Observation has rows of 3 envs, expected 1; add the axis of envs to arrays of one env, obs[None]",
    ),
    (
        lambda: add(memory(0), reward=np.zeros(3)),
        SchemaError,
        "expected one number for each of 1 envs, got shape (3,)",
    ),
    (
        lambda: add(memory(0), terminated=np.array([2])),
        SchemaError,
        "a flag (Done, NextDone, NextTerminated, Cut) is neither 0 nor 1",
    ),
    (
        lambda: (storage := memory()).update_priorities(storage.sample(4)["idxs"], np.ones(4)),
        SchemaError,
        "update_priorities takes a batch as it was drawn, which knows its ids, got Tensor; give the batch, not its "
        "idxs",
    ),
    (
        lambda: memory().update_priorities({}, np.ones(4)),
        SchemaError,
        "a batch lacks idxs: give it as it was drawn, with the ids of its rows",
    ),
    (
        lambda: memory().update_priorities({"idxs": np.ones(4)}, np.ones(4)),
        SchemaError,
        "expected ids that are whole numbers, got torch.float64; give idxs as they were drawn",
    ),
    (
        lambda: memory(sequence_overlap=2),
        ConfigError,
        "sequence_overlap=2 needs sequence_length=, or a recurrent actor: there are no sequences that could overlap",
    ),
    (
        lambda: memory().update_storage_parameter("alpha", -1),
        ConfigError,
        "alpha must be a number at least 0, got -1",
    ),
    (
        lambda: (storage := memory()).update_priorities(storage.sample(4), np.ones(3)),
        SchemaError,
        "expected one TD error for each of 4 rows, got shape (3,)",
    ),
    (
        lambda: (storage := memory()).update_priorities(storage.sample(4), np.full(4, np.nan)),
        SchemaError,
        "a TD error is negative, NaN or infinite; give finite ones, e.g. (q - target).abs()",
    ),
    (
        lambda: memory().get_data_slice(5, 3),
        ConfigError,
        "positions 5 to 3 are not within the 10 stored steps; 0 is the oldest",
    ),
]


# What is called, and the warning that answers it: the call does what can be done.
WARNED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: memory().sample(500),
        "a batch of 500 steps is larger than the storage, which holds 100: its steps repeat; use a larger size or a "
        "smaller mini_batch_size",
    ),
    (
        lambda: (storage := memory(alpha=0.0)).update_priorities(storage.sample(4), np.ones(4)),
        "this PERBuffer draws uniformly, so priorities have no effect; use a PERBuffer with an alpha, e.g. alpha=0.6",
    ),
    (
        lambda: memory().update_storage_parameter("alhpa", 0.3),
        "PERBuffer has no parameter 'alhpa', nothing was changed; did you mean 'alpha'?",
    ),
    (
        lambda: agent(storage="her"),
        "nothing is relabelled in hindsight, because the environment has no goals; it needs the goal's reward: an "
        "environment with compute_reward(achieved_goal, desired_goal, info), or compute_reward=, or a her_function",
    ),
]


@pytest.mark.parametrize(("words", "message"), TYPED)
def test_a_mistake_on_the_command_line_is_one_line_and_exit_code_2(
    words: str, message: str, recollect: Run, tmp_path: Path
) -> None:
    outcome = recollect(*(word.replace("~", " ") for word in words.split()))
    assert (outcome.code, outcome.err, outcome.out) == (2, f"error: {message}\n", "")
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.parametrize(("name", "text", "message"), WRITTEN)
def test_a_mistake_in_a_file_is_one_line_too(
    name: str, text: str, message: str, recollect: Run, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    outcome = recollect("train", "--config", name)
    assert (outcome.code, outcome.err, outcome.out) == (2, f"error: {message}\n", "")


def test_a_mistake_in_own_code_is_shown_where_it_is(recollect: Run, tmp_path: Path) -> None:
    (tmp_path / "own_mistakes.py").write_text(
        "import recollect as rc\n"
        "class Net:\n"
        "    def __init__(self, obs_space):\n"
        "        self.width = obs_space.widht\n"
        "class Watch(rc.Callback):\n"
        "    def on_start(self, learner):\n"
        "        learner.scheme.sheme\n"
    )
    words = ["train", "ddqn", "CartPole-v1", "--steps", "50", "--set", "start_steps=20"]
    made = recollect(*words, "--set", "features=own_mistakes:Net")
    told = "features must be made of an observation space: AttributeError: 'Box' object has no attribute 'widht'"
    begin, *frames, kind, last = made.err.splitlines()
    assert (made.code, begin, last) == (2, "Traceback (most recent call last):", f"error: {told}")
    assert kind == "AttributeError: 'Box' object has no attribute 'widht'"
    assert 'own_mistakes.py", line 4, in __init__' in frames[0]
    assert not any("site-packages/recollect" in line or "actors/networks" in line for line in frames)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".py" and "cache" not in path.name] == []
    called = recollect(*words, "--callbacks", "own_mistakes:Watch")
    assert called.code == 2
    assert "line 7, in on_start" in called.err
    assert called.err.count("Traceback") == 1
    assert "error: Watch.on_start failed with AttributeError: 'Scheme' object has no attribute 'sheme'" in called.err


@pytest.mark.parametrize(
    ("call", "kind", "message"), [*CALLED, *STORED], ids=[message[:60] for *_, message in [*CALLED, *STORED]]
)
def test_a_mistake_in_python_raises_a_typed_error(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(("call", "message"), WARNED, ids=[message[:60] for _, message in WARNED])
def test_a_mistake_that_can_be_lived_with_is_warned_of(call: Callable[[], object], message: str) -> None:
    with pytest.warns(RecollectWarning) as caught:
        call()
    assert [str(warning.message) for warning in caught] == [message]


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(device: str, recollect: Run) -> None:
    outcome = recollect("train", "--device", device)
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: device {device!r} cannot be used: ")
    assert "; this machine has cpu" in outcome.err


def test_the_table_is_long_enough() -> None:
    assert sum(map(len, (TYPED, WRITTEN, CALLED, STORED, WARNED))) >= 180
