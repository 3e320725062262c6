"""The door for those who want an agent in a few lines."""

import os
import signal
import subprocess
import sys
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv

import recollect
from recollect import DDQN, Agent, GAEBuffer, OffPolicyActor, PERBuffer, api, metrics
from recollect.errors import CallbackError, ConfigError, RecollectWarning
from recollect.learner import Learner
from recollect.runs import RunDirectory
from recollect.runs.checkpointing.saving import save_training
from recollect.runs.writers import read_rows
from recollect.scheme.collection.worker.evaluation import Evaluation

SMALL: dict[str, Any] = {
    "preset": "none",
    "hidden_sizes": [8],
    "start_steps": 20,
    "mini_batch_size": 8,
    "update_every": 1,
    "num_mini_batch": 1,
    "num_test_episodes": 2,
    "num_test_envs": 2,
    "seed": 1,
}
PROBES = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)


def make_agent(**options: Any) -> Agent:
    return Agent("ddqn", "CartPole-v1", **{"storage": "per", **SMALL, **options})


def short_cartpole(max_steps: int = 5) -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", max_episode_steps=max_steps)


def q_values(agent: Agent) -> torch.Tensor:
    with torch.no_grad():
        values: torch.Tensor = agent.scheme.actor.critics(torch.from_numpy(PROBES))
    return values


def test_options_find_their_parts() -> None:
    agent = make_agent(n_step=3, alpha=0.7, num_envs=2, gamma=0.9)
    assert (agent.scheme.storage.n_step, agent.scheme.storage.alpha) == (3, 0.7)
    assert (agent.scheme.num_envs, agent.scheme.algo.gamma, agent.config.seed) == (2, 0.9, 1)


def test_learning_continues_where_it_stopped() -> None:
    agent = make_agent()
    assert agent.learn(30) is agent
    agent.learn(10)
    assert agent.num_steps == 40
    assert agent.scheme.num_updates > 0


