"""What a message and a byte cost on their way from a worker into the learner's storage."""

import pickle
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.sleepers import make_parts
from recollect import keys
from recollect.agent.storages import ReplayBuffer
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.agent.storages.experience.store.schema.schema_text import dump_schema, load_schema
from recollect.scheme.base.commands import Command
from recollect.scheme.base.member import Answer, Call
from recollect.scheme.base.worker import Worker
from recollect.scheme.base.worker_set import WorkerSet
from recollect.scheme.collection.c_worker_set import CWorkerSet
from recollect.scheme.collection.collectors.inbox import Inbox
from recollect.scheme.collection.collectors.sent_piece import SentPiece, contents

# Sources, and messages that each has on its way, so that the learner never waits for one.
NUM_SOURCES: Final = 2
NUM_AHEAD: Final = 2
# The pages of the object store and of the storage are touched for the first time before the measurement begins.
NUM_WARM_UP: Final = 64
# Messages and copies take turns, so that both meet the same load.
NUM_ROUNDS: Final = 10
# As many floats as an 84×84 frame has pixels.
OBS_SIZE: Final = 7056
INFO: Final = {keys.COLLECTION: {keys.TIME_S: 0.0}, keys.ENDED: [], keys.ENDED_AT: [], keys.ENV_FAILURES: 0}
# Messages of the table: what is observed, and for how many steps.
MESSAGES: Final = (("vectors", 1), ("vectors", 100), ("stacked frames", 1), ("stacked frames", 100))
STACK: Final = 4


class PathTimes(NamedTuple):
    """Median seconds for each message and for each plain copy of as many bytes."""

    message_s: float
    copy_s: float
    num_bytes: int


class PieceSource(Worker):
    """A worker that sends the same steps again and again, as the next ones of its stream."""

    def __init__(self, index_worker: int, epoch: int, num_steps: int, obs_size: int) -> None:
        super().__init__(index_worker)
        self._epoch = epoch
        self._num_steps = num_steps
        self._worker = make_worker(num_steps, obs_size)
        # The step before the first shows that the stream continues.
        self._worker.collect_train_data(num_steps + 1)

    def send(self, number: int) -> SentPiece:
        """The steps, cut out of the ring, as the piece with a running number."""
        self.tick()
        begins, origin = np.ones(1, np.int64), number * self._num_steps
        ring = self._worker.storage.store.ring
        piece = RingPiece.cut_from(ring, 0, begins, begins + self._num_steps, origins=origin)
        schema = dump_schema(piece.schema) if number == 0 else ""
        source = (0, self.index_worker)
        return SentPiece(source, self._epoch, 1, INFO, num_steps=self._num_steps, data=piece.data, schema=schema)

    def execute(self, command: Command) -> None:
        """Pass a change on to the worker whose steps are sent."""
        self._worker.execute(command)

    def stop(self) -> None:
        """Close the environments."""
        self._worker.stop()


def measure_path(num_messages: int, num_steps: int = 1000) -> dict[str, float]:
    """Costs of messages, MB/s of long ones, and of a plain copy of as many bytes."""
    long, short = _time_path(num_messages, num_steps, OBS_SIZE), _time_path(num_messages, 1, 1)
    return {
        "message_s": short.message_s,
        "byte_s": max(0.0, long.message_s - short.message_s) / long.num_bytes,
        "mb_per_s": long.num_bytes / long.message_s / 1e6,
        "copy_mb_per_s": long.num_bytes / long.copy_s / 1e6,
        "message_bytes": long.num_bytes,
    }


def measure_messages(num_messages: int) -> dict[str, dict[str, float]]:
    """Bytes for each step, and µs of the learner for a message, by kind of message; no network is in between."""
    return {f"{kind}, {num_steps} steps": _message_costs(kind, num_steps, num_messages) for kind, num_steps in MESSAGES}


def make_worker(num_steps: int, obs_size: int) -> Any:
    """A worker in this process, with a storage that is soon overwritten, as in a run that has run for a while."""
    parts = make_parts(0.0, num_steps, obs_size=obs_size, size=4 * num_steps)
    return CWorkerSet(0, 0, **parts).local_worker()


