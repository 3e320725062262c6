"""Faults in DDQN's targets and losses."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
TESTS: Final = "tests/unit/agent/algorithms"
LOSSES: Final = (f"{TESTS}/off_policy/test_losses.py",)
MASKS: Final = (f"{TESTS}/test_masks.py",)

MUTANTS: Final = (
    Mutant(
        "DDQN chooses by the target network",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        "double_q_value(q_tp1, q_tp1_target,",
        "double_q_value(q_tp1_target, q_tp1_target,",
        LOSSES,
    ),
    Mutant(
        "DDQN's target value comes from the online critics",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        "q_tp1_target = self.target_critics(",
        "q_tp1_target = self.critics(",
        LOSSES,
    ),
    Mutant(
        "DDQN's target critics see online features",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        "self.target_critics(steps.next_features(target=True))",
        "self.target_critics(steps.next_features(target=False))",
        LOSSES,
    ),
    Mutant(
        "DDQN chooses by target features",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        "self.critics(steps.next_features(target=False))",
        "self.critics(steps.next_features(target=True))",
        LOSSES,
    ),
    Mutant(
        "DDQN squares all errors",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        ", delta=self.config.huber_delta)",
        ")",
        LOSSES,
    ),
    Mutant(
        "DDQN bootstraps from actions that are not allowed",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        "q_tp1_target, steps.next_mask)",
        "q_tp1_target)",
        MASKS,
    ),
    Mutant(
        "DDQN bootstraps with the mask of the step before",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        "q_tp1_target, steps.next_mask)",
        "q_tp1_target, steps.mask)",
        MASKS,
    ),
    Mutant(
        "DDQN is greedy among actions that are not allowed",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        "best_action(self._mean(self.critics(features)[0]), mask)",
        "best_action(self._mean(self.critics(features)[0]))",
        MASKS,
    ),
)
