"""The names of the entries of Gymnasium's `info` and `options` dicts that are read or written here."""

from typing import Final

RESET_MASK: Final = "reset_mask"
FINAL_INFO: Final = "final_info"
AUTORESET_MODE: Final = "autoreset_mode"
IS_SUCCESS: Final = "is_success"

# How an env that was built anew says so: failures in this call, the last of them, whether an episode was lost.
NUM_FAILURES: Final = "recollect/num_failures"
LAST_FAILURE: Final = "recollect/last_failure"
EPISODE_LOST: Final = "recollect/episode_lost"
