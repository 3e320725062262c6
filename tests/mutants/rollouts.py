"""Faults in rollouts: returns, advantages, and how steps are dealt out."""

from typing import Final

from tests.mutants.mutant import Mutant

ON_POLICY: Final = "agent/storages/on_policy"
TESTS: Final = "tests/unit/agent/storages/on_policy"
RETURNS: Final = (f"{TESTS}/test_returns.py",)
REFERENCE: Final = (f"{TESTS}/test_against_reference.py",)
BUFFERS: Final = (f"{TESTS}/test_rollout_buffers.py",)

MUTANTS: Final = (
    Mutant(
        "GAE drops lambda",
        f"{ON_POLICY}/returns.py",
        "_sum_backwards(delta_t, gae_lambda * discount_t * continues_t)",
        "_sum_backwards(delta_t, discount_t * continues_t)",
        RETURNS,
    ),
    Mutant(
        "advantages cross the ends of episodes",
        f"{ON_POLICY}/returns.py",
        "gae_lambda * discount_t * continues_t",
        "gae_lambda * discount_t",
        RETURNS,
    ),
    Mutant(
        "V-trace swaps its two limits",
        f"{ON_POLICY}/returns.py",
        """    rho_t = ratio_t.clamp(max=rho_bar)
    c_t = trace_lambda * ratio_t.clamp(max=c_bar)
""",
        """    rho_t = ratio_t.clamp(max=c_bar)
    c_t = trace_lambda * ratio_t.clamp(max=rho_bar)
""",
        RETURNS,
    ),
    Mutant(
        "V-trace's advantages bootstrap from the value instead of the target",
        f"{ON_POLICY}/returns.py",
        "r_t + discount_t * target_tp1 - v_t)",
        "r_t + discount_t * v_tp1 - v_t)",
        RETURNS,
    ),
    Mutant(
        "V-trace's ratio is upside down",
        f"{ON_POLICY}/returns.py",
        "ratio_t = torch.exp(log_rho_t)",
        "ratio_t = torch.exp(-log_rho_t)",
        RETURNS,
    ),
    Mutant(
        "steps of all envs run into one another",
        f"{ON_POLICY}/time_major.py",
        "~(is_broken | is_newest)",
        "~is_newest",
        REFERENCE,
    ),
    Mutant(
        "a memory is carried over a break",
        f"{ON_POLICY}/time_major.py",
        "broken_before[1:] = ~self.continues[:-1] & ~done[1:]",
        "broken_before[1:] = False",
        REFERENCE,
    ),
    Mutant(
        "steps that only warm a memory up are learned from",
        f"{ON_POLICY}/rollouts.py",
        "(offsets >= self._num_warm[part, None]) & (offsets < lengths)",
        "(offsets < lengths) & (offsets >= 0)",
        REFERENCE,
    ),
    Mutant(
        "an epoch goes through the steps in their order",
        f"{ON_POLICY}/rollouts.py",
        "np.arange(num_rows) if rng is None else rng.permutation(num_rows)",
        "np.arange(num_rows)",
        BUFFERS,
    ),
)
