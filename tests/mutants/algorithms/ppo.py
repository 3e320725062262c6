"""Faults in the losses of PPO, A2C and PQN."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
TESTS: Final = "tests/unit/agent/algorithms"
PPO: Final = (f"{TESTS}/on_policy/test_ppo.py",)
CLIPPED: Final = (f"{TESTS}/on_policy/test_clipped.py",)
A2C: Final = (f"{TESTS}/on_policy/test_a2c.py",)
PQN: Final = (f"{TESTS}/on_policy/test_pqn.py",)
MASKS: Final = (f"{TESTS}/test_masks.py",)

MUTANTS: Final = (
    Mutant(
        "PPO takes the larger of both gains",
        f"{ALGORITHMS}/on_policy/surrogate.py",
        "torch.minimum(ratio_t * advantage_t",
        "torch.maximum(ratio_t * advantage_t",
        CLIPPED,
    ),
    Mutant(
        "PPO does not clip ratios from below",
        f"{ALGORITHMS}/on_policy/surrogate.py",
        "ratio_t.clamp(1.0 - clip, 1.0 + clip)",
        "ratio_t.clamp(max=1.0 + clip)",
        CLIPPED,
    ),
    Mutant(
        "PPO descends the advantage",
        f"{ALGORITHMS}/on_policy/clipped.py",
        "loss_pi = -clipped_surrogate(",
        "loss_pi = clipped_surrogate(",
        CLIPPED,
    ),
    Mutant(
        "PPO's ratio is upside down",
        "agent/kernels/policy_kernels.py",
        "log_ratio = log_prob[row] - acted_log_prob[row]",
        "log_ratio = acted_log_prob[row] - log_prob[row]",
        CLIPPED,
    ),
    Mutant(
        "a kernel gives clipped ratios a gradient",
        "agent/kernels/policy_kernels.py",
        "_ZERO if is_clipped else -ratio * gain * share",
        "-ratio * gain * share",
        CLIPPED,
    ),
    Mutant(
        "a kernel normalises advantages by their population",
        "agent/kernels/policy_kernels.py",
        "_squares(advantage, mean) / (rows - 1)",
        "_squares(advantage, mean) / rows",
        CLIPPED,
    ),
    Mutant(
        "a kernel forgets that probabilities add up to one",
        "agent/kernels/policy_kernels.py",
        "        slope[action[row]] += weight\n",
        "        slope[action[row]] = weight\n",
        CLIPPED,
    ),
    Mutant(
        "PPO's entropy is a cost",
        f"{ALGORITHMS}/on_policy/clipped.py",
        "- objective.entropy_weight * mean_entropy",
        "+ objective.entropy_weight * mean_entropy",
        CLIPPED,
    ),
    Mutant(
        "PPO's critic has the wrong weight",
        "agent/kernels/policy_kernels.py",
        "result[0] + value_weight * result[1]",
        "result[0] + result[1]",
        CLIPPED,
    ),
    Mutant(
        "PPO's values train no body",
        f"{ALGORITHMS}/on_policy/ppo.py",
        "self.critics(features), rows, self._objective()",
        "self.critics(features.detach()), rows, self._objective()",
        PPO,
    ),
    Mutant(
        "PPO's clipped value loss takes the smaller",
        f"{ALGORITHMS}/on_policy/surrogate.py",
        "torch.maximum((v_t - target_t)",
        "torch.minimum((v_t - target_t)",
        CLIPPED,
    ),
    Mutant(
        "PPO clips values around the return",
        f"{ALGORITHMS}/on_policy/surrogate.py",
        "clipped_v_t = old_v_t + (v_t - old_v_t).clamp(-clip, clip)",
        "clipped_v_t = target_t + (v_t - target_t).clamp(-clip, clip)",
        CLIPPED,
    ),
    Mutant(
        "PPO's clip does not anneal",
        f"{ALGORITHMS}/on_policy/ppo.py",
        "(self._rate_share() if self.config.anneal_clip else 1.0)",
        "1.0",
        PPO,
    ),
    Mutant(
        "PPO normalises no advantages",
        f"{ALGORITHMS}/on_policy/clipped.py",
        "normalised(advantages) if objective.normalises else advantages",
        "advantages",
        CLIPPED,
    ),
    Mutant(
        "PPO's burn-in has no state",
        f"{ALGORITHMS}/on_policy/base.py",
        """        if num_warm.any():
""",
        """        if False:
""",
        PPO,
    ),
    Mutant(
        "PPO learns as if all actions had been allowed",
        f"{ALGORITHMS}/on_policy/ppo.py",
        "        features, rows, mask = self._read(batch)\n        policy = self._distribution(features, mask)\n",
        "        features, rows, _ = self._read(batch)\n        policy = self._distribution(features, None)\n",
        MASKS,
    ),
    Mutant(
        "A2C's weight takes part in the gradient",
        f"{ALGORITHMS}/on_policy/surrogate.py",
        "(log_prob_t.detach() - acted_log_prob_t)",
        "(log_prob_t - acted_log_prob_t)",
        A2C,
    ),
    Mutant(
        "A2C's weight has no limit",
        f"{ALGORITHMS}/on_policy/surrogate.py",
        ".exp().clamp(max=1.0)\n",
        ".exp()\n",
        A2C,
    ),
    Mutant(
        "A2C predicts advantages",
        f"{ALGORITHMS}/on_policy/a2c.py",
        "self.critics(features) - rows[keys.RETURN]",
        "self.critics(features) - rows[keys.ADVANTAGE]",
        A2C,
    ),
    Mutant(
        "PQN's targets are the state's",
        f"{ALGORITHMS}/on_policy/pqn.py",
        "target = rows[keys.VALUE] + rows[keys.ADVANTAGE]",
        "target = rows[keys.RETURN]",
        PQN,
    ),
    Mutant(
        "PQN bootstraps from the action taken",
        f"{ALGORITHMS}/on_policy/pqn.py",
        "keys.VALUE: q_t.gather(-1, greedy)",
        "keys.VALUE: q_t.gather(-1, action)",
        PQN,
    ),
    Mutant(
        "PQN trusts the mean after a rollout",
        f"{ALGORITHMS}/on_policy/pqn.py",
        "return q_t.gather(-1, best_action(q_t, self.actor.action_mask(obs)))",
        "return q_t.mean(-1, keepdim=True)",
        PQN,
    ),
    Mutant(
        "PQN's random actions are never greedy",
        f"{ALGORITHMS}/losses/targets.py",
        "chance = epsilon / num_allowed + (1.0 - epsilon) *",
        "chance = epsilon / num_allowed + (1.0 - epsilon / num_allowed) *",
        PQN,
    ),
)
