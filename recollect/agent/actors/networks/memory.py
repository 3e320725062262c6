"""Recurrent memories: one step at a time when acting, whole sequences when learning."""

from abc import ABC, abstractmethod
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect.agent.actors.config import MemoryKind
from recollect.agent.actors.networks.segments import EpisodeSegments


class Memory(nn.Module, ABC):
    """Base of the memories: they reset the hidden state where an episode begins.

    Parameters
    ----------
    net : nn.GRU or nn.LSTM
        One layer of recurrent cells, batch first.
    """

    def __init__(self, net: nn.GRU | nn.LSTM) -> None:
        super().__init__()
        self.net = net
        self.out_features = net.hidden_size

    def forward(self, features: Tensor, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step.

        Parameters
        ----------
        features : Tensor
            `[batch, num_features]`.
        state : Tensor
            Hidden state before the step, `[batch, state_size]`.
        done : Tensor
            1 where an episode begins with this step, so that the state is forgotten first, `[batch, 1]`.

        Returns
        -------
        output : Tensor
            `[batch, size]`.
        state : Tensor
            Hidden state after the step, `[batch, state_size]`.
        """
        return self._step(features, state * (1.0 - done.float()))

    def unroll(self, features: Tensor, state: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """Take all steps of sequences.

        Parameters
        ----------
        features : Tensor
            `[num_seq, length, num_features]`.
        state : Tensor
            Hidden state before the first step, `[num_seq, state_size]`.
        done : Tensor
            1 where an episode begins, `[num_seq, length, 1]`.

        Returns
        -------
        outputs : Tensor
            `[num_seq, length, size]`.
        states : Tensor
            Hidden state after each step, without gradients, `[num_seq, length, state_size]`.
        """
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

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__(nn.GRU(num_features, size, batch_first=True))

    def _step(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        output = torch.gru_cell(features, state, *self._weights())
        return output, output

    def _run(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        outputs, _ = self.net(features, state.unsqueeze(0))
        return outputs, outputs.detach()


class LSTMMemory(Memory):
    """Long short-term memory: Hochreiter and Schmidhuber (1997). The state is output and cell, side by side."""

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__(nn.LSTM(num_features, size, batch_first=True))

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


MEMORIES: Final[dict[MemoryKind, Any]] = {"gru": GRUMemory, "lstm": LSTMMemory}
