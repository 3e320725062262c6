"""`DeferredCollection`: collects for an update stage during its updates, and stores the steps after them."""

from copy import deepcopy

import torch
from torch import nn

from recollect.roles import ActsThrough, Algorithm
from recollect.scheme.collection.worker.acting import Acting, TakenStep
from recollect.scheme.collection.worker.components import Components
from recollect.scheme.collection.worker.counts import Counts


class DeferredCollection:
    """Takes the steps of one update stage after the other, and stores those of a stage once its updates are done.

    Actions are those of the weights that a stage begins with, and batches are drawn from what was stored before it, so
    it makes no difference whether the steps are taken before the updates or in parallel to them, in another thread.

    Parameters
    ----------
    components : Components
        Has the environments, the actor, the algorithm and the storage.
    acting : Acting
        Acts in the environments.
    counts : Counts
        Where the stages are counted.
    """

    def __init__(self, components: Components, acting: Acting, counts: Counts) -> None:
        self._components = components
        self._acting = acting
        self._counts = counts
        self._copy: _ActorCopy | None = None
        self._policy: Algorithm = components.algo
        self._taken: list[TakenStep] = []

    @property
    def can_run_in_parallel(self) -> bool:
        """Whether steps can be taken while weights are updated."""
        algo, actor = self._components.algo, self._components.actor
        return algo.update_every == 1 or (isinstance(algo, ActsThrough) and isinstance(actor, nn.Module))

    @property
    def draws_frames(self) -> bool:
        """Whether the environments render, which many can do only in the thread that made them."""
        return getattr(getattr(self._components.envs_train, "vector", None), "render_mode", None) is not None

    @property
    def num_failures(self) -> int:
        """How often an environment failed so far."""
        return self._components.envs_train.num_failures

    @property
    def has_unstored(self) -> bool:
        """Whether steps were taken that nobody has stored, because their stage was interrupted."""
        return bool(self._taken)

    def begin(self, *, is_parallel: bool) -> None:
        """Make ready for a stage; `is_parallel` if weights will be updated while steps are taken."""
        if self._taken:
            self.store()  # an interrupt came before they were
        self._acting.forget_leftovers()
        self._policy = self._components.algo
        if is_parallel and self._policy.update_every == 1:
            self._acting.choose_ahead()  # one forward pass costs less than a copy of the weights
        elif is_parallel:
            self._policy = self._copied_policy(self._policy)

    def take(self) -> None:
        """Take the steps of the stage; nothing that updates read or write is touched."""
        for _ in range(self._policy.update_every):
            if self._acting.is_signalled:
                break
            self._taken.append(self._acting.take_step(self._policy))

    def stop(self) -> None:
        """Let a stage that is under way end with the present step; any thread may."""
        self._acting.signal("stop")

    def store(self) -> None:
        """Store and count the steps that were taken."""
        self._components.algo.num_acted = self._policy.num_acted
        taken, self._taken, storage = self._taken, [], self._components.storage
        for each in taken:
            self._acting.store(each, storage)
        self._counts.iter += 1

    def _copied_policy(self, algo: Algorithm) -> Algorithm:
        """The algorithm, acting through a copy of its networks as they are now."""
        actor = algo.actor
        assert isinstance(algo, ActsThrough)
        assert isinstance(actor, nn.Module)
        if self._copy is None or self._copy.source is not actor:
            self._copy = _ActorCopy(actor)
        self._copy.refresh()
        return algo.acting_through(self._copy.actor)


class _ActorCopy:
    """An actor with networks of its own, which has the chance in common with the one that it is copied from."""

    def __init__(self, source: nn.Module) -> None:
        self.source = source
        self.actor = deepcopy(source, {id(source.generator): source.generator}).requires_grad_(False)
        # Nobody acts through target networks.
        names = [name for name in source.state_dict() if not name.startswith("target_")]
        own, others = self.actor.state_dict(keep_vars=True), source.state_dict(keep_vars=True)
        self._copies, self._originals = [own[name] for name in names], [others[name] for name in names]

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over the weights as they are now."""
        torch._foreach_copy_(self._copies, self._originals)