@pytest.mark.parametrize("steps", [0, -5, 1.5, "10", True])
def test_a_training_without_a_number_of_steps_is_refused(steps: Any, tmp_path: Path) -> None:
    agent = make_agent().learn(20)
    with pytest.raises(ConfigError, match="steps must be"):
        agent.learn(steps, log_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_threads_are_tried_where_nobody_says_how_many_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    num_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        agent = make_agent()
        assert agent.config.threads == torch.get_num_threads()
        agent.save(tmp_path)
        assert RunDirectory.open(tmp_path).config["threads"] == torch.get_num_threads()
        torch.set_num_threads(3)
        Agent.load(tmp_path)
        assert torch.get_num_threads() == agent.config.threads, "the last bits of sums depend on them"
    finally:
        torch.set_num_threads(num_threads)


def test_threads_are_those_that_were_asked_for(tmp_path: Path) -> None:
    num_threads = torch.get_num_threads()
    try:
        agent = make_agent(threads=num_threads + 1)
        assert torch.get_num_threads() == num_threads + 1
        agent.save(tmp_path)
        torch.set_num_threads(num_threads)
        Agent.load(tmp_path)
        assert torch.get_num_threads() == num_threads + 1, "as `recollect resume` has as many"
    finally:
        torch.set_num_threads(num_threads)


def test_an_agent_on_a_device_of_pytorch_can_be_saved(tmp_path: Path) -> None:
    agent = make_agent(device=torch.device("cpu"))
    agent.save(tmp_path)
    assert Agent.load(tmp_path).config.device == "cpu"


def test_the_same_seed_gives_the_same_agent() -> None:
    agents = [make_agent(seed=seed).learn(60) for seed in (1, 1, 2)]
    assert torch.equal(q_values(agents[0]), q_values(agents[1]))
    assert not torch.equal(q_values(agents[0]), q_values(agents[2]))


def test_evaluation_has_as_many_episodes_as_asked_for() -> None:
    agent = make_agent()
    assert len(agent.evaluate().returns) == 2
    assert len(agent.evaluate(episodes=3).returns) == 3


def test_actions_are_the_environment_s() -> None:
    agent = make_agent()
    assert agent.predict(PROBES[0]) in (0, 1)
    assert agent.predict(PROBES).shape == (30,)
    assert agent.predict(PROBES).tolist() == q_values(agent)[0].argmax(-1).tolist()


@pytest.mark.parametrize("with_storage", [False, True])
def test_a_saved_agent_comes_back(with_storage: bool, tmp_path: Path) -> None:
    agent = make_agent().learn(50)
    agent.save(tmp_path / "agent", with_storage=with_storage)
    loaded = Agent.load(tmp_path / "agent")
    assert torch.equal(q_values(loaded), q_values(agent))
    assert loaded.config == agent.config
    assert loaded.num_steps == 50
    assert len(loaded.scheme.storage) == (50 if with_storage else 0)
    num_updates = loaded.scheme.num_updates
    loaded.learn(30)
    assert loaded.num_steps == 80
    assert loaded.scheme.num_updates > num_updates
    agent.save(tmp_path / "agent")


@pytest.mark.parametrize("with_storage", [False, True])
def test_a_saved_replay_is_never_older_than_the_weights_beside_it(with_storage: bool, tmp_path: Path) -> None:
    agent = make_agent().learn(50)
    agent.save(tmp_path, with_storage=True)
    agent.learn(30).save(tmp_path, with_storage=with_storage)
    assert len(Agent.load(tmp_path).scheme.storage) == 80
    other = make_agent().learn(40)
    other.save(tmp_path, with_storage=with_storage)
    loaded = Agent.load(tmp_path)
    assert (loaded.num_steps, len(loaded.scheme.storage)) == (40, 40)
    make_agent().save(tmp_path, with_storage=with_storage)
    assert len(Agent.load(tmp_path).scheme.storage) == 0


def test_beside_the_folder_of_another_agent_a_numbered_one_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    make_agent().learn(30).save(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for options, name in (({"hidden_sizes": [16]}, "agent-2"), ({"storage": "replay", "seed": 2}, "agent-3")):
        for num_steps in (20, 30):
            with pytest.warns(RecollectWarning, match=f"holds another agent; this one is saved in .*{name}"):
                make_agent(**options).learn(num_steps).save(folder)
            assert Agent.load(tmp_path / name).num_steps == num_steps
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent", "agent-2", "agent-3"]


def test_the_folder_of_a_run_without_a_config_is_another_agents(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "run")
    with pytest.warns(RecollectWarning, match="holds another agent"):
        make_agent().save(tmp_path / "run")
    assert Agent.load(tmp_path / "run-2").num_steps == 0


def test_the_folder_of_ones_own_run_is_not_anothers(tmp_path: Path) -> None:
    agent = make_agent(hidden_sizes=(8,), n_step=np.int64(2)).learn(30, log_dir=tmp_path)
    agent.learn(20).save(tmp_path)
    loaded = Agent.load(tmp_path)
    loaded.learn(10).save(tmp_path)
    assert Agent.load(tmp_path).num_steps == 60


class Net(torch.nn.Module):
    def __init__(self, space: Any) -> None:
        super().__init__()
        self.out_features = 4

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs


class OwnDQN(DDQN):
    """An algorithm of one's own."""


class OwnBuffer(PERBuffer):
    """A storage of one's own."""


class Odd(int):
    """A number that no file knows."""


def test_what_no_file_can_hold_is_named_before_anything_is_written(tmp_path: Path) -> None:
    agent = Agent("ddqn", short_cartpole, **SMALL, **{"env.max_steps": Odd(5)})
    with pytest.raises(ConfigError, match=r"no file can hold env\.max_steps=5.* without a folder"):
        agent.learn(30, log_dir=tmp_path / "run")
    assert agent.num_steps == 0
    agent.learn(30)
    with pytest.raises(ConfigError, match=r"env\.max_steps=.*scheme\.actor\.save\(path\)"):
        agent.save(tmp_path / "agent")
    assert list(tmp_path.iterdir()) == []
    agent.scheme.actor.save(tmp_path / "weights.safetensors")
    other = Agent("ddqn", short_cartpole, **SMALL | {"seed": 2})
    other.scheme.actor.load(tmp_path / "weights.safetensors")
    assert other.predict(PROBES).tolist() == agent.predict(PROBES).tolist()


def test_classes_of_ones_own_are_parts(tmp_path: Path) -> None:
    agent = Agent(OwnDQN, "CartPole-v1", OwnBuffer, features=Net, n_step=2, **SMALL)
    assert (type(agent.scheme.algo), type(agent.scheme.storage)) == (OwnDQN, OwnBuffer)
    agent.learn(30, log_dir=tmp_path / "run")
    assert agent.config.algo == f"{__name__}:OwnDQN"
    assert agent.config.storage == f"{__name__}:OwnBuffer"
    assert agent.config.actor_options["features"] == f"{__name__}:Net"
    loaded = Agent.load(tmp_path / "run", trust=True)
    assert loaded.predict(PROBES).tolist() == agent.predict(PROBES).tolist()
    loaded.learn(10).save(tmp_path / "run")
    assert Agent.load(tmp_path / "run", trust=True).num_steps == 40


def test_ours_are_known_by_their_names() -> None:
    assert Agent(DDQN, "CartPole-v1", PERBuffer, **SMALL).config == make_agent().config


def test_modules_lead_to_parts() -> None:
    here = __name__
    agent = Agent(f"{here}:OwnDQN", f"{here}:short_cartpole", f"{here}:OwnBuffer", features=f"{here}:Net", **SMALL)
    assert (type(agent.scheme.algo), type(agent.scheme.storage)) == (OwnDQN, OwnBuffer)
    assert isinstance(agent.scheme.actor.body.features, Net)
    assert max(agent.evaluate().lengths) <= 5


@pytest.mark.slow
def test_a_run_that_no_file_can_name_says_so_when_it_starts(tmp_path: Path) -> None:
    class Local(OwnDQN):
        pass

    agent = Agent(Local, "CartPole-v1", features=lambda space: Net(space), **SMALL)
    agent.learn(20)
    with pytest.warns(RecollectWarning, match=r"cannot be resumed from its files.*algo \(.*Local\), features .*module"):
        agent.learn(20, log_dir=tmp_path / "run")
    code = f"import recollect as rc; rc.Agent.load({str(tmp_path / 'run')!r}, trust=True)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "which cannot be imported; give it again from Python, as in Agent.load(folder, algo=...)" in other.stderr
    assert Agent.load(tmp_path / "run", algo=Local, features=Net).num_steps == 40


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"algo": Net}, "algo must be a class with create_factory, got <class .*Net'>; derive it from DDQN, SAC"),
        ({"storage": Net}, "storage must be a class with create_factory.*; derive it from ReplayBuffer"),
        ({"algo": f"{__name__}:OwnDQM"}, r"algorithm '.*:OwnDQM' is not there; did you mean 'OwnDQN'\?"),
        ({"storage": GAEBuffer}, r"cannot learn from the storage 'gae'; use replay or"),
        ({"features": 3}, "features must be a name, 'module:Name', a class or a function, got 3"),
        ({"features": "fat"}, r"there are no features 'fat'; did you mean 'flat'\?"),
        ({"memory": lambda width, size: torch.nn.Linear(width, size)}, "a module with `out_features` and `state_size`"),
        ({"policy_head": Net}, "the algorithm has no policy that policy_head could be of; use critic_head"),
        ({"algo": OwnDQN, "n_stp": 3}, r"did you mean 'n_step'\?"),
    ],
)
def test_what_is_no_part_is_refused(parts: dict[str, Any], message: str) -> None:
    given = {"algo": "ddqn", "storage": "per"} | parts
    with pytest.raises(ConfigError, match=message):
        Agent(given.pop("algo"), "CartPole-v1", **SMALL, **given)


