"""Faults in what algorithms share: pace, optimiser, exploration, state."""

from typing import Final

from tests.mutants.mutant import Mutant

ALGORITHMS: Final = "agent/algorithms"
TESTS: Final = "tests/unit/agent/algorithms"
LEARNING: Final = (f"{TESTS}/test_learning.py",)
OPTIMISER: Final = (f"{TESTS}/test_optimiser.py",)
TRANSITIONS: Final = (f"{TESTS}/test_transitions.py",)
UTILS: Final = (f"{TESTS}/test_utils.py",)
EVERY: Final = (f"{TESTS}/off_policy/test_every_algorithm.py",)
ASIDE: Final = (f"{EVERY[0]}::test_what_acts_aside_explores_and_leaves_exploration_as_it_is",)
DETERMINISTIC: Final = (f"{EVERY[0]}::test_deterministic_actions_do_not_change",)
RESTORED: Final = (f"{EVERY[0]}::test_a_loaded_state_resumes_exactly",)
DDQN: Final = (f"{TESTS}/off_policy/test_ddqn.py",)
PPO: Final = (f"{TESTS}/on_policy/test_ppo.py",)
INTRINSIC: Final = (f"{TESTS}/test_intrinsic.py",)
REGRESSION: Final = (f"{TESTS}/losses/test_regression.py",)
CURIOSITY: Final = ("tests/unit/agent/actors/networks/test_curiosity.py",)

