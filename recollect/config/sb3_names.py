"""Our names of Stable-Baselines3's options, for hints in error messages only."""

from collections.abc import Container, Mapping
from typing import Final

SB3_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "action_noise": ("noise", "noise_std"),
    "batch_size": ("mini_batch_size",),
    "buffer_size": ("storage.size",),
    "clip_range": ("clip",),
    "clip_range_vf": ("value_clip",),
    "ent_coef": ("temperature", "entropy_weight"),
    "eval_freq": ("test_every",),
    "exploration_final_eps": ("final_epsilon",),
    "exploration_fraction": ("epsilon_steps",),
    "exploration_initial_eps": ("initial_epsilon",),
    "goal_selection_strategy": ("strategy",),
    "gradient_steps": ("num_mini_batch",),
    "learning_rate": ("lr", "policy_lr", "critic_lr"),
    "learning_starts": ("start_steps",),
    "n_envs": ("num_envs",),
    "n_epochs": ("num_epochs",),
    "n_eval_episodes": ("num_test_episodes",),
    "n_steps": ("n_step", "update_every"),
    "net_arch": ("hidden_sizes",),
    "normalize_advantage": ("normalise_advantages",),
    "policy_kwargs": ("hidden_sizes", "activation"),
    "target_noise_clip": ("target_noise_limit",),
    "target_policy_noise": ("target_noise_std",),
    "target_update_interval": ("target_update_every",),
    "total_timesteps": ("steps",),
    "train_freq": ("update_every",),
    "vf_coef": ("value_weight",),
}


def translated(name: str, known: Container[str]) -> str | None:
    """Phrase a hint for an option's name elsewhere with those of our names that are `known`; None if there is none."""
    ours = [repr(path) for path in SB3_NAMES.get(name, ()) if path.rpartition(".")[2] in known]
    return f"did you mean {' or '.join(ours)}?" if ours else None
