"""Every cell resolves to settings of its own, and a peer's are those of our preset."""

import json
from pathlib import Path

import pytest

from benchmarks.learn.ablation import ABLATION
from benchmarks.learn.configs import config_of, run_config
from benchmarks.learn.experiments import TABLE
from benchmarks.learn.records import hash_of
from benchmarks.learn.runner import RESULTS
from recollect.agent.algorithms import ALGORITHMS
from recollect.config import RunConfig
from recollect.config.parts import MAX_TRANSITIONS

CELLS = {cell.key: cell for cell in (*TABLE, *ABLATION)}
# Tasks that go by another name than their environment.
ENV_OF_TASK = {
    "16-bit flip": "recollect/BitFlip-v0",
    "recall after 20 steps": "recollect/RecallCue-v0",
    "chain of 40 rooms": "recollect/RoomChain-v0",
    "DMC cheetah-run": "dm_control/cheetah-run-v0",
    "DMC walker-walk": "dm_control/walker-walk-v0",
}


def test_every_run_has_a_hash_of_its_own() -> None:
    hashes = [hash_of(config_of(cell, seed)) for cell in CELLS.values() for seed in cell.seeds]
    assert len(set(hashes)) == len(hashes)


def test_settings_with_their_default_are_no_part_of_the_hash() -> None:
    config = config_of(CELLS["cartpole-ddqn"], 1)
    assert "vec" not in config
    assert config["threads"] == 1
    assert [] not in config.values()


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_records_are_of_the_settings_of_now(path: Path) -> None:
    record = json.loads(path.read_text())
    assert record["config_hash"] == hash_of(config_of(CELLS[record["cell"]], record["seed"]))


@pytest.mark.parametrize("key", [key for key, cell in CELLS.items() if cell.peer is None])
def test_our_cells_are_on_the_task_that_they_name(key: str) -> None:
    cell = CELLS[key]
    config = run_config(cell, 3)
    assert (config.seed, config.steps, config.threads) == (3, cell.steps, 1)
    assert config.env == ENV_OF_TASK.get(cell.task, cell.task)
    assert config.algo in cell.agent.lower()


def test_cells_that_must_fail_differ_from_their_preset_by_the_one_ingredient() -> None:
    assert run_config(CELLS["bitflip-ddqn"], 1).storage == "replay"
    assert run_config(CELLS["bitflip-ddqn-her"], 1).storage == "her"
    assert run_config(CELLS["recall-ddqn"], 1).actor_options["memory"] is None
    assert run_config(CELLS["recall-ppo"], 1).actor_options["memory"] is None
    assert run_config(CELLS["mountaincar-ppo-rnd"], 1).algo_options["intrinsic"] == "rnd"
    assert run_config(CELLS["mountaincar-ppo"], 1).algo_options["intrinsic"] is None
    assert run_config(CELLS["rooms-ppo-rnd"], 1).algo_options["intrinsic"] == "rnd"
    assert run_config(CELLS["rooms-ppo"], 1).algo_options["intrinsic"] is None


@pytest.mark.parametrize("task", ["pendulum-sac", "lunarlander-ddqn"])
def test_the_ablation_switches_exactly_what_a_variant_names(task: str) -> None:
    def switches(variant: str) -> tuple[bool, bool, bool]:
        options = run_config(CELLS[f"ablation-{task}-{variant}"], 1).storage_options
        return options.get("n_step", 1) > 1, options.get("alpha", 0) > 0, options.get("eta", 1) < 1

    assert switches("uniform") == (False, False, False)
    assert switches("nstep") == (True, False, False)
    assert switches("per") == (False, True, False)
    assert switches("ere") == (False, False, True)
    assert switches("per-ere-nstep") == (True, True, True)


def values(config: RunConfig, *names: str) -> list[object]:
    """Options of an algorithm, with their defaults."""
    resolved = ALGORITHMS[config.algo].config_class(**config.algo_options)
    return [getattr(resolved, name) for name in names]


