"""Faults in the targets and losses of soft actor-critic."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
TESTS: Final = "tests/unit/agent/algorithms"
LOSSES: Final = (f"{TESTS}/off_policy/test_losses.py",)

MUTANTS: Final = (
    Mutant(
        "SAC's target critics see online features",
        f"{ALGORITHMS}/off_policy/sac.py",
        "self.target_critics(steps.next_features(target=True), action)",
        "self.target_critics(steps.next_features(target=False), action)",
        LOSSES,
    ),
    Mutant(
        "SAC's target from the online critics",
        f"{ALGORITHMS}/off_policy/sac.py",
        "q_tp1 = self._lowest(self.target_critics(",
        "q_tp1 = self._lowest(self.critics(",
        LOSSES,
    ),
    Mutant(
        "SAC's next action from target features",
        f"{ALGORITHMS}/off_policy/sac.py",
        "self.policy(steps.next_features(target=False))",
        "self.policy(steps.next_features(target=True))",
        LOSSES,
    ),
    Mutant(
        "SAC's target takes the mean of the critics",
        f"{ALGORITHMS}/off_policy/sac.py",
        "q_tp1 = self._lowest(self.target_critics(steps.next_features(target=True), action))",
        "q_tp1 = self.target_critics(steps.next_features(target=True), action).mean(0)",
        LOSSES,
    ),
    Mutant(
        "SAC's policy follows the mean of the critics",
        f"{ALGORITHMS}/off_policy/sac.py",
        "return values.amin(0) if",
        "return values.mean(0) if",
        LOSSES,
    ),
    Mutant(
        "entropy counts against the value",
        f"{ALGORITHMS}/losses/targets.py",
        "return q_t - temperature * log_prob_t",
        "return q_t + temperature * log_prob_t",
        LOSSES,
    ),
    Mutant(
        "SAC's policy trains the critics",
        f"{ALGORITHMS}/off_policy/sac.py",
        "with self._fixed_critics():",
        "if self.critics:",
        LOSSES,
    ),
    Mutant(
        "SAC's temperature goes the wrong way",
        f"{ALGORITHMS}/losses/targets.py",
        "return -log_temperature * (log_prob_t",
        "return log_temperature * (log_prob_t",
        LOSSES,
    ),
    Mutant(
        "SAC's target entropy has the wrong sign",
        f"{ALGORITHMS}/losses/targets.py",
        ".mean() + target_entropy)",
        ".mean() - target_entropy)",
        LOSSES,
    ),
)
