"""Our names for other libraries' options, for hints in error messages only."""

from collections.abc import Container, Mapping
from typing import Final

Names = Mapping[str, tuple[str, ...]]
"""Our options by the name that another library has for them."""

SB3_NAMES: Final[Names] = {
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
PYTORCHRL_NAMES: Final[Names] = {
    "clip_param": ("clip",),
    "col_compress_data": ("compress",),
    "col_preemption_thresholds": ("fraction_samples", "fraction_workers"),
    "col_workers_communication": ("col_mode",),
    "col_workers_resources": ("col_resources",),
    "decentralized_update_execution": ("update_mode",),
    "entropy_coef": ("entropy_weight",),
    "feature_extractor_network": ("features",),
    "grad_compress_data": ("compress",),
    "grad_workers_communication": ("grad_mode",),
    "grad_workers_resources": ("grad_resources",),
    "initial_alpha": ("temperature",),
    "local_device": ("device",),
    "lr_alpha": ("temperature_lr",),
    "lr_pi": ("policy_lr",),
    "lr_q": ("critic_lr",),
    "num_env_processes": ("num_envs",),
    "num_updates": ("num_mini_batch",),
    "polyak": ("tau",),
    "recurrent_net": ("memory",),
    "recurrent_nets": ("memory",),
    "use_clipped_value_loss": ("value_clip",),
    "value_loss_coef": ("value_weight",),
}
RLLTE_NAMES: Final[Names] = {
    "critic_target_tau": ("tau",),
    "discount": ("gamma",),
    "feature_dim": ("feature_sizes",),
    "fixed_temperature": ("learn_temperature",),
    "hidden_dim": ("hidden_sizes",),
    "nstep": ("n_step",),
    "num_init_steps": ("start_steps",),
    "num_train_steps": ("steps",),
    "storage_size": ("storage.size",),
    "target_update_freq": ("target_update_every",),
    "update_every_steps": ("update_every",),
}
OTHER_NAMES: Final[Names] = {**RLLTE_NAMES, **PYTORCHRL_NAMES, **SB3_NAMES}


def translated(name: str, known: Container[str]) -> str | None:
    """Phrase a hint for an option's name elsewhere with those of our names that are `known`; None if there is none."""
    ours = [repr(path) for path in OTHER_NAMES.get(name, ()) if path.rpartition(".")[2] in known]
    return f"did you mean {' or '.join(ours)}?" if ours else None
