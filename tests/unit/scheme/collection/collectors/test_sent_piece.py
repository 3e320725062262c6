"""Pieces on their way: compressed or not, they hold the same steps."""

import numpy as np
import pytest

from recollect.agent.storages.experience.store.schema.schema_text import load_schema
from recollect.scheme.collection.collectors.sent_piece import SentPiece, compress, contents, decompress
from tests.simulated import as_sample
from tests.snapshot_runs import Run, assert_alike


def test_compressed_bytes_are_fewer_and_come_back() -> None:
    data = np.zeros(1001, np.uint8)
    frame, elapsed_s = compress(data)
    assert frame.nbytes < 100
    assert elapsed_s > 0
    assert decompress(frame).tobytes() == data.tobytes()


@pytest.mark.parametrize("kind", ["frames", "sequences"])
def test_a_piece_is_the_same_compressed_or_not(kind: str) -> None:
    run = Run(kind)
    buffers, outboxes = [run.build(24), run.build(24)], [run.buffer.make_outbox(12), run.buffer.make_outbox(12)]
    schema = ""
    for number in range(2):
        data = run.streams[0].take(12)
        for buffer, outbox, is_compressed in zip(buffers, outboxes, (False, True), strict=True):
            for step in range(12):
                outbox.insert_transition(as_sample({path: values[step] for path, values in data.items()}, "numpy"))
            sent = SentPiece((0, 0), 0, 1, {}, **contents(outbox, is_compressed=is_compressed))
            assert sent.num_steps == 12
            assert sent.num_bytes == sent.data.nbytes
            assert bool(sent.schema) == (number == 0)  # the first piece tells it
            schema = schema or sent.schema
            buffer.append_piece(sent.piece(load_schema(schema)), source=0)
        assert_alike(*buffers)


def test_a_worker_that_took_no_step_sends_no_piece() -> None:
    outbox = Run("vector").buffer.make_outbox(3)
    sent = SentPiece((0, 0), 0, 1, {}, **contents(outbox, is_compressed=True))
    assert sent.num_bytes == sent.num_steps == 0