def test_an_actor_that_was_exchanged_acts() -> None:
    agent, other = make_agent(), make_agent(seed=5)
    before = agent.predict(PROBES).tolist()
    spaces = agent.scheme.actor.obs_space, agent.scheme.actor.action_space
    factory = OffPolicyActor.create_factory(*spaces, DDQN, seed=5, hidden_sizes=(8,))
    agent.scheme.replace_agent_component("actor", factory)
    assert agent.predict(PROBES).tolist() == other.predict(PROBES).tolist() != before


def test_a_logged_training_leaves_a_run(tmp_path: Path) -> None:
    agent = make_agent(test_every=10).learn(40, log_dir=tmp_path / "run")
    run = RunDirectory.open(tmp_path / "run")
    assert int(read_rows(run.metrics_file)[-1][metrics.STEPS]) == 40
    assert run.curve_file.read_bytes().startswith(b"\x89PNG")
    assert run.config["algo"]["gamma"] == 0.99, "defaults are spelled out"
    assert run.config["steps"] == 40, "so that the config repeats the run"
    loaded = Agent.load(run.path)
    assert torch.equal(q_values(loaded), q_values(agent))
    with pytest.raises(ConfigError, match="holds a run already"):
        agent.learn(10, log_dir=run.path)


def test_an_interrupted_training_is_saved_and_can_continue(tmp_path: Path) -> None:
    agent = make_agent()
    envs = agent.scheme.col_worker.envs_train
    take_step, calls = envs.step, 0

    def interrupted(action: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return take_step(action)

    envs.step = interrupted
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            agent.learn(100, log_dir=tmp_path)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert agent.num_steps == 30
    assert Agent.load(tmp_path).num_steps == 30
    agent.learn(5)
    assert agent.num_steps == 35


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (short_cartpole, "tests.unit.test_api:short_cartpole"),
        (partial(short_cartpole, max_steps=5), "not importable: partial of tests.unit.test_api:short_cartpole"),
        (CartPoleEnv, "gymnasium.envs.classic_control.cartpole:CartPoleEnv"),
    ],
)
def test_an_environment_may_come_from_a_function(env: Any, name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecollectWarning)  # that a partial cannot be imported
        agent = Agent("ddqn", env, **SMALL).learn(40, log_dir=tmp_path / "run")
    assert agent.config.env == name
    assert (max(agent.evaluate().lengths) <= 5) == (env is not CartPoleEnv)
    assert torch.equal(q_values(Agent.load(tmp_path / "run", env=env)), q_values(agent))


