"""Faults in the losses of TD3+BC and IQL, and in learning from given data."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
LOSSES: Final = ("tests/unit/agent/algorithms/off_policy/test_losses.py",)
OFFLINE: Final = ("tests/unit/data/test_offline.py",)

MUTANTS: Final = (
    Mutant("TD3+BC clones no action", f"{ALGORITHMS}/losses/targets.py",
           "(action - data_action).square()", "(action - action.detach()).square()", LOSSES),
    Mutant("TD3+BC does not scale values", f"{ALGORITHMS}/losses/targets.py",
           "scale = alpha / q_t.detach().abs().mean().clamp(min=1e-8)", "scale = alpha", LOSSES),
    Mutant("IQL's target from the target value", f"{ALGORITHMS}/off_policy/offline/iql.py",
           "v_tp1 = self.critics.state_value(", "v_tp1 = self.target_critics.state_value(", LOSSES),
    Mutant("IQL's advantage from the trained critics", f"{ALGORITHMS}/off_policy/offline/iql.py",
           "self._lowest(self.target_critics(", "self._lowest(self.critics(", LOSSES),
    Mutant("IQL's expectile is turned round", f"{ALGORITHMS}/losses/targets.py",
           "torch.where(error > 0, expectile, 1.0 - expectile)", "torch.where(error < 0, expectile, 1.0 - expectile)",
           LOSSES),
    Mutant("IQL's weights have no limit", f"{ALGORITHMS}/losses/targets.py",
           "(scale * advantage).exp().clamp(max=largest)", "(scale * advantage).exp()", LOSSES),
    Mutant("target features of sequences without burn-in", f"{ALGORITHMS}/transitions.py",
           "return features[:, self._begin :].flatten(0, 1)",
           "return features[:, : self._end - self._begin].flatten(0, 1)", LOSSES),
    Mutant("updates from data are left out", "learner.py",
           "has_learned = not self._is_offline and self.num_steps", "has_learned = self.num_steps", OFFLINE),
    Mutant("a second training loads the data again", "data/offline.py",
           "        if len(storage):\n            return\n", "", OFFLINE),
)  # fmt: skip
