"""Faults in actors: networks, distributions, memories, normalisers, noise, and actions as environments take them."""

from typing import Final

from tests.mutants.mutant import Mutant

ACTORS: Final = "agent/actors"
NETWORKS: Final = f"{ACTORS}/networks"
TESTS: Final = "tests/unit/agent/actors"
NETWORK_TESTS: Final = f"{TESTS}/networks"
ACTIONS: Final = (f"{TESTS}/test_actions.py",)
BASE: Final = (f"{TESTS}/test_base.py",)
MASKS: Final = ("tests/unit/agent/algorithms/test_masks.py",)
NOISE: Final = (f"{TESTS}/test_noise.py",)
CRITICS: Final = (f"{NETWORK_TESTS}/test_critics.py",)
DENSE: Final = (f"{NETWORK_TESTS}/test_dense.py",)
DISTRIBUTIONS: Final = (f"{NETWORK_TESTS}/test_distributions.py",)
FEATURES: Final = (f"{NETWORK_TESTS}/test_features.py",)
MEMORY: Final = (f"{NETWORK_TESTS}/test_memory.py",)
NORMALISE: Final = (f"{NETWORK_TESTS}/test_normalise.py",)
TARGETS: Final = (f"{NETWORK_TESTS}/test_target_networks.py",)

KERNELS: Final = ("tests/unit/agent/kernels/test_kernels.py",)
LAYERS: Final = (f"{NETWORK_TESTS}/test_layers.py",)
AUGMENT: Final = (f"{NETWORK_TESTS}/test_augment.py",)

