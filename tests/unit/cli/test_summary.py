"""Runs are called so that one knows them again."""

from pathlib import Path
from typing import Any

import pytest

from recollect.agent.storages import OFF_POLICY_STORAGES
from recollect.cli.summary import free_path, stem_of, summarise
from recollect.config import RunConfig


def config(**more: Any) -> RunConfig:
    return RunConfig(**{"algo": "sac", "env": "Pendulum-v1", "storage": "per"} | more)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "SAC · PER(alpha 0) · Pendulum-v1 · seed 1 · 1 thread · runs/x"),
        ({"storage": "replay"}, "SAC · uniform replay · Pendulum-v1 · seed 1 · 1 thread · runs/x"),
        ({"num_envs": 4}, "SAC · PER(alpha 0) · Pendulum-v1 · 4 envs · seed 1 · 1 thread · runs/x"),
        (
            {"scheme_options": {"num_col_workers": 16, "col_mode": "async", "num_grad_workers": 1}},
            "SAC · PER(alpha 0) · Pendulum-v1 · 16 async collectors · 1 gradient worker · seed 1 · 1 thread · runs/x",
        ),
        (
            {"env": "Pole-v1", "scheme_options": {"num_grad_workers": 2, "update_mode": "decentralised"}},
            "SAC · PER(alpha 0) · Pole-v1 · 2 gradient workers · decentralised updates · seed 1 · 1 thread · runs/x",
        ),
        (
            {"storage": "ere", "storage_options": {"eta": 0.996}},
            "SAC · ERE(eta 0.996) · Pendulum-v1 · seed 1 · 1 thread · runs/x",
        ),
        (
            {"storage": "ere", "storage_options": {"alpha": 0.6, "eta": 0.996}},
            "SAC · ERE(alpha 0.6, eta 0.996) · Pendulum-v1 · seed 1 · 1 thread · runs/x",
        ),
        ({"storage": "her"}, "SAC · HER(share 0.8) · Pendulum-v1 · seed 1 · 1 thread · runs/x"),
        ({"storage": "mixed"}, "SAC · mixed replay(data_share 0.5) · Pendulum-v1 · seed 1 · 1 thread · runs/x"),
        (
            {"storage": "mixed", "storage_options": {"data_share": {"expert": 0.25, "medium": 0.5}, "share": 0.8}},
            "SAC · mixed replay(share 0.8, data_share expert 0.25 + medium 0.5) · Pendulum-v1 · seed 1 · 1 thread"
            " · runs/x",
        ),
        (
            {"storage_options": {"alpha": 0.6, "n_step": 3}, "actor_options": {"memory": "gru"}},
            "SAC · PER(alpha 0.6) · 3-step · GRU · Pendulum-v1 · seed 1 · 1 thread · runs/x",
        ),
    ],
)
def test_a_line_says_what_is_trained(more: dict[str, Any], line: str) -> None:
    assert summarise(config(**more), 1, Path("runs/x")) == line


@pytest.mark.parametrize("storage", OFF_POLICY_STORAGES)
def test_the_line_is_the_same_when_defaults_are_spelled_out(storage: str) -> None:
    """As they are in the config that `resume` reads."""
    short = config(storage=storage, storage_options={"alpha": 0.6} if storage == "per" else {})
    assert summarise(short.with_defaults(), 1, Path("x")) == summarise(short, 1, Path("x"))


@pytest.mark.parametrize(
    ("env", "stem"),
    [("Pendulum-v1", "pendulum-sac"), ("ALE/Pong-v5", "pong-sac"), ("recollect/BitFlip-v0", "bitflip-sac")],
)
def test_folders_are_called_after_task_and_algorithm(env: str, stem: str) -> None:
    assert stem_of(config(env=env)) == stem


def test_a_run_never_takes_the_folder_of_another(tmp_path: Path) -> None:
    for name in ("a", "a-2", "a-3"):
        assert free_path(tmp_path, "a") == tmp_path / name
        (tmp_path / name).mkdir()