def test_lunar_lander_has_the_peers_hyperparameters() -> None:
    config = run_config(CELLS["lunarlander-ddqn"], 1)
    peer = CELLS["sb3-lunarlander-dqn"].peer
    assert peer is not None
    theirs = peer["hyperparameters"]
    assert values(config, "critic_lr", "gamma", "mini_batch_size", "start_steps", "update_every", "num_mini_batch") == [
        theirs[name]
        for name in ("learning_rate", "gamma", "batch_size", "learning_starts", "train_freq", "gradient_steps")
    ]
    assert values(config, "tau", "target_update_every", "max_grad_norm", "initial_epsilon", "final_epsilon") == [
        theirs["tau"],
        theirs["target_update_interval"] * theirs["gradient_steps"] // theirs["train_freq"],
        theirs["max_grad_norm"],
        theirs["exploration_initial_eps"],
        theirs["exploration_final_eps"],
    ]
    assert values(config, "epsilon_steps", "num_epochs", "huber_delta") == [
        theirs["exploration_fraction"] * config.steps,
        1,
        1.0,
    ]
    assert_same_networks_and_replay(config, theirs, "replay")


def test_half_cheetah_has_the_peers_hyperparameters() -> None:
    config = run_config(CELLS["halfcheetah-sac"], 1)
    peer = CELLS["sb3-halfcheetah-sac"].peer
    assert peer is not None
    theirs = peer["hyperparameters"]
    rates = values(config, "policy_lr", "critic_lr", "temperature_lr")
    assert rates == [theirs["learning_rate"]] * 3
    assert values(config, "tau", "gamma", "mini_batch_size", "start_steps", "update_every", "num_mini_batch") == [
        theirs[name] for name in ("tau", "gamma", "batch_size", "learning_starts", "train_freq", "gradient_steps")
    ]
    assert values(config, "learn_temperature", "temperature", "target_entropy") == [True, 1.0, None]
    assert theirs["ent_coef"] == "auto"
    assert_same_networks_and_replay(config, theirs, "replay")


def test_cart_pole_has_the_peers_hyperparameters() -> None:
    config = run_config(CELLS["cartpole-qr-dqn"], 1)
    peer = CELLS["sb3-cartpole-qr-dqn"].peer
    assert peer is not None
    theirs = peer["hyperparameters"]
    assert values(config, "critic_lr", "gamma", "mini_batch_size", "start_steps", "update_every", "num_mini_batch") == [
        theirs[name]
        for name in ("learning_rate", "gamma", "batch_size", "learning_starts", "train_freq", "gradient_steps")
    ]
    # Its targets move at every step, ours at every update: as often.
    assert values(config, "tau", "target_update_every", "max_grad_norm", "final_epsilon") == [
        theirs[name] for name in ("tau", "target_update_interval", "max_grad_norm", "exploration_final_eps")
    ]
    assert theirs["train_freq"] == theirs["gradient_steps"]
    assert values(config, "initial_epsilon", "epsilon_steps") == [1.0, theirs["exploration_fraction"] * config.steps]
    assert values(config, "huber_delta", "num_quantiles", "optimiser") == [
        1.0,
        theirs["policy_kwargs"]["n_quantiles"],
        "adam",
    ]
    assert config.storage_options["n_step"] == theirs["n_steps"]
    assert theirs["policy_kwargs"]["optimizer_kwargs"] == {"eps": ALGORITHMS["qr-dqn"].optimiser_epsilon}
    assert_same_networks_and_replay(config, theirs, "nstep")


def test_pendulum_has_the_peers_hyperparameters() -> None:
    config = run_config(CELLS["pendulum-tqc"], 1)
    peer = CELLS["sb3-pendulum-tqc"].peer
    assert peer is not None
    theirs = peer["hyperparameters"]
    assert values(config, "policy_lr", "critic_lr", "temperature_lr") == [theirs["learning_rate"]] * 3
    assert values(config, "tau", "gamma", "mini_batch_size", "start_steps", "update_every", "num_mini_batch") == [
        theirs[name] for name in ("tau", "gamma", "batch_size", "learning_starts", "train_freq", "gradient_steps")
    ]
    networks = theirs["policy_kwargs"]
    assert values(config, "num_critics", "num_quantiles", "num_dropped", "learn_temperature", "temperature") == [
        networks["n_critics"],
        networks["n_quantiles"],
        theirs["top_quantiles_to_drop_per_net"],
        theirs["ent_coef"] == "auto",
        1.0,
    ]
    assert_same_networks_and_replay(config, theirs, "replay")


def assert_same_networks_and_replay(config: RunConfig, theirs: dict[str, object], storage: str) -> None:
    assert list(config.actor_options["hidden_sizes"]) == theirs["policy_kwargs"]["net_arch"]  # type: ignore[index]
    assert set(config.actor_options) == {"hidden_sizes"}
    size = config.storage_options.get("size", MAX_TRANSITIONS)
    assert (config.storage, size, config.num_envs) == (storage, theirs["buffer_size"], 1)
