"""Decentralised updates: every gradient worker applies the mean of all gradients itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from recollect.errors import NotFiniteError
from recollect.files.records import MAX_COUNTED
from recollect.roles import Batch, Info
from recollect.scheme import normaliser_sums
from recollect.scheme.base import engine
from recollect.scheme.gradients.flat import FlatGradients
from recollect.scheme.gradients.g_worker import GWorker
from recollect.scheme.gradients.status import GradientStatus, ResumePoint, numbers_of
from recollect.scheme.updates.peer_group import PeerGroup, PeerLostError, Rendezvous, open_rendezvous
from recollect.scheme.weights import VersionedWeights, apply_state, read_state, read_weights

_LIMITS: Final = "limits"


@dataclass(frozen=True)
class StageReport:
    """What a peer tells of an update stage.

    Attributes
    ----------
    version : int
        Updates that it has applied in all.
    status : GradientStatus
        How its collection stands.
    infos : list of dict
        Numbers on each of its own gradients.
    weights : VersionedWeights or None
        The weights, from the first peer alone: all have the same.
    failure, batch
        Why there is no gradient, and for which batch, where the loss was not finite.
    reason : str or None
        Why the stage is not complete: a peer was lost on the way.
    """

    version: int
    status: GradientStatus
    infos: list[Info] = field(default_factory=list)
    weights: VersionedWeights | None = None
    failure: str | None = None
    batch: Batch | None = None
    reason: str | None = None


class PeerWorker(GWorker):
    """Gradient worker that applies updates itself, always the same ones as all of its peers.

    The number of gradients need not be the same everywhere: who has no more takes part with none, until
    nobody has any.
    """

    _group: PeerGroup | None = None
    _store: TCPStore | None = None
    _rank = 0
    _is_waiting = False

    def progress(self) -> int | None:
        """A number that moves while the worker does something, or waits for a peer that does."""
        if self._is_waiting:
            self.tick()
        return super().progress()

    def node_address(self) -> str:
        """Address of the machine that the worker is on."""
        return engine.node_address()

    def open_rendezvous(self, host: str, num_peers: int) -> Rendezvous:
        """Open a place for all peers to meet."""
        meeting, self._store = open_rendezvous(host, num_peers)
        return meeting

    def join(self, meeting: Rendezvous, rank: int, timeout_s: float) -> str | None:
        """Leave the group before and join a new one; returns why it did not come about, None if it did."""
        self.leave()
        self._rank = rank
        self._is_waiting = True
        store = self._store if rank == 0 else None
        try:
            self._group = PeerGroup(meeting, rank, timeout_s=timeout_s, device=self.algo.device, store=store)
        except PeerLostError as error:
            return str(error)
        finally:
            self._is_waiting = False
        return None

    def leave(self) -> None:
        """Leave the group, if there is one."""
        group, self._group = self._group, None
        if group is not None:
            group.leave()

    def learner_state(self) -> dict[str, Any]:
        """What has been learned, the same at all peers but for the chance."""
        return {**read_state(self.algo), _LIMITS: self._limiter.state()}

    def adopt(self, state: Mapping[str, Any]) -> None:
        """Resume from what a peer has learned; storage and collection are left as they are."""
        apply_state(self.algo, state, with_chance=False)
        self._adopt_limits(state)

    def resume(self, resume_point: ResumePoint) -> None:
        super().resume(resume_point)
        self._adopt_limits(resume_point.state)

    def run_stage(self) -> StageReport:
        """Run one update stage together with all peers."""
        infos: list[Info] = []
        failure, reason = None, None
        self.algo.num_learners = self.num_peers
        try:
            seen = normaliser_sums.take_sums(self.algo.actor)
            # What is stored after the updates is shared after them: all peers must come to it at the same time.
            is_shared_first = not self.col_worker.stages.keeps_experience
            with self._collecting():
                if is_shared_first:
                    self._share_statistics(seen)
                self._share_steps()
                try:
                    infos.extend(self._update_together())
                except NotFiniteError as error:
                    failure = str(error)
            if not is_shared_first:
                self._share_statistics(seen)
        except PeerLostError as error:
            reason = str(error)
            self.leave()
        version = int(self.algo.num_updates)
        weights = read_weights(self.algo, version) if self._rank == 0 and reason is None else None
        batch = self.offending_batch if failure else None
        return StageReport(version, self.status(), infos, weights, failure, batch, reason)

    def _update_together(self) -> Iterator[Info]:
        """Apply mean gradients for as long as any peer has some; yields the infos of this worker's own."""
        parameters = self.algo.optimiser.parameters
        flat = FlatGradients(parameters)
        own = self.compute_gradients()
        failure: NotFiniteError | None = None
        num_updates = 0
        while True:
            try:
                info = next(own, None)
            except NotFiniteError as error:
                info, failure = None, error
            row = flat.pack(None if info is None else [parameter.grad for parameter in parameters])
            mean = flat.mean(self._sum(row))
            if mean is None:
                self.algo.end_stages(num_updates)
                break
            self.algo.apply_gradients(mean)
            num_updates += 1
            self._limiter.updated()
            self.col_worker.counts.actor_version += 1
            if info is not None:
                yield numbers_of(info)
        if failure is not None:
            raise failure

    def _share_statistics(self, seen: normaliser_sums.Sums) -> None:
        """Let the normalisers of all peers have seen what any of them has."""
        increments = normaliser_sums.increment(seen, normaliser_sums.take_sums(self.algo.actor))
        if not increments:
            return
        total = self._sum(torch.from_numpy(np.concatenate([values.ravel() for values in increments.values()])))
        pieces = torch.split(total, [values.size for values in increments.values()])
        shared = {
            name: piece.numpy().reshape(values.shape)
            for (name, values), piece in zip(increments.items(), pieces, strict=True)
        }
        normaliser_sums.put_sums(self.algo.actor, seen, shared, self.num_peers)

    def _share_steps(self) -> None:
        """Count the steps of all peers, so that all of them have the same number of batches."""
        if self._limiter.updates_per_step is not None:
            total = self._sum(torch.tensor([self._num_uncounted], dtype=torch.float64))
            self._limiter.collected(round(float(total)))
            self._num_uncounted = 0

    def _adopt_limits(self, state: Mapping[str, Any]) -> None:
        """Make as many updates due as a peer has."""
        if state.get(_LIMITS):
            self._limiter.load_state(state[_LIMITS], MAX_COUNTED)

    def _count_steps(self, num_steps: int) -> None:
        """Keep them until those of all peers are known."""
        self._num_uncounted += num_steps

    def _count_update(self) -> None:
        """Do nothing for a gradient of this worker alone: updates are counted when they are applied."""

    def _sum(self, row: torch.Tensor) -> torch.Tensor:
        if self._group is None:
            raise PeerLostError("the worker is in no group; it joins one before it learns")
        self._is_waiting = True
        try:
            return self._group.sum(row)
        finally:
            self._is_waiting = False