MUTANTS: Final = (
    Mutant(
        "a kernel writes into tensors of PyTorch's default dtype",
        f"{NETWORKS}/fused_stack.py",
        '{"dtype": torch.float32, "device": torch.device("cpu")}',
        "{}",
        KERNELS,
    ),
    Mutant(
        "a kernel forgets the gradient of the activation",
        "agent/kernels/stack_kernels.py",
        "            if layer < shape[1]:\n",
        "            if layer < shape[1] - 1:\n",
        KERNELS,
    ),
    Mutant(
        "a kernel takes rows with a gradient for others",
        "agent/kernels/stack_kernels.py",
        "        result = results[rows[index]]\n",
        "        result = results[index]\n",
        KERNELS,
    ),
    Mutant(
        "a kernel scales gradients that are small enough",
        "agent/kernels/row_kernels.py",
        "    if share < _ONE:\n",
        "    if share > _ZERO:\n",
        KERNELS,
    ),
    Mutant(
        "noise on weights is not factorised by roots",
        f"{NETWORKS}/layers.py",
        "drawn.sign() * drawn.abs().sqrt()",
        "drawn",
        LAYERS,
    ),
    Mutant(
        "noise stays when a network no longer explores",
        f"{NETWORKS}/layers.py",
        "        self._noise = None\n",
        "        pass\n",
        LAYERS,
    ),
    Mutant(
        "what dropout keeps is not scaled up",
        f"{NETWORKS}/layers.py",
        ".div_(kept)",
        "",
        LAYERS,
    ),
    Mutant(
        "batch renormalisation does not correct towards the running mean",
        f"{NETWORKS}/layers.py",
        "scaled * scale + shift",
        "scaled * scale",
        LAYERS,
    ),
    Mutant(
        "target networks move their statistics",
        f"{NETWORKS}/layers.py",
        "self.is_learning = self.weight.requires_grad",
        "self.is_learning = True",
        LAYERS,
    ),
    Mutant(
        "a residual block has no way around it",
        f"{NETWORKS}/composed.py",
        "return inputs + changed",
        "return changed",
        LAYERS,
    ),
    Mutant(
        "all rows of a batch are shifted alike",
        f"{NETWORKS}/augment.py",
        "(num_rows, 1), generator",
        "(1, 1), generator",
        AUGMENT,
    ),
    Mutant(
        "images are shifted while acting too",
        f"{NETWORKS}/augment.py",
        "    def end(self) -> None:\n        self._generator = self._seed = None",
        "    def end(self) -> None:\n        pass",
        AUGMENT,
    ),
    Mutant(
        "a policy head that cannot leave actions out is found only when it acts",
        "agent/actors/networks/heads.py",
        "if masks and not hasattr",
        "if False and not hasattr",
        ("tests/unit/cli/test_mistakes.py::test_a_mistake_in_python_raises_a_typed_error",),
    ),
    Mutant(
        "the variance of parts ignores how far their means are apart",
        f"{NETWORKS}/normalise.py",
        "variance * share + delta.square() * (share * (1 - share))",
        "variance * share",
        NORMALISE,
    ),
    Mutant(
        "a normaliser counts batches instead of rows",
        f"{NETWORKS}/normalise.py",
        "self.count.copy_(total)",
        "self.count.add_(1)",
        NORMALISE,
    ),
    Mutant(
        "normalised observations are not clipped",
        f"{NETWORKS}/normalise.py",
        ".clamp_(-_CLIP, _CLIP)",
        "",
        NORMALISE,
    ),
    Mutant(
        "returns for reward scaling run on over the end of an episode",
        f"{NETWORKS}/normalise.py",
        "= returns * (1 - done.double())",
        "= returns",
        NORMALISE,
    ),
    Mutant(
        "rewards are scaled by undiscounted returns",
        f"{NETWORKS}/normalise.py",
        "returns = returns * gamma + reward",
        "returns = returns + reward",
        NORMALISE,
    ),
    Mutant(
        "normalisers count rows that are no step",
        f"{ACTORS}/base.py",
        "rows = slice(None) if skip is None else np.flatnonzero(~skip)",
        "rows = slice(None)",
        BASE,
    ),
    Mutant(
        "target networks stay where they are",
        f"{NETWORKS}/target_networks.py",
        "torch._foreach_lerp_(self._target, self._online, tau)",
        "torch._foreach_lerp_(self._target, self._target, tau)",
        TARGETS,
    ),
    Mutant(
        "target networks are nearly replaced where they should nearly stay",
        f"{NETWORKS}/target_networks.py",
        "torch._foreach_lerp_(self._target, self._online, tau)",
        "torch._foreach_lerp_(self._target, self._online, 1 - tau)",
        TARGETS,
    ),
    Mutant(
        "a memory remembers the episode before",
        f"{NETWORKS}/memory.py",
        "return self._step(features, state * (1.0 - done.float()))",
        "return self._step(features, state)",
        MEMORY,
    ),
    Mutant(
        "a sequence's memory runs over the ends of episodes",
        f"{NETWORKS}/memory.py",
        "if not begins[:, 1:].any():",
        "if len(begins):",
        MEMORY,
    ),
    Mutant(
        "a sequence that begins an episode keeps the state before it",
        f"{NETWORKS}/memory.py",
        "        state = state * (1.0 - done[:, 0].float())\n",
        "",
        MEMORY,
    ),
    Mutant(
        "the cell of an LSTM is taken for its output",
        f"{NETWORKS}/memory.py",
        "return output, torch.cat((output, cell), -1)",
        "return output, torch.cat((cell, output), -1)",
        MEMORY,
    ),
    Mutant(
        "an LSTM's cells of sequences are those of the step before",
        f"{NETWORKS}/memory.py",
        "            cell = torch.addcmul(gain, share, cell)\n            cells.append(cell)\n",
        "            cells.append(cell)\n            cell = torch.addcmul(gain, share, cell)\n",
        MEMORY,
    ),
    Mutant(
        "dueling advantages do not average to zero",
        f"{NETWORKS}/critics.py",
        "advantage + (value - advantage.mean(-1, keepdim=True))",
        "advantage + value",
        CRITICS,
    ),
    Mutant(
        "the first critic gives the value of the last",
        f"{NETWORKS}/stack.py",
        "pieces = [piece[:num] for piece in pieces]",
        "pieces = [piece[-num:] for piece in pieces]",
        DENSE,
    ),
    Mutant(
        "gradients of a layer's weights come from its results",
        f"{NETWORKS}/stack.py",
        "_put_gradients(results[index - 1] if index else columns,",
        "_put_gradients(results[index] if index else columns,",
        DENSE,
    ),
    Mutant(
        "gradients pass units that are switched off",
        f"{NETWORKS}/stack.py",
        "            stack.through_activation(gradient, results[index])",
        "            pass",
        DENSE,
    ),
    Mutant(
        "a gradient that someone else holds is changed",
        f"{NETWORKS}/stack.py",
        "gradient.clone() if stack.num_active == len(weights) else gradient.contiguous()",
        "gradient.contiguous()",
        DENSE,
    ),
    Mutant(
        "gradients of the first network alone leave the others' at random",
        f"{NETWORKS}/stack.py",
        "(torch.empty_like if num == stack.num else torch.zeros_like)(flat)",
        "torch.full_like(flat, 7.0)",
        DENSE,
    ),
    Mutant(
        "inputs beside each other get the gradient of the first columns",
        f"{NETWORKS}/stack.py",
        "start, stop = stop, stop + each.shape[-1]",
        "start, stop = 0, each.shape[-1]",
        DENSE,
    ),
    Mutant(
        "rows without a gradient shift the others",
        f"{NETWORKS}/stack.py",
        "found[network].index_copy_(0, rows, piece[0])",
        "found[network][: len(rows)] = piece[0]",
        DENSE,
    ),
    Mutant(
        "networks keep computing with weights that were replaced",
        f"{NETWORKS}/stack.py",
        "if self._viewed is None or self._viewed[0] != flat.data_ptr():",
        "if self._viewed is None:",
        DENSE,
    ),
    Mutant(
        "the output of a network is activated",
        f"{NETWORKS}/dense.py",
        "else len(sizes) - 2",
        "else len(sizes) - 1",
        DENSE,
    ),
    Mutant(
        "squashing does not change log-probabilities of samples",
        f"{NETWORKS}/distributions.py",
        "return raw.tanh(), log_prob - _log_tanh_slope(raw)",
        "return raw.tanh(), log_prob",
        DISTRIBUTIONS,
    ),
    Mutant(
        "the mode of a squashed Gaussian leaves the bounds",
        f"{NETWORKS}/distributions.py",
        "return self.mean.tanh()",
        "return self.mean",
        DISTRIBUTIONS,
    ),
    Mutant(
        "log-probabilities of several choices are averaged",
        f"{NETWORKS}/distributions.py",
        "super().log_prob(action.unsqueeze(-1)).sum(-2)",
        "super().log_prob(action.unsqueeze(-1)).mean(-2)",
        DISTRIBUTIONS,
    ),
    Mutant(
        "samples of choices prefer what is unlikely",
        f"{NETWORKS}/distributions.py",
        "(self.logits - clocks.log()).argmax(-1, keepdim=True)",
        "(self.logits + clocks.log()).argmax(-1, keepdim=True)",
        DISTRIBUTIONS,
    ),
    Mutant(
        "switches count as on where they are off",
        f"{NETWORKS}/distributions.py",
        "signs = 2 * action - 1",
        "signs = 1 - 2 * action",
        DISTRIBUTIONS,
    ),
    Mutant(
        "the entropy of a Gaussian has the wrong sign",
        f"{NETWORKS}/distributions.py",
        "self.std.log() + (0.5 + _HALF_LOG_2PI)",
        "(0.5 + _HALF_LOG_2PI) - self.std.log()",
        DISTRIBUTIONS,
    ),
    Mutant(
        "choices that do not exist can be taken",
        f"{NETWORKS}/heads.py",
        "logits if self._is_complete else logits.masked_fill(self.impossible, IMPOSSIBLE)",
        "logits",
        (f"{NETWORK_TESTS}/test_heads.py",),
    ),
    Mutant(
        "bytes are not scaled",
        f"{NETWORKS}/images.py",
        "values.float().mul_(scale)",
        "values.float()",
        FEATURES,
    ),
    Mutant(
        "whole numbers share their places among features",
        f"{NETWORKS}/features.py",
        "offsets - starts",
        "0 * offsets - starts",
        FEATURES,
    ),
    Mutant(
        "actions are stretched around zero instead of the middle of their bounds",
        f"{ACTORS}/actions.py",
        "torch.addcmul(self.shift, action, self.scale)",
        "action * self.scale",
        ACTIONS,
    ),
    Mutant(
        "actions leave their bounds",
        f"{ACTORS}/actions.py",
        "        return action.clamp(self.low, self.high)\n",
        "        return action\n",
        ACTIONS,
    ),
    Mutant(
        "choices are counted from zero where a space begins elsewhere",
        f"{ACTORS}/actions.py",
        "action + self.start if self._is_shifted else action",
        "action",
        ACTIONS,
    ),
    Mutant(
        "random choices never take the last",
        f"{ACTORS}/actions.py",
        "(uniform * self.counts).long()",
        "(uniform * (self.counts - 1)).long()",
        ACTIONS,
    ),
    Mutant(
        "random choices ignore the mask",
        f"{ACTORS}/actions.py",
        "        if mask is None:\n",
        "        if self._is_single or mask is None:\n",
        MASKS,
    ),
    Mutant(
        "networks see the mask",
        f"{ACTORS}/base.py",
        "visible = without_mask(obs) if self.is_masked else obs\n        return",
        "visible = obs\n        return",
        MASKS,
    ),
    Mutant(
        "switches that must be on are off",
        f"{NETWORKS}/distributions.py",
        "logits.masked_fill(~mask[..., 0], -IMPOSSIBLE)",
        "logits.masked_fill(~mask[..., 0], IMPOSSIBLE)",
        MASKS,
    ),
    Mutant(
        "drifting noise runs on into the next episode",
        f"{ACTORS}/noise.py",
        "drift * ((1.0 - self.theta) * (1.0 - done.float()))",
        "drift * (1.0 - self.theta)",
        NOISE,
    ),
    Mutant(
        "drifting noise is not pulled back",
        f"{ACTORS}/noise.py",
        "drift * ((1.0 - self.theta) * (1.0 - done.float()))",
        "drift * (1.0 - done.float())",
        NOISE,
    ),
    Mutant(
        "noise takes actions out of their bounds",
        f"{ACTORS}/noise.py",
        "torch.add(action, noise, alpha=self.std).clamp_(-1.0, 1.0)",
        "torch.add(action, noise, alpha=self.std)",
        NOISE,
    ),
)