def test_options_of_the_environment_reach_the_function() -> None:
    assert max(Agent("ddqn", short_cartpole, **SMALL, **{"env.max_steps": 3}).evaluate().lengths) == 3


def test_an_environment_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="env must be an id or a function that makes an environment, got <"):
        Agent("ddqn", short_cartpole(), **SMALL)  # type: ignore[arg-type]


def test_names_go_in_any_case() -> None:
    assert Agent("DDQN", "CartPole-v1", "PER", **SMALL).config == make_agent().config


def test_python_is_told_no_flags() -> None:
    with pytest.raises(ConfigError, match=r"cannot act in Discrete\(2\)\. Use the algorithm [\w, -]+\.$"):
        Agent("sac", "CartPole-v1")


def test_progress_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    make_agent().learn(30, progress=True)
    assert "30/30 steps" in capsys.readouterr().out


@pytest.mark.parametrize(("is_terminal", "is_jupyter"), [(False, False), (True, False), (False, True)])
def test_unless_told_it_is_shown_where_somebody_looks(
    is_terminal: bool, is_jupyter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Display(nullcontext["Display"]):
        def __init__(self, target_steps: int) -> None:
            super().__init__(self)
            shown.append(target_steps)

        def update(self, learner: Learner) -> None: ...

    shown: list[int] = []
    console = SimpleNamespace(is_terminal=is_terminal, is_jupyter=is_jupyter)
    monkeypatch.setattr(api, "Console", lambda: console)
    monkeypatch.setattr(api, "Progress", Display)
    agent = make_agent().learn(30)
    assert shown == ([30] if is_terminal or is_jupyter else [])
    agent.learn(30, progress=False)
    assert 60 not in shown


def test_callbacks_and_writers_take_part(tmp_path: Path) -> None:
    def stop(learner: Learner) -> None:
        learner.log({"mine": 5})
        if learner.num_steps == 20:
            learner.request_stop("enough")

    rows: list[dict[str, float]] = []
    agent = make_agent().learn(100, callbacks=[stop], writers=[rows.append])
    assert agent.num_steps == rows[-1][metrics.STEPS] == 20
    assert rows[0]["mine"] == 5
    agent.learn(10)
    assert agent.num_steps == 30
    with pytest.raises(CallbackError, match=r"the writer .*fail failed with KeyError: 'lost'"):
        agent.learn(10, writers=[fail])


def fail(row: dict[str, float]) -> None:
    raise KeyError("lost")


def test_metrics_are_those_of_the_last_training() -> None:
    agent = make_agent(test_every=10)
    assert agent.metrics == {}
    agent.learn(40)
    found = agent.metrics
    assert found[metrics.STEPS] == 40
    assert found[metrics.EVAL_EPISODES] == 2
    assert found[metrics.STORAGE_SIZE] == 40


def test_the_best_agent_can_be_loaded(tmp_path: Path) -> None:
    returns = iter([5.0, 9.0, 7.0])
    agent = make_agent(test_every=10, start_steps=10)

    def evaluate(num_episodes: int) -> Evaluation:
        return Evaluation((next(returns),), (1,))

    agent.scheme.col_worker.evaluate_episodes = evaluate  # type: ignore[method-assign]
    best: dict[int, torch.Tensor] = {}
    agent.learn(40, log_dir=tmp_path, callbacks=[lambda learner: best.update({learner.num_steps: q_values(agent)})])
    loaded = Agent.load(tmp_path, best=True)
    assert torch.equal(q_values(loaded), best[loaded.num_steps])
    assert 10 < loaded.num_steps < 40
    assert not torch.equal(q_values(loaded), q_values(agent))
    assert Agent.load(tmp_path).num_steps == 40


def test_an_agent_closes_itself() -> None:
    with make_agent() as agent:
        agent.learn(10)
    assert agent.scheme.col_worker.envs_train.is_closed


def test_agents_schemes_and_buffers_say_what_they_are() -> None:
    agent = make_agent(n_step=3, num_envs=2, **{"storage.size": 500}).learn(30)
    assert repr(agent) == "Agent('ddqn', 'CartPole-v1', 'per', seed=1, num_steps=30)"
    assert repr(agent.scheme) == "Scheme(DDQN, PERBuffer, num_envs=2, num_steps=30)"
    assert repr(agent.scheme.storage).startswith("PERBuffer(30/1,000 transitions, num_envs=2, ")
    assert "n_step=3" in repr(agent.scheme.storage)


def test_another_environment_can_be_evaluated_in() -> None:
    agent = make_agent()
    assert max(agent.evaluate(3, env=short_cartpole).lengths) <= 5
    assert len(agent.evaluate(3, env="CartPole-v0").returns) == 3
    with pytest.raises(ConfigError, match=r"the agent's observations are Box\(.*those of Acrobot-v1 Box\("):
        agent.evaluate(env="Acrobot-v1")
    with pytest.raises(ConfigError, match=r"the agent's actions are Discrete\(2\), those of .*three.* Discrete\(3\)"):
        agent.evaluate(env=three_actions)


def three_actions() -> gym.Env[Any, Any]:
    env = gym.make("CartPole-v1")
    env.action_space = gym.spaces.Discrete(3)
    return env


def test_a_loaded_agent_knows_how_long_it_has_trained(tmp_path: Path) -> None:
    agent = make_agent().learn(30, log_dir=tmp_path / "run")
    save_training(RunDirectory.open(tmp_path / "run"), agent.scheme, elapsed_s=1e6)
    Agent.load(tmp_path / "run").learn(30, log_dir=tmp_path / "longer")
    rows = read_rows(tmp_path / "longer" / "metrics.csv")
    assert all(float(row[metrics.ELAPSED_S]) > 1e6 for row in rows)
    assert rows


def test_closing_closes_the_environments() -> None:
    agent = make_agent()
    agent.close()
    assert agent.scheme.col_worker.envs_train.is_closed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sak", "Pendulum-v1"), "did you mean 'sac'"),
        (("sac", "CartPole-v1"), r"SAC .*cannot act in Discrete\(2\)"),
        (("sac", "Pendulum-v9"), "Pendulum"),
        (("sac", "Pendulum-v1", "pre"), "did you mean 'per'"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Agent(*arguments)


def test_a_preset_is_a_name() -> None:
    with pytest.raises(ConfigError, match="'none' for no preset, got None"):
        Agent("sac", "Pendulum-v1", preset=None)  # type: ignore[arg-type]


def test_a_mistyped_option_is_refused_with_the_closest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'n_step'"):
        make_agent(n_stp=3)


@pytest.mark.parametrize("name", recollect.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(recollect, name) is not None


def test_public_names_are_shown_before_they_are_loaded() -> None:
    code = "import recollect; print(*sorted(set(recollect.__all__) - set(dir(recollect))), 'Agent' in vars(recollect))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.split() == ["False"]


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Agents'"):
        _ = recollect.Agents  # type: ignore[attr-defined]


class Breaking(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that raises in every third step."""

    num_steps = 0

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        if self.num_steps == 3:
            raise OSError(f"no step {id(self)}")
        return self.env.step(action)


def test_a_failure_in_training_and_in_evaluations_is_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("ddqn", lambda: Breaking(short_cartpole(2)), **SMALL)
    agent.learn(12)
    agent.evaluate(6)
    told = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert [message.count("raise OSError") for message in told if "Traceback" in message] == [1]
    counts = (agent.scheme.col_worker.envs_train.num_failures, agent.scheme.col_worker.envs_test.num_failures)
    assert all(counts), counts
