"""The storages, one line each. A line here makes a storage known by name, everywhere.

As with the algorithms, type checkers follow the imports, `recollect.agent.registry` reads them, and a storage goes by
the name of its module: `per` is the class in `per_buffer`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # In the order in which users see them: each off-policy buffer includes those before it.
    # isort: off
    from recollect.agent.storages.off_policy.replay_buffer import ReplayBuffer as ReplayBuffer
    from recollect.agent.storages.off_policy.nstep_buffer import NStepReplayBuffer as NStepReplayBuffer
    from recollect.agent.storages.off_policy.per_buffer import PERBuffer as PERBuffer
    from recollect.agent.storages.off_policy.ere_buffer import EREBuffer as EREBuffer
    from recollect.agent.storages.off_policy.her_buffer import HERBuffer as HERBuffer
    from recollect.agent.storages.off_policy.mixed_buffer import MixedBuffer as MixedBuffer
    from recollect.agent.storages.on_policy.gae_buffer import GAEBuffer as GAEBuffer
    from recollect.agent.storages.on_policy.vtrace_buffer import VTraceBuffer as VTraceBuffer
