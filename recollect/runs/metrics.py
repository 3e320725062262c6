"""Names of the metrics of a run, written once: columns of `metrics.csv`, tags in TensorBoard."""

import re
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

# Of remote workers that collect, all together and each by its gradient worker's and its own number.
WORKERS: Final = "workers/number"
WORKERS_ALIVE: Final = "workers/alive"
WORKER_RESTARTS: Final = "workers/restarts"
POLICY_LAG: Final = "workers/policy_lag"
POLICY_LAG_MAX: Final = "workers/policy_lag_max"
WORKER_BYTES_PER_S: Final = "workers/bytes_per_s"
OF_WORKER_STEPS_PER_S: Final = "/steps_per_s"
OF_WORKER: Final = re.compile(r"workers/\d+\.\d+/steps_per_s")
OF_GRADIENT_WORKER: Final = re.compile(r"gradients/\d+/steps_per_s")

# Of remote gradient workers; asynchrony is the number of updates between a gradient and its weights.
GRADIENT_WORKERS: Final = "gradients/workers"
GRADIENT_WORKERS_ALIVE: Final = "gradients/alive"
GRADIENT_RESTARTS: Final = "gradients/restarts"
ASYNCHRONY: Final = "gradients/asynchrony"
ASYNCHRONY_MAX: Final = "gradients/asynchrony_max"
