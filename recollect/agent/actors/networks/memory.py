"""Recurrent memories: one step at a time when acting, whole sequences when learning."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect.agent.actors.config import ActorConfig
from recollect.agent.registry import MEMORIES
from recollect.errors import ConfigError, OwnPart


class EpisodeSegments:
    """Splits sequences into segments of one episode each.

    A segment ends where the next episode begins; segments are padded at their ends to the longest.

    Parameters
    ----------
    begins : Tensor
        Whether an episode begins with a step, bool `[num_seq, length]`.
    """

    def __init__(self, begins: Tensor) -> None:
        num_seq, length = begins.shape
        steps = torch.arange(length, device=begins.device).expand(num_seq, -1)
        starts = begins | (steps == 0)
        self._segment = starts.flatten().cumsum(0).view(num_seq, length) - 1
        self._step = steps - torch.where(starts, steps, 0).cummax(1).values  # since the segment's start
        self._first_segment = self._segment[:, 0]
        self.num = int(self._segment[-1, -1]) + 1
        self.length = int(self._step.max()) + 1

    def split(self, rows: Tensor) -> Tensor:
        """`[num_seq, length, …]` -> `[num, longest, …]`, with zeros after a segment's end."""
        padded = rows.new_zeros(self.num, self.length, *rows.shape[2:])
        return padded.index_put((self._segment, self._step), rows)

    def split_states(self, states: Tensor) -> Tensor:
        """States before sequences `[num_seq, …]` -> before segments `[num, …]`: zero where an episode begins."""
        return states.new_zeros(self.num, *states.shape[1:]).index_put((self._first_segment,), states)

    def join(self, padded: Tensor) -> Tensor:
        """`[num, longest, …]` -> `[num_seq, length, …]`."""
        return padded[self._segment, self._step]


class Memory(nn.Module, ABC):
    """Base of the memories, one layer of recurrent cells: they reset the hidden state where an episode begins."""

    net_class: ClassVar[type[nn.GRU | nn.LSTM]]

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__()
        self.net = self.net_class(num_features, size, batch_first=True)
        self.out_features = self.state_size = size

    def forward(self, features: Tensor, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """One step: outputs `[batch, size]`, and the state after it; where `done`, it was forgotten first."""
        return self._step(features, state * (1.0 - done.float()))

    def unroll(self, features: Tensor, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """All steps of sequences: outputs `[num_seq, length, size]`, and the state after each, without gradients."""
        begins = done.bool().squeeze(-1)
        state = state * (1.0 - done[:, 0].float())
        if not begins[:, 1:].any():
            return self._run(features, state)
        segments = EpisodeSegments(begins)
        outputs, states = self._run(segments.split(features), segments.split_states(state))
        return segments.join(outputs), segments.join(states)

    @abstractmethod
    def _step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of each row, with nothing to forget."""

    @abstractmethod
    def _run(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """All steps of each row, with nothing to forget."""

    def _weights(self) -> Any:
        return self.net.weight_ih_l0, self.net.weight_hh_l0, self.net.bias_ih_l0, self.net.bias_hh_l0


class GRUMemory(Memory):
    """Gated recurrent unit: Cho et al. (2014), arXiv 1406.1078."""

    net_class = nn.GRU

    def _step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        output = torch.gru_cell(features, state, *self._weights())
        return output, output

    def _run(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        outputs, _ = self.net(features, state.unsqueeze(0))
        return outputs, outputs.detach()


class LSTMMemory(Memory):
    """Long short-term memory: Hochreiter and Schmidhuber (1997). The state is output and cell, side by side."""

    net_class = nn.LSTM

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__(num_features, size)
        self.state_size = 2 * size

    def _step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        output, cell = torch.lstm_cell(features, state.chunk(2, -1), *self._weights())
        return output, torch.cat((output, cell), -1)

    def _run(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        output, cell = (part.contiguous() for part in state.chunk(2, -1))
        outputs, _ = self.net(features, (output.unsqueeze(0), cell.unsqueeze(0)))
        return outputs, torch.cat((outputs.detach(), self._cells(features, output, cell, outputs)), -1)

    @torch.no_grad()
    def _cells(self, features: Tensor, output: Tensor, cell: Tensor, outputs: Tensor) -> Tensor:
        """Return the cells after each step, which the fused network keeps to itself, `[num_seq, length, size]`."""
        weight_ih, weight_hh, bias_ih, bias_hh = self._weights()
        before = torch.cat((output.unsqueeze(1), outputs[:, :-1]), 1)
        gates = functional.linear(features, weight_ih, bias_ih) + functional.linear(before, weight_hh, bias_hh)
        take, keep, offer, _ = gates.chunk(4, -1)
        gains, keeps = take.sigmoid() * offer.tanh(), keep.sigmoid()
        cells = []
        for gain, share in zip(gains.unbind(1), keeps.unbind(1), strict=True):
            cell = torch.addcmul(gain, share, cell)
            cells.append(cell)
        return torch.stack(cells, 1)


class StepwiseMemory(nn.Module):
    """A memory of the user's own, which has to know one step only: `cell(features, state) -> output, state`.

    Where an episode begins, the state is set to zero before the step.
    """

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        for name in ("out_features", "state_size"):
            if not isinstance(cell, nn.Module) or not isinstance(getattr(cell, name, None), int):
                raise ConfigError(f"memory must be a module with `out_features` and `state_size`, got {cell!r}")
        self.cell = cell
        self.out_features: int = cell.out_features  # type: ignore[assignment]
        self.state_size: int = cell.state_size  # type: ignore[assignment]

    def forward(self, features: Tensor, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """One step: outputs `[batch, out_features]`, and the state after it `[batch, state_size]`."""
        output, state = self.cell(features, state * (1.0 - done.float()))
        return output, state

    def unroll(self, features: Tensor, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """All steps of sequences: outputs `[num_seq, length, out_features]`, and the state after each."""
        outputs, states = [], []
        for step in range(features.shape[1]):
            output, state = self(features[:, step], state, done[:, step])
            outputs.append(output)
            states.append(state.detach())
        return torch.stack(outputs, 1), torch.stack(states, 1)


def build_memory(config: ActorConfig, num_features: int) -> Memory | StepwiseMemory | None:
    """Build the memory that a config asks for, if any."""
    if config.memory is None:
        return None
    build = MEMORIES.find(config.memory) if isinstance(config.memory, str) else config.memory
    with OwnPart("memory must be made of a number of features and memory_size"):
        memory = build(num_features, config.memory_size)
    memory = memory if isinstance(memory, Memory) else StepwiseMemory(memory)
    if callable(config.memory):
        _check_step(memory.eval(), num_features)
    return memory


@torch.no_grad()
def _check_step(memory: Memory | StepwiseMemory, num_features: int) -> None:
    """Refuse a memory of the user's own that does not give what it says, by two rows of zeros."""
    with (
        torch.random.fork_rng(devices=[]),
        OwnPart(f"memory must take features [batch, {num_features}] and states [batch, {memory.state_size}]"),
    ):
        output, state = memory(torch.zeros(2, num_features), torch.zeros(2, memory.state_size), torch.zeros(2, 1))
    found, expected = (output.shape, state.shape), ((2, memory.out_features), (2, memory.state_size))
    if found != expected:
        raise ConfigError(
            f"memory says out_features={memory.out_features} and state_size={memory.state_size}, and makes output and "
            f"state of shapes {tuple(map(tuple, found))} of two rows, expected {expected}"
        )
