"""Faults in exports: what the exported policy leaves out, and what its files say."""

from typing import Final

from tests.mutants.mutant import Mutant

POLICY: Final = "export/policy.py"
CONTRACT: Final = ("tests/contract/test_export_contract.py",)
EXPORT: Final = ("tests/unit/export/test_export.py",)

MUTANTS: Final = (
    Mutant(
        "the exported action is in the policy's units",
        POLICY,
        "_, action, rhs, _ = self._algo.act(",
        "action, _, rhs, _ = self._algo.act(",
        CONTRACT,
    ),
    Mutant(
        "the exported memory begins again at each step", POLICY, "done = torch.zeros(", "done = torch.ones(", CONTRACT
    ),
    Mutant(
        "exported whole actions are cut off instead of rounded", POLICY, "action = action.round()", "pass", CONTRACT
    ),
    Mutant(
        "exported observations are not normalised",
        POLICY,
        "        self._algo = algo.acting_through(self.actor)\n",
        "        self.actor.normaliser = None\n        self._algo = algo.acting_through(self.actor)\n",
        CONTRACT,
    ),
    Mutant("given noise is not scaled", "export/noise.py", "noise * scale + shift", "noise + shift", CONTRACT),
    Mutant("exploration with a state is exported", POLICY, "if not torch.equal(first, again):", "if False:", EXPORT),
    Mutant(
        "a card keeps the score of older weights",
        "api.py",
        "self._learner, self._score = learner, None",
        "self._learner = learner",
        EXPORT,
    ),
)