MUTANTS: Final = (
    Mutant(
        "the kernel of critics' losses counts all rows alike",
        "agent/kernels/loss_kernels.py",
        "(share * counts)",
        "share",
        REGRESSION,
    ),
    Mutant(
        "the kernel of critics' losses has slopes that grow beyond delta",
        "agent/kernels/loss_kernels.py",
        "-np.copysign(limited, error)",
        "-np.copysign(distance, error)",
        REGRESSION,
    ),
    Mutant(
        "the kernel of critics' losses reads actions that do not exist",
        "agent/kernels/loss_kernels.py",
        "if not 0 <= action[row] < width:",
        "if action[row] == 10_000:",
        REGRESSION,
    ),
    Mutant(
        "gradients of gradients take the slopes of critics' losses for constants",
        f"{ALGORITHMS}/losses/regression.py",
        "            (slopes,) = torch.autograd.grad(loss, values, create_graph=True)\n",
        "",
        REGRESSION,
    ),
    Mutant(
        "a random subset of critics is always the first of them",
        "agent/algorithms/off_policy/actor_critic.py",
        "torch.randperm(len(values), generator=self.generator, device=values.device)[:num]",
        "torch.arange(num, device=values.device)",
        ("tests/unit/agent/algorithms/off_policy/test_losses.py",),
    ),
    Mutant(
        "a policy that climbs the mean of critics climbs the lowest",
        "agent/algorithms/off_policy/sac.py",
        'if self.config.policy_critics == "lowest" else values.mean(0)',
        'if self.config.policy_critics == "lowest" else values.amin(0)',
        ("tests/unit/agent/algorithms/off_policy/test_losses.py",),
    ),
    Mutant(
        "gradients that are not finite are applied",
        f"{ALGORITHMS}/learning.py",
        "            if not math.isfinite(value):\n",
        "            if math.isinf(value):\n",
        LEARNING,
    ),
    Mutant(
        "gradients add up over updates",
        f"{ALGORITHMS}/learning.py",
        "        self.optimiser.zero_grad()\n",
        "",
        EVERY,
    ),
    Mutant(
        "acting beside the training moves exploration on",
        f"{ALGORITHMS}/learning.py",
        "            self.actor.generator, self.num_acted = kept\n",
        "            self.actor.generator, _ = kept\n",
        ASIDE,
    ),
    Mutant(
        "acting beside the training spends its random numbers",
        f"{ALGORITHMS}/learning.py",
        "        self.actor.generator = self._other_generator\n",
        "",
        ASIDE,
    ),
    Mutant(
        "deterministic actions count as exploration",
        f"{ALGORITHMS}/learning.py",
        "        if not deterministic:\n            self.num_acted += action.shape[0]",
        "        self.num_acted += action.shape[0]",
        DETERMINISTIC,
    ),
    Mutant(
        "exploration falls with calls instead of steps of all envs",
        f"{ALGORITHMS}/learning.py",
        "self.num_acted += action.shape[0]",
        "self.num_acted += 1",
        DDQN,
    ),
    Mutant(
        "a checkpoint of an algorithm lacks its counters",
        f"{ALGORITHMS}/learning.py",
        "setattr(self, name, as_count(state.get(name, 0)))",
        "setattr(self, name, 0)",
        RESTORED,
    ),
    Mutant(
        "a restored algorithm draws other random numbers",
        f"{ALGORITHMS}/learning.py",
        "        self.generator.set_state(state[_GENERATOR])\n",
        "        self.generator.get_state()\n",
        RESTORED,
    ),
    Mutant(
        "a restored algorithm has the first temperature again",
        f"{ALGORITHMS}/learning.py",
        "                copy_fitting(name, value, state[_MULTIPLIERS + name])\n",
        "                value.copy_(value)\n",
        RESTORED,
    ),
    Mutant(
        "restored optimisers begin with empty moments",
        f"{ALGORITHMS}/optimiser.py",
        "            copy_fitting(name, tensor, state[name])\n",
        "            tensor.zero_()\n",
        OPTIMISER,
    ),
    Mutant(
        "other optimisers keep their first learning rate",
        f"{ALGORITHMS}/optimiser.py",
        '        self._optimiser.param_groups[0]["lr"] = rate\n',
        "",
        OPTIMISER,
    ),
    Mutant(
        "temperatures decay like weights",
        f"{ALGORITHMS}/optimiser.py",
        "decays = group.decays or _DECAY not in keywords",
        "decays = True",
        OPTIMISER,
    ),
    Mutant(
        "all groups have the first group's learning rate",
        f"{ALGORITHMS}/optimiser.py",
        "share * getattr(config, group.learning_rate)",
        "share * getattr(config, self.groups[0].learning_rate)",
        OPTIMISER,
    ),
    Mutant(
        "annealing does not reach the optimiser",
        f"{ALGORITHMS}/optimiser.py",
        "share * getattr(config, group.learning_rate)",
        "getattr(config, group.learning_rate)",
        OPTIMISER,
    ),
    Mutant(
        "gradients of received updates are ignored",
        f"{ALGORITHMS}/learning.py",
        "        if gradients is not None:\n",
        "        if gradients is None:\n",
        LEARNING,
    ),
    Mutant(
        "targets move before the step",
        f"{ALGORITHMS}/learning.py",
        """        self.optimiser.step(self.config, self._rate_share())
        self.num_updates += 1
        self._after_step()
""",
        """        self.num_updates += 1
        self._after_step()
        self.optimiser.step(self.config, self._rate_share())
""",
        EVERY,
    ),
    Mutant(
        "targets move at every update whatever their interval",
        f"{ALGORITHMS}/off_policy/base.py",
        "if self.num_updates % self.config.target_update_every == 0:",
        "if self.num_updates:",
        EVERY,
    ),
    Mutant(
        "DDQN explores when it is told not to",
        f"{ALGORITHMS}/off_policy/ddqn.py",
        "return greedy if deterministic else self._explore(greedy, mask), {}",
        "return self._explore(greedy, mask), {}",
        DETERMINISTIC,
    ),
    Mutant(
        "DDQN's share of random actions falls below its end",
        f"{ALGORITHMS}/exploration.py",
        "min(1.0, self.num_acted / self.config.epsilon_steps)",
        "self.num_acted / self.config.epsilon_steps",
        DDQN,
    ),
    Mutant(
        "DDQN takes random actions where it should be greedy",
        f"{ALGORITHMS}/exploration.py",
        "torch.where(chance < self.epsilon,",
        "torch.where(chance >= self.epsilon,",
        DDQN,
    ),
    Mutant(
        "the KL of deviations is that of the reversed policies",
        f"{ALGORITHMS}/utils.py",
        "btr(torch.cholesky_solve(cov1, root2)) - mu1.shape[-1] + log_ratio",
        "btr(torch.cholesky_solve(cov2, root1)) - mu1.shape[-1] - log_ratio",
        UTILS,
    ),
    Mutant(
        "a memory is not warmed up before the trained steps",
        f"{ALGORITHMS}/transitions.py",
        "return self._unroll(0, self._begin, self._start)[1][:, -1] if self._begin else self._start",
        "return self._start",
        TRANSITIONS,
    ),
    Mutant(
        "rewards are learned from without their scale",
        f"{ALGORITHMS}/transitions.py",
        "actor.normalise_reward(self._rows(batch[keys.REWARD]).float())",
        "self._rows(batch[keys.REWARD]).float()",
        TRANSITIONS,
    ),
    Mutant(
        "PPO learns on from a policy that has moved too far",
        f"{ALGORITHMS}/on_policy/ppo.py",
        'bool(told["kl"] > self.config.target_kl)',
        'bool(told["kl"] < 0)',
        PPO,
    ),
    Mutant(
        "PPO anneals by updates alone, not by what was missed",
        f"{ALGORITHMS}/on_policy/base.py",
        "num_due = self.num_updates + self.num_missed",
        "num_due = self.num_updates",
        PPO,
    ),
    Mutant(
        "PPO bootstraps from the state before the step",
        f"{ALGORITHMS}/on_policy/base.py",
        "self.actor.encode(batch[keys.NEXT_OBS], rhs,",
        "self.actor.encode(batch[keys.OBS], rhs,",
        PPO,
    ),
    Mutant(
        "what is new is learned from the step before",
        f"{ALGORITHMS}/learning.py",
        "obs = batch[keys.NEXT_OBS]\n        if keys.MASK in batch:",
        "obs = batch[keys.OBS]\n        if keys.MASK in batch:",
        INTRINSIC,
    ),
    Mutant(
        "burn-in and padding count as seen",
        f"{ALGORITHMS}/learning.py",
        "is_step = batch[keys.MASK].squeeze(-1).bool()  # [num_seq, length]",
        "is_step = torch.ones_like(batch[keys.MASK]).squeeze(-1).bool()",
        INTRINSIC,
    ),
    Mutant(
        "intrinsic rewards are folded without the discount",
        "agent/storages/off_policy/replay_buffer.py",
        "self._gamma() ** step * rewards",
        "rewards",
        INTRINSIC,
    ),
    Mutant(
        "the scale of novelty forgets its mean",
        "agent/actors/networks/curiosity.py",
        " + running.mean.square()",
        "",
        CURIOSITY,
    ),
    Mutant(
        "the random network learns too",
        "agent/actors/networks/curiosity.py",
        "num_hidden=1).requires_grad_(False)",
        "num_hidden=2)",
        CURIOSITY,
    ),
)
