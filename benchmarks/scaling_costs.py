"""What a message and a byte cost on their way from a worker into the learner's storage."""

import time
from typing import Any

import numpy as np

from benchmarks.sleepers import make_parts
from recollect import keys
from recollect.scheme.base.worker import Worker
from recollect.scheme.base.worker_set import WorkerSet
from recollect.scheme.collection.c_worker_set import CWorkerSet
from recollect.scheme.collection.collectors.inbox import Inbox
from recollect.scheme.collection.collectors.slices import Slice, SliceRecorder

# Sources, and messages that each has on its way, so that the learner never waits for one.
NUM_SOURCES = 2
NUM_AHEAD = 2
NUM_WARM_UP = 16
# As many floats as an 84×84 frame has pixels.
OBS_SIZE = 7056


class SliceSource(Worker):
    """A worker that sends the same steps again and again, as the next ones of its stream."""

    def __init__(self, index_worker: int, epoch: int, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(index_worker)
        self._arrays = arrays
        self._epoch = epoch

    def send(self, number: int, num_steps: int) -> Slice:
        """The steps as the slice with a running number."""
        self.tick()
        info = {keys.COLLECTION: {keys.TIME_S: 0.0}, keys.ENDED: [], keys.ENV_FAILURES: 0}
        return Slice((0, self.index_worker), self._epoch, number * num_steps, 1, self._arrays, info)

    def stop(self) -> None:
        """There is nothing to stop."""


def measure_path(num_messages: int, num_steps: int = 100) -> dict[str, float]:
    """Costs of messages, MB/s of long ones, and of a plain copy of as many bytes."""
    long_s, num_bytes = _seconds_of_message(num_messages, num_steps, OBS_SIZE)
    short_s, _ = _seconds_of_message(num_messages, 1, 1)
    return {
        "message_s": short_s,
        "byte_s": max(0.0, long_s - short_s) / num_bytes,
        "mb_per_s": num_bytes / long_s / 1e6,
        "copy_mb_per_s": num_bytes / _seconds_of_copy(num_messages, num_bytes) / 1e6,
        "message_bytes": num_bytes,
    }


def _seconds_of_message(num_messages: int, num_steps: int, obs_size: int) -> tuple[float, int]:
    """Seconds between messages of sources that are always ahead, stored one after the other, and their bytes."""
    # So small a storage is overwritten before the measurement begins, as in a run that has gone on for a while.
    parts = make_parts(0.0, num_steps, obs_size=obs_size, size=NUM_WARM_UP * num_steps)
    learner = CWorkerSet(0, 0, **parts).local_worker()
    arrays = _steps(learner, num_steps)
    inbox = Inbox(learner)
    sources = WorkerSet(SliceSource, {"arrays": arrays}, None, NUM_SOURCES)
    sent = dict.fromkeys(sources.indices, 0)

    def send(index: int) -> Any:
        sent[index] += 1
        return sources.call(index, "send", sent[index] - 1, num_steps)

    def store_next() -> int:
        answer = sources.wait(pending)[0]
        pending.remove(answer.call)
        pending.append(send(answer.call.worker))
        inbox.insert(answer.value, 1)
        return int(answer.value.num_bytes)

    pending = [send(index) for index in sources.indices for _ in range(NUM_AHEAD)]
    for _ in range(NUM_WARM_UP):
        num_bytes = store_next()
    begin = time.perf_counter()
    for _ in range(num_messages):
        store_next()
    elapsed_s = time.perf_counter() - begin
    sources.wait_all(pending)
    sources.stop()
    learner.stop()
    return elapsed_s / num_messages, num_bytes


def _seconds_of_copy(num_copies: int, num_bytes: int) -> float:
    """Seconds of a plain copy in memory."""
    source = np.ones(num_bytes, np.uint8)
    target = np.empty_like(source)
    begin = time.perf_counter()
    for _ in range(num_copies):
        np.copyto(target, source)
    return (time.perf_counter() - begin) / num_copies


def _steps(learner: Any, num_steps: int) -> dict[str, np.ndarray]:
    """Steps as they travel, recorded by hand."""
    recorder = SliceRecorder(num_steps)
    obs = learner.envs_train.reset()
    for _ in range(num_steps):
        action, clipped, _, _ = learner.algo.acting_step(obs, learner.rhs, learner.done)
        step = learner.envs_train.step(clipped)
        recorder.insert_transition(
            {
                keys.OBS: obs,
                keys.DONE: np.zeros((1, 1), np.float32),
                keys.ACTION: action,
                keys.REWARD: step.reward,
                keys.NEXT_OBS: step.next_obs,
                keys.NEXT_DONE: step.terminated,
                keys.NEXT_TERMINATED: step.terminated,
            }
        )
        obs = step.obs
    return recorder.take()
