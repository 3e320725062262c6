"""Faults in what every off-policy loss is made of: transitions, targets, the regression of critics."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
TESTS: Final = "tests/unit/agent/algorithms"
LOSSES: Final = (f"{TESTS}/off_policy/test_losses.py",)

MUTANTS: Final = (
    Mutant(
        "target body is never used",
        f"{ALGORITHMS}/transitions.py",
        "is_target = target and self._actor.target_body is not None",
        "is_target = False",
        LOSSES,
    ),
    Mutant(
        "next states of the target body come from the online one",
        f"{ALGORITHMS}/transitions.py",
        "states = self._target_states() if target else self._online_states()",
        "states = self._online_states()",
        LOSSES,
    ),
    Mutant(
        "windows end one step late",
        f"{ALGORITHMS}/transitions.py",
        "self._trained(self._batch[keys.N_STEP]) - 1",
        "self._trained(self._batch[keys.N_STEP])",
        LOSSES,
    ),
    Mutant(
        "intrinsic rewards are ignored",
        f"{ALGORITHMS}/transitions.py",
        "self.reward + intrinsic_weight *",
        "self.reward + 0.0 *",
        LOSSES,
    ),
    Mutant(
        "critic losses are averaged over critics",
        f"{ALGORITHMS}/transitions.py",
        ".sum() / losses.shape[-2]",
        ".mean()",
        LOSSES,
    ),
    Mutant(
        "critics do not train the body",
        f"{ALGORITHMS}/transitions.py",
        "        self.features = self._encode()",
        "        self.features = self._encode().detach()",
        LOSSES,
    ),
    Mutant(
        "TD errors keep their sign",
        f"{ALGORITHMS}/off_policy/base.py",
        "errors.detach().abs().mean(0)",
        "errors.detach().mean(0)",
        LOSSES,
    ),
    Mutant(
        "targets drop the discount",
        f"{ALGORITHMS}/losses/targets.py",
        "torch.addcmul(r_t, discount_t, v_tp1)",
        "r_t + v_tp1",
        LOSSES,
    ),
)
