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
# Checkpoints and rows of metrics that could not be written at first, if there were any.
FAILED_WRITES: Final = "run/failed_writes"
# Of the newest checkpoint: how long the training stood still for it, and how long it then took to write.
CHECKPOINT_STALL_MS: Final = "run/checkpoint_stall_ms"
CHECKPOINT_WRITE_S: Final = "run/checkpoint_write_s"

# Prefix of what an algorithm and a storage report of their updates: losses, entropy, temperature.
ALGORITHM_PREFIX: Final = "algorithm/"
STORAGE_PREFIX: Final = "storage/"

# Kinds of remote workers: those that collect, each by its gradient worker's and its own number, and those that compute
# gradients.
COLLECTORS: Final = "workers"
GRADIENTS: Final = "gradients"

# What is known of one of them; lag is in versions of the policy, or in updates between a gradient and its weights.
RESTARTS: Final = "restarts"
BYTES_PER_S: Final = "bytes_per_s"
LAGS: Final = {COLLECTORS: "policy_lag", GRADIENTS: "asynchrony"}
OF_WORKER: Final = re.compile(rf"{COLLECTORS}/\d+\.\d+/{STEPS_PER_S}")
OF_GRADIENT_WORKER: Final = re.compile(rf"{GRADIENTS}/\d+/{STEPS_PER_S}")

# Of all that collect together.
WORKERS: Final = f"{COLLECTORS}/number"
WORKERS_ALIVE: Final = f"{COLLECTORS}/alive"
WORKER_RESTARTS: Final = f"{COLLECTORS}/{RESTARTS}"
POLICY_LAG: Final = f"{COLLECTORS}/{LAGS[COLLECTORS]}"
POLICY_LAG_MAX: Final = f"{POLICY_LAG}_max"
WORKER_BYTES_PER_S: Final = f"{COLLECTORS}/{BYTES_PER_S}"
WORKER_CODEC_S: Final = f"{COLLECTORS}/codec_s"

# Of all that compute gradients together.
GRADIENT_WORKERS: Final = f"{GRADIENTS}/workers"
GRADIENT_WORKERS_ALIVE: Final = f"{GRADIENTS}/alive"
GRADIENT_RESTARTS: Final = f"{GRADIENTS}/{RESTARTS}"
ASYNCHRONY: Final = f"{GRADIENTS}/{LAGS[GRADIENTS]}"
ASYNCHRONY_MAX: Final = f"{ASYNCHRONY}_max"
