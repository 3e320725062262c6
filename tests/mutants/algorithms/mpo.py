"""Faults in MPO's targets, losses and bounds."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
TESTS: Final = "tests/unit/agent/algorithms"
LOSSES: Final = (f"{TESTS}/off_policy/test_losses.py",)
TARGETS: Final = (f"{TESTS}/losses/test_targets.py",)

MUTANTS: Final = (
    Mutant(
        "importance weights are ignored",
        f"{ALGORITHMS}/transitions.py",
        "(losses if self.weights is None else losses * self.weights)",
        "losses",
        LOSSES,
    ),
    Mutant(
        "MPO samples from the online policy",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "old = self.target_policy(features)",
        "old = self.policy(features)",
        LOSSES,
    ),
    Mutant(
        "MPO's values from the online critics",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "values = self._lowest(self.target_critics(",
        "values = self._lowest(self.critics(",
        LOSSES,
    ),
    Mutant(
        "MPO's old policy sees online features",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "features = steps.next_features(target=True)",
        "features = steps.next_features(target=False)",
        LOSSES,
    ),
    Mutant(
        "MPO's new policy sees target features",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "self.policy(steps.next_features(target=False))",
        "self.policy(steps.next_features(target=True))",
        LOSSES,
    ),
    Mutant(
        "MPO's critics take the larger value",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "self._lowest(",
        "(lambda values: values.amax(0))(",
        LOSSES,
    ),
    Mutant(
        "MPO's weights ignore the temperature",
        f"{ALGORITHMS}/losses/targets.py",
        "return (q_samples / temperature).softmax(0)",
        "return q_samples.softmax(0)",
        LOSSES,
    ),
    Mutant(
        "MPO's dual drops epsilon",
        f"{ALGORITHMS}/losses/targets.py",
        "return temperature * (epsilon + log_mean_exp)",
        "return temperature * log_mean_exp",
        LOSSES,
    ),
    Mutant(
        "MPO's dual sums instead of averaging",
        f"{ALGORITHMS}/losses/targets.py",
        ".logsumexp(0) - math.log(len(q_samples))",
        ".logsumexp(0)",
        LOSSES,
    ),
    Mutant(
        "MPO swaps the KL bounds",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "limits = (self.config.epsilon_mean, self.config.epsilon_std)",
        "limits = (self.config.epsilon_std, self.config.epsilon_mean)",
        LOSSES,
    ),
    Mutant(
        "MPO's KL from the new policy to the old",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "gaussian_kl(old.mean, new.mean, old.std.square().diag_embed(), new.std.square().diag_embed())",
        "gaussian_kl(new.mean, old.mean, new.std.square().diag_embed(), old.std.square().diag_embed())",
        LOSSES,
    ),
    Mutant(
        "MPO fits mean and deviation together",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "by_mean, by_std = Gaussian(new.mean, old.std), Gaussian(old.mean, new.std)",
        "by_mean, by_std = Gaussian(new.mean, new.std), Gaussian(old.mean, new.std)",
        LOSSES,
    ),
    Mutant(
        "MPO forgets the penalty of the mean",
        f"{ALGORITHMS}/off_policy/mpo.py",
        "loss_pi + mean.penalty + std.penalty",
        "loss_pi + std.penalty",
        LOSSES,
    ),
    Mutant(
        "MPO's multipliers shrink while the bound is broken",
        f"{ALGORITHMS}/losses/targets.py",
        "multiplier * (epsilon - kl.detach())",
        "multiplier * (kl.detach() - epsilon)",
        LOSSES,
    ),
    Mutant(
        "MPO's multiplier learns from the penalty",
        f"{ALGORITHMS}/losses/targets.py",
        "Bound(multiplier.detach() * kl,",
        "Bound(multiplier * kl,",
        TARGETS,
    ),
)
