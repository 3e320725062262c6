"""The vocabulary of Recollect: every data key, info key and mode name, written once."""

from typing import Final

# What happened at one step, as inserted and as sampled.
OBS: Final = "Observation"
RHS: Final = "RecurrentHiddenStates"
DONE: Final = "Done"
ACTION: Final = "Action"
REWARD: Final = "Reward"
IREWARD: Final = "IntrinsicReward"
NEXT_OBS: Final = "NextObservation"
NEXT_RHS: Final = "NextRecurrentHiddenStates"
NEXT_DONE: Final = "NextDone"
ACTION_PROBS: Final = "ActionProbs"

# Optional on insert: termination apart from truncation, and a break in the stream without an end.
NEXT_TERMINATED: Final = "NextTerminated"
CUT: Final = "Cut"

# Optional on insert: rows that are no transition, because the env only began an episode in that step.
SKIP: Final = "Skip"

# Optional on insert: where sequences start, so that those of an empty storage lie as they did where the steps are from.
START: Final = "SequenceStart"

# What on-policy actors say of a step, and what is computed from it.
VALUE: Final = "Value"
LOG_PROB: Final = "LogProb"
RETURN: Final = "Return"
ADVANTAGE: Final = "Advantage"

# What sampling adds to a batch.
DISCOUNT: Final = "Discount"
N_STEP: Final = "n_step"
PER_WEIGHTS: Final = "per_weights"
IDXS: Final = "idxs"
CK: Final = "ck"
MASK: Final = "Mask"

# Where an info dict keeps what storages read and write.
ALGORITHM: Final = "Algorithm"
ERRORS: Final = "errors"
EARLY_STOP: Final = "early_stop"
EPISODES: Final = "Episodes"
TRAIN_REWARD: Final = "TrainReward"
STORAGE: Final = "Storage"
STALE: Final = "stale_priorities"

# In the info of what was collected: the seconds that it took, the episodes that ended, env failures so far.
COLLECTION: Final = "Collection"
TIME_S: Final = "time_s"
ENDED: Final = "ended"
ENDED_AT: Final = "EndedAt"
# How entries of an algorithm's state begin that are its optimiser's.
OPTIMISER_PREFIX: Final = "optimiser."
ENV_FAILURES: Final = "env_failures"

# Parts of a goal environment's observation (Gymnasium's convention).
ACHIEVED_GOAL: Final = "achieved_goal"
DESIRED_GOAL: Final = "desired_goal"

# Where Gymnasium's vector environments put the last observations and infos of envs that they reset in the same step.
FINAL_OBS: Final = "final_obs"
HAS_FINAL_OBS: Final = "_final_obs"
# The same, as Gymnasium called them before its version 1.
OLD_FINAL_OBS: Final = "final_observation"
HAS_OLD_FINAL_OBS: Final = "_final_observation"
FINAL_INFO: Final = "final_info"

# Where environments say which actions they allow: in an info, or in a dict observation.
ACTION_MASK: Final = "action_mask"

# Where environments say that a task was solved.
IS_SUCCESS: Final = "is_success"

# How one says to Gymnasium's vector environments which envs to reset, and where they say when they do it themselves.
RESET_MASK: Final = "reset_mask"
AUTORESET_MODE: Final = "autoreset_mode"

# How a rebuilt env says so: failures in this call, the last of them, a traceback if it is new, whether an episode was
# lost.
NUM_FAILURES: Final = "recollect/num_failures"
LAST_FAILURE: Final = "recollect/last_failure"
FAILURE_TRACEBACK: Final = "recollect/failure_traceback"
EPISODE_LOST: Final = "recollect/episode_lost"

MAX_CONSECUTIVE_FAILURES: Final = 5
"""How often in a row an env may fail and be rebuilt, unless something else is said."""

KEPT_CHECKPOINTS: Final = 2
"""How many checkpoints a run keeps, unless something else is said."""

# Components of a worker, by which they are replaced.
ACTOR_COMPONENT: Final = "actor"
ALGO_COMPONENT: Final = "algo"
STORAGE_COMPONENT: Final = "storage"
ENVS_TRAIN_COMPONENT: Final = "envs_train"
ENVS_TEST_COMPONENT: Final = "envs_test"

# What environments are for.
TRAIN: Final = "train"
TEST: Final = "test"

# Whether workers, or environments, wait for each other; environments can also be stepped by code of their own.
SYNC: Final = "sync"
ASYNC: Final = "async"
NATIVE: Final = "native"
ENVPOOL: Final = "envpool"
VEC_KINDS: Final = (SYNC, ASYNC, NATIVE, ENVPOOL)

# Where updates are made.
CENTRAL: Final = "central"
DECENTRALISED: Final = "decentralised"

# Joins the keys of a nested observation into one column name.
PATH_SEPARATOR: Final = "/"

# Who says that kernels are compiled, which the command line shows because it takes long.
KERNEL_LOGGER: Final = "recollect.kernels"
# Who says which preset fits a task without a tuned one.
PRESET_LOGGER: Final = "recollect.presets"
# Tells what a resumed run would not continue; the command line shows it.
RESUME_LOGGER: Final = "recollect.resume"
