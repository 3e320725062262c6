"""`Inbox`: stores the pieces of remote workers in the learner's storage, each step once."""

import time
from collections import Counter

from recollect import keys
from recollect.agent.storages.experience.store.schema.schema import Schema
from recollect.agent.storages.experience.store.schema.schema_text import load_schema
from recollect.errors import SchemaError, StorageError
from recollect.scheme.collection.agent_worker import AgentWorker
from recollect.scheme.collection.collectors.reports import Receipt
from recollect.scheme.collection.collectors.sent_piece import SentPiece
from recollect.scheme.collection.worker.episodes import Episode
from recollect.scheme.normaliser_sums import follow

Incarnation = tuple[int, int, int]
"""Index of a worker's parent, its own, and its epoch: the source of a stream of steps."""


class Inbox:
    """Puts pieces into the storage of the learner's worker, and has it count steps and episodes.

    Every incarnation of a worker is a source of its own in the storage, which drops steps that are there already.
    """

    def __init__(self, worker: AgentWorker) -> None:
        self._worker = worker
        self._schemas: dict[Incarnation, Schema] = {}
        self._stage_steps: Counter[tuple[int, int]] = Counter()
        self._ended: list[tuple[int, Episode]] = []

    def begin_stage(self) -> None:
        """Begin a stage of collection: an on-policy storage has dropped what it held."""
        self._stage_steps.clear()

    def has_room(self, new: SentPiece) -> bool:
        """Whether the storage can take a piece in this stage; only on-policy ones are ever full."""
        worker = self._worker
        return worker.stages.has_room(self._stage_steps[new.source], new.num_steps, worker.storage)

    def insert(self, new: SentPiece, newest_version: int) -> Receipt:
        """Take in a piece, and say what it brought."""
        codec_s, num_new = 0.0, 0
        if new.num_steps:
            incarnation = (*new.source, new.epoch)
            begin = time.perf_counter()
            piece = new.piece(self._schema_of(incarnation, new))
            codec_s = 0.0 if new.codec_s is None else new.codec_s + time.perf_counter() - begin
            num_new = self._worker.storage.append_piece(piece, source=incarnation)
            self._count(new, num_new)
        return Receipt(
            num_new,
            new.info[keys.COLLECTION][keys.TIME_S],
            newest_version - new.version,
            new.num_bytes,
            codec_s,
            new.info[keys.ENV_FAILURES],
        )

    def add_episodes(self) -> None:
        """Count the episodes that ended in the pieces that came in, in the order in which they ended."""
        ended, self._ended = self._ended, []
        if not ended:
            return
        self._worker.episodes.add([episode for _, episode in sorted(ended, key=_order)])
        if hasattr(self._worker.storage, "handle_end_of_episode"):
            self._worker.storage.handle_end_of_episode()

    def forget(self, incarnation: Incarnation) -> None:
        """Say that an incarnation has ended; the next one takes its lanes."""
        self._schemas.pop(incarnation, None)
        try:
            self._worker.storage.release_source(incarnation)
        except StorageError:  # this storage has nothing of it
            return

    def _schema_of(self, incarnation: Incarnation, new: SentPiece) -> Schema:
        """The fields of an incarnation's steps, which its first piece tells."""
        if new.schema:
            self._schemas[incarnation] = load_schema(new.schema)
        if incarnation not in self._schemas:
            raise SchemaError(f"the first piece of worker {incarnation} did not come, which says what its steps are")
        return self._schemas[incarnation]

    def _count(self, new: SentPiece, num_new: int) -> None:
        """Count the steps of a piece, unless it has come before, and note its episodes."""
        if not num_new:
            return
        worker = self._worker
        self._stage_steps[new.source] += new.num_steps
        worker.counts.num_steps += num_new
        if any(new.seen):
            follow(worker.actor, *new.seen)
        self._ended += zip(new.info[keys.ENDED_AT], new.info[keys.ENDED], strict=True)


def _order(ended: tuple[int, Episode]) -> tuple[int, int]:
    """Where an episode stands among others that ended: by step, then by environment; as they came if unknown."""
    number, episode = ended
    return number, episode.env if number else 0
