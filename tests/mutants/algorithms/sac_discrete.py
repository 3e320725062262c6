"""Faults in the targets and losses of soft actor-critic with discrete actions."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
TESTS: Final = "tests/unit/agent/algorithms"
LOSSES: Final = (f"{TESTS}/off_policy/test_losses.py",)
MASKS: Final = (f"{TESTS}/test_masks.py",)

MUTANTS: Final = (
    Mutant(
        "discrete SAC's target critics see online features",
        f"{ALGORITHMS}/off_policy/sac_discrete.py",
        "self.target_critics(steps.next_features(target=True))",
        "self.target_critics(steps.next_features(target=False))",
        LOSSES,
    ),
    Mutant(
        "discrete SAC's target from the online critics",
        f"{ALGORITHMS}/off_policy/sac_discrete.py",
        "q_tp1 = self._lowest(self.target_critics(",
        "q_tp1 = self._lowest(self.critics(",
        LOSSES,
    ),
    Mutant(
        "discrete SAC's next policy sees target features",
        f"{ALGORITHMS}/off_policy/sac_discrete.py",
        "self._distribution(steps.next_features(target=False)",
        "self._distribution(steps.next_features(target=True)",
        LOSSES,
    ),
    Mutant(
        "discrete SAC's target takes the larger value",
        f"{ALGORITHMS}/off_policy/sac_discrete.py",
        "self._lowest(self.target_critics(steps.next_features(target=True)))",
        "self.target_critics(steps.next_features(target=True)).amax(0)",
        LOSSES,
    ),
    Mutant(
        "discrete SAC's policy follows the larger value",
        f"{ALGORITHMS}/off_policy/sac_discrete.py",
        "q_t = self.critics(features).amin(0)",
        "q_t = self.critics(features).amax(0)",
        LOSSES,
    ),
    Mutant(
        "discrete SAC steers the entropy with the wrong sign",
        f"{ALGORITHMS}/off_policy/sac_discrete.py",
        "-policy.entropy().detach().mean()",
        "policy.entropy().detach().mean()",
        LOSSES,
    ),
    Mutant(
        "discrete SAC's next policy takes actions that are not allowed",
        f"{ALGORITHMS}/off_policy/sac_discrete.py",
        "steps.next_features(target=False), steps.next_mask)",
        "steps.next_features(target=False), None)",
        MASKS,
    ),
    Mutant(
        "discrete SAC steers to an entropy that masks do not leave",
        f"{ALGORITHMS}/off_policy/sac_discrete.py",
        "if mask is None or self.config.target_entropy is not None:",
        "if True:",
        MASKS,
    ),
)
