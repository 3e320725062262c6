"""Storages for on-policy algorithms."""

from recollect.agent.storages.on_policy.gae_buffer import GAEBuffer
from recollect.agent.storages.on_policy.vtrace_buffer import VTraceBuffer

__all__ = ["GAEBuffer", "VTraceBuffer"]
