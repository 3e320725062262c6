"""State of single envs: what a checkpoint keeps of them, so that a run resumes in the middle of an episode.

`layers` reads and writes the state of an env and its wrappers, `attributes` knows where theirs is, `simulators` that of
physics engines and emulators, and `values` turns it into plain data. `failures`, whose envs are the outermost layer,
imports from here.
"""

from recollect.agent.envs.state.layers import find_gap, read_state, write_state

__all__ = ["find_gap", "read_state", "write_state"]
