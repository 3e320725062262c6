"""Faults in the targets and losses of DDPG and TD3."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
TESTS: Final = "tests/unit/agent/algorithms"
LOSSES: Final = (f"{TESTS}/off_policy/test_losses.py",)
TD3: Final = (f"{TESTS}/off_policy/test_td3.py",)

MUTANTS: Final = (
    Mutant(
        "DDPG's target from the online critics",
        f"{ALGORITHMS}/off_policy/ddpg.py",
        "q_tp1 = self._lowest(self.target_critics(",
        "q_tp1 = self._lowest(self.critics(",
        LOSSES,
    ),
    Mutant(
        "DDPG's target from online features",
        f"{ALGORITHMS}/off_policy/ddpg.py",
        "features = steps.next_features(target=True)",
        "features = steps.next_features(target=False)",
        LOSSES,
    ),
    Mutant(
        "DDPG's next action from the online policy",
        f"{ALGORITHMS}/off_policy/ddpg.py",
        "self.target_policy(features).mode()",
        "self.policy(features).mode()",
        LOSSES,
    ),
    Mutant(
        "DDPG's policy descends the value",
        f"{ALGORITHMS}/off_policy/ddpg.py",
        "-steps.mean(self.critics.first(",
        "steps.mean(self.critics.first(",
        LOSSES,
    ),
    Mutant(
        "DDPG's critics train with the policy",
        f"{ALGORITHMS}/off_policy/ddpg.py",
        "with self._fixed_critics():",
        "if self.critics:",
        LOSSES,
    ),
    Mutant(
        "TD3 takes the larger value",
        f"{ALGORITHMS}/off_policy/ddpg.py",
        "self._lowest(self.target_critics(features, self._next_action(features)))",
        "self.target_critics(features, self._next_action(features)).amax(0)",
        LOSSES,
    ),
    Mutant(
        "TD3 averages the critics",
        f"{ALGORITHMS}/off_policy/ddpg.py",
        "self._lowest(self.target_critics(features, self._next_action(features)))",
        "self.target_critics(features, self._next_action(features)).mean(0)",
        LOSSES,
    ),
    Mutant(
        "TD3 smooths no target action",
        f"{ALGORITHMS}/off_policy/td3.py",
        "return smoothed_action(action, noise, self.config.target_noise_limit)",
        "return action",
        LOSSES,
    ),
    Mutant(
        "TD3's noise has no limit",
        f"{ALGORITHMS}/off_policy/td3.py",
        "self.config.target_noise_limit)",
        "1e9)",
        LOSSES,
    ),
    Mutant(
        "TD3 trains its policy at every update",
        f"{ALGORITHMS}/off_policy/td3.py",
        "is_due = (self.num_computed + 1) % self.config.policy_delay == 0",
        "is_due = True",
        TD3,
    ),
    Mutant(
        "TD3's targets move at every update",
        f"{ALGORITHMS}/off_policy/td3.py",
        """        if self.num_updates % self.config.policy_delay == 0:
            super()._after_step()""",
        "        super()._after_step()",
        TD3,
    ),
)