def _time_path(num_messages: int, num_steps: int, obs_size: int) -> PathTimes:
    """Time messages of sources that are always ahead, and in turn with them, while all rest, plain copies."""
    learner = make_worker(num_steps, obs_size)
    path = _Path(Inbox(learner), num_steps, obs_size)
    path.store(NUM_WARM_UP)
    source, target = (np.full(path.num_bytes, value, np.uint8) for value in (0, 1))
    in_round = max(1, num_messages // NUM_ROUNDS)
    message_s, copy_s = [], []
    for _ in range(NUM_ROUNDS):
        path.store(NUM_SOURCES * NUM_AHEAD)  # they were on their way before the clock runs
        message_s.append(_seconds_each(lambda: path.store(1), in_round))
        path.drain()
        copy_s.append(_seconds_each(lambda: np.copyto(target, source), in_round))
    path.close()
    learner.stop()
    return PathTimes(statistics.median(message_s), statistics.median(copy_s), path.num_bytes)


class _Path:
    """Sources, and the inbox that takes what they send.

    Attributes
    ----------
    num_bytes : int
        Bytes of a message.
    """

    def __init__(self, inbox: Inbox, num_steps: int, obs_size: int) -> None:
        self.num_bytes = 0
        self._inbox = inbox
        self._sources = WorkerSet(PieceSource, {"num_steps": num_steps, "obs_size": obs_size}, None, NUM_SOURCES)
        self._num_sent = dict.fromkeys(self._sources.indices, 0)
        self._pending: list[Call] = []

    def store(self, num_messages: int) -> None:
        """Store the next messages; each time, their source sends another."""
        if not self._pending:
            self._pending = [self._send(index) for index in self._sources.indices for _ in range(NUM_AHEAD)]
        for _ in range(num_messages):
            answer = self._sources.wait(self._pending)[0]
            self._pending.remove(answer.call)
            self._pending.append(self._send(answer.call.worker))
            self._insert(answer)

    def drain(self) -> None:
        """Store what is on its way, and let the sources rest."""
        for answer in self._sources.wait_all(self._pending):
            self._insert(answer)
        self._pending = []

    def close(self) -> None:
        """Stop the sources."""
        self._sources.stop()

    def _send(self, index: int) -> Call:
        self._num_sent[index] += 1
        return self._sources.call(index, "send", self._num_sent[index] - 1)

    def _insert(self, answer: Answer) -> None:
        self.num_bytes = answer.value.num_bytes
        self._inbox.insert(answer.value, 1)


def _seconds_each(call: Callable[[], object], num_calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(num_calls):
        call()
    return (time.perf_counter() - begin) / num_calls


def _message_costs(kind: str, num_steps: int, num_messages: int) -> dict[str, float]:
    """Median bytes for each step of pickled messages, and µs of unpickling and storing one."""
    storage = ReplayBuffer.standalone(NUM_WARM_UP * num_steps, frame_stack=STACK if kind != "vectors" else None)
    outbox, steps = storage.make_outbox(num_steps), _steps(kind, num_steps * (num_messages + NUM_WARM_UP))
    sizes, times_us, schema = [], [], None
    for _ in range(num_messages + NUM_WARM_UP):
        for _ in range(num_steps):
            outbox.insert_transition(next(steps))
        buffers: list[pickle.PickleBuffer] = []
        message = SentPiece((0, 0), 0, 1, INFO, **contents(outbox, is_compressed=False))
        pickled = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
        sizes.append((len(pickled) + sum(buffer.raw().nbytes for buffer in buffers)) / num_steps)
        begin = time.perf_counter()
        received: SentPiece = pickle.loads(pickled, buffers=buffers)
        schema = schema or load_schema(received.schema)
        storage.append_piece(received.piece(schema), source=(0, 0, 0))
        times_us.append(1e6 * (time.perf_counter() - begin))
    return {
        "bytes_per_step": statistics.median(sizes),
        "learner_us": statistics.median(times_us[NUM_WARM_UP:]),
    }


def _steps(kind: str, num_steps: int) -> Iterator[dict[str, np.ndarray]]:
    """Steps of one env whose episodes have 50 steps: observations float32[17], or four stacked frames uint8[84, 84]."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (STACK + 1, 84, 84), np.uint8)
    vector = rng.standard_normal((1, 17)).astype(np.float32)
    for number in range(num_steps):
        if kind == "vectors":
            obs, vector = vector, rng.standard_normal((1, 17)).astype(np.float32)
            led_to = vector
        else:
            obs, led_to = frames[None, :-1].copy(), frames[None, 1:].copy()
            frames = np.concatenate([frames[1:], rng.integers(0, 255, (1, 84, 84), np.uint8)])
        ended = np.full((1, 1), number % 50 == 49)
        yield {
            keys.OBS: obs,
            keys.DONE: np.zeros((1, 1), np.float32),
            keys.ACTION: np.zeros((1, 6), np.float32),
            keys.REWARD: np.ones((1, 1), np.float32),
            keys.NEXT_OBS: led_to,
            keys.NEXT_DONE: ended,
            keys.NEXT_TERMINATED: ended,
        }
