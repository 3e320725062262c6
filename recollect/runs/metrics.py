"""Names of the metrics of a run, written once: columns of `metrics.csv`, tags in TensorBoard."""

from typing import Final

STEPS: Final = "steps"
UPDATES: Final = "updates"
EPISODES: Final = "episodes"
# Seconds of training, evaluations left out.
ELAPSED_S: Final = "elapsed_s"
STEPS_PER_S: Final = "steps_per_s"
UPDATES_PER_S: Final = "updates_per_s"

# Means over recent training episodes.
TRAIN_RETURN: Final = "train/return"
TRAIN_LENGTH: Final = "train/length"
TRAIN_SUCCESS: Final = "train/success"

# Of the newest evaluation, in the row that follows it.
EVAL_RETURN: Final = "eval/return"
EVAL_STANDARD_ERROR: Final = "eval/return_standard_error"
EVAL_LENGTH: Final = "eval/length"
EVAL_SUCCESS: Final = "eval/success"
EVAL_EPISODES: Final = "eval/episodes"

STORAGE_SIZE: Final = "storage/transitions"
STORAGE_CAPACITY: Final = "storage/capacity"
STORAGE_BYTES: Final = "storage/bytes"
ENV_FAILURES: Final = "envs/failures"

# Prefix of what an algorithm and a storage report of their updates: losses, entropy, temperature.
ALGORITHM_PREFIX: Final = "algorithm/"
STORAGE_PREFIX: Final = "storage/"
