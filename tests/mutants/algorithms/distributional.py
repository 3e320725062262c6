"""Faults in the algorithms that learn distributions of returns, and in those that came after SAC."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
OFF_POLICY: Final = f"{ALGORITHMS}/off_policy"
TESTS: Final = "tests/unit/agent/algorithms"
LOSSES: Final = (f"{TESTS}/off_policy/test_losses.py",)
EQUATIONS: Final = (f"{TESTS}/losses/test_distributional.py",)
EVERY: Final = f"{TESTS}/off_policy/test_every_algorithm.py"

MUTANTS: Final = (
    Mutant(
        "a kernel weighs both sides of a quantile alike",
        "agent/kernels/loss_kernels.py",
        "weight = _ONE - share if error < _ZERO else share",
        "weight = share",
        EQUATIONS,
    ),
    Mutant(
        "a kernel compares critics with the samples of other rows",
        "agent/kernels/loss_kernels.py",
        "target[row % rows * num_targets :]",
        "target[row // num * num_targets :]",
        EQUATIONS,
    ),
    Mutant(
        "quantiles are at the ends of their shares",
        f"{ALGORITHMS}/losses/distributional.py",
        "+ 0.5) / num",
        "+ 1.0) / num",
        (*EQUATIONS, *LOSSES),
    ),
    Mutant(
        "quantiles pay for the wrong side",
        f"{ALGORITHMS}/losses/distributional.py",
        "(errors.detach() < 0)",
        "(errors.detach() > 0)",
        EQUATIONS,
    ),
    Mutant(
        "the smallest quantiles are dropped",
        f"{ALGORITHMS}/losses/distributional.py",
        "together.sort(-1).values",
        "together.sort(-1, descending=True).values",
        (*EQUATIONS, *LOSSES),
    ),
    Mutant(
        "returns beyond the grid are lost",
        f"{ALGORITHMS}/losses/distributional.py",
        "returns.clamp(support[0], support[-1])",
        "returns",
        EQUATIONS,
    ),
    Mutant(
        "the target network chooses the action of a distribution",
        f"{OFF_POLICY}/distributional/distributional_dqn.py",
        "q_tp1 = self._mean(self.critics(steps.next_features(target=False))[0])",
        "q_tp1 = self._mean(self.target_critics(steps.next_features(target=True))[0])",
        LOSSES,
    ),
    Mutant(
        "distributions after a step are the online network's",
        f"{OFF_POLICY}/distributional/distributional_dqn.py",
        "atoms = self.target_critics(",
        "atoms = self.critics(",
        LOSSES,
    ),
    Mutant(
        "distributional targets choose among actions that are not allowed",
        f"{OFF_POLICY}/distributional/distributional_dqn.py",
        "best_action(q_tp1, steps.next_mask)",
        "best_action(q_tp1)",
        (f"{TESTS}/test_masks.py",),
    ),
    Mutant(
        "QR-DQN averages the losses of quantiles",
        f"{OFF_POLICY}/distributional/qr_dqn.py",
        ".sum(-1, keepdim=True)",
        ".mean(-1, keepdim=True)",
        LOSSES,
    ),
    Mutant(
        "C51 does not discount what follows",
        f"{OFF_POLICY}/distributional/c51.py",
        "td_target(steps.reward, steps.discount,",
        "td_target(steps.reward, steps.discount.ceil(),",
        LOSSES,
    ),
    Mutant(
        "C51's priorities are cross entropies",
        f"{OFF_POLICY}/distributional/c51.py",
        "losses.detach() - entropy, losses",
        "losses.detach(), losses",
        LOSSES,
    ),
    Mutant(
        "C51's mean is of equal probabilities",
        f"{OFF_POLICY}/distributional/c51.py",
        "(atoms.softmax(-1) *",
        "(atoms.mul(0).softmax(-1) *",
        LOSSES,
    ),
    Mutant(
        "Rainbow has no noise",
        f"{OFF_POLICY}/distributional/rainbow.py",
        "Layers(noisy=self.noisy_std)",
        "Layers()",
        (f"{TESTS}/off_policy/distributional/test_rainbow.py",),
    ),
    Mutant(
        "Rainbow is not dueling",
        f"{OFF_POLICY}/distributional/rainbow.py",
        "dueling=True, ",
        "",
        (f"{TESTS}/off_policy/distributional/test_rainbow.py",),
    ),
    Mutant(
        "TQC's entropy counts against the return",
        f"{OFF_POLICY}/distributional/tqc.py",
        "log_prob, temperature)",
        "-log_prob, temperature)",
        LOSSES,
    ),
    Mutant(
        "TQC's policy climbs the lowest critic",
        f"{OFF_POLICY}/distributional/tqc.py",
        "values.mean(-1, keepdim=True).mean(0)",
        "values.mean(-1, keepdim=True).amin(0)",
        LOSSES,
    ),
    Mutant(
        "TQC sums the losses of quantiles",
        f"{OFF_POLICY}/distributional/tqc.py",
        "self.config.huber_delta).mean(",
        "self.config.huber_delta).sum(",
        LOSSES,
    ),
    Mutant(
        "REDQ's targets trust all critics",
        f"{OFF_POLICY}/sample_efficient/redq.py",
        "target_critic_count(2)",
        "target_critic_count(None)",
        LOSSES,
    ),
    Mutant(
        "REDQ's policy climbs the lowest critic",
        f"{OFF_POLICY}/sample_efficient/redq.py",
        'option("mean",',
        'option("lowest",',
        LOSSES,
    ),
    Mutant(
        "DroQ's critics have no layer norm",
        f"{OFF_POLICY}/sample_efficient/droq.py",
        "layer_norm=True, ",
        "",
        (f"{TESTS}/off_policy/distributional/test_rainbow.py",),
    ),
    Mutant(
        "RLPD's critics have no layer norm",
        f"{OFF_POLICY}/offline/rlpd.py",
        "Layers(layer_norm=True)",
        "Layers()",
        (f"{TESTS}/off_policy/distributional/test_rainbow.py",),
    ),
    Mutant(
        "dropout leaves target networks alone",
        "agent/actors/base.py",
        "for part in self.modules() if isinstance(part, LearningPart)",
        "for part in self.critics.modules() if isinstance(part, LearningPart)",
        (f"{TESTS}/off_policy/distributional/test_rainbow.py",),
    ),
    Mutant(
        "CrossQ's gradient flows into what follows",
        f"{OFF_POLICY}/sample_efficient/crossq.py",
        "self._lowest(q_tp1.detach())",
        "self._lowest(q_tp1)",
        LOSSES,
    ),
    Mutant(
        "CrossQ's batches are normalised apart",
        f"{OFF_POLICY}/sample_efficient/crossq.py",
        "self.critics(features, actions).chunk(2, 1)",
        "(self.critics(f, a) for f, a in zip(features.chunk(2), actions.chunk(2), strict=True))",
        LOSSES,
    ),
    Mutant(
        "CrossQ's policy loss moves the critics' statistics",
        f"{OFF_POLICY}/sample_efficient/crossq.py",
        "with running_statistics(self.critics):",
        "with running_statistics(self.policy):",
        LOSSES,
    ),
    Mutant(
        "the policy is trained in every update",
        f"{OFF_POLICY}/soft.py",
        "% self.config.policy_delay == 0",
        "% 1 == 0",
        (f"{TESTS}/off_policy/distributional/test_rainbow.py",),
    ),
)
