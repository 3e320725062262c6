"""Ring pieces: what comes through them is what direct insertion stores, and bytes that are no piece change nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import keys
from recollect.agent.storages import PERBuffer, ReplayBuffer
from recollect.agent.storages.experience.store.ring.ring_piece import RingPiece
from recollect.agent.storages.experience.store.schema.schema_text import dump_schema, load_schema
from recollect.errors import RecollectError, SchemaError
from tests.programs import FEATURES, make_config
from tests.reference import Row, flatten
from tests.running import assert_rows, build
from tests.simulated import SourceStream, as_sample, state_numbers
from tests.snapshot_runs import KINDS, NUM_ENVS, Run, assert_alike

pytestmark = pytest.mark.filterwarnings("ignore::recollect.errors.RecollectWarning")
BASE = {name: values[0] for name, values in FEATURES.items()} | {"envs": "several", "n_step": "several"}


class Sender:
    """A source that sends the same steps as arrays and as pieces, and a second sender of it that sends less often."""

    def __init__(self, buffer: Any, stream: SourceStream, name: str) -> None:
        self.stream = stream
        self.name = name
        self.outboxes = [buffer.make_outbox(40), buffer.make_outbox(40)]
        self.rows: list[Row] = []
        self.num_rows = 0

    def collect(self, num_steps: int, skips: np.ndarray | None) -> None:
        """Take steps, of which those marked in `skips` [num_steps, num_envs] are none."""
        data = self.stream.take(num_steps)
        if skips is not None:
            data[keys.SKIP] = skips[..., None]
        self.rows.append(data)
        for step in range(num_steps):
            sample = as_sample({path: values[step] for path, values in data.items()}, "numpy")
            for outbox in self.outboxes:
                outbox.insert_transition(sample)

    def send(self, both: tuple[Any, Any], *, is_lost: bool, is_whole: bool) -> int:
        """Deliver the newest steps to a buffer as arrays, and to another as a piece; returns how many are new."""
        piece = self.outboxes[0].take()
        rows = self.rows if is_whole else self.rows[-1:]
        first_step = self.num_rows - (sum(len(part[keys.REWARD]) for part in self.rows[:-1]) if is_whole else 0)
        self.num_rows += len(self.rows[-1][keys.REWARD])
        if is_whole:
            piece = self.outboxes[1].take()
            self.rows = []
        if is_lost:
            return 0
        data = {
            path: np.concatenate([part.get(path, np.zeros_like(part[keys.REWARD], np.bool_)) for part in rows])
            for path in {path for part in rows for path in part}
        }
        direct, fed = both
        direct.insert_data_slice(as_sample(data, "numpy"), source=self.name, first_step=first_step)
        sent = RingPiece(load_schema(dump_schema(piece.schema)), frozen(piece.data))
        num_new: int = fed.append_piece(sent, source=self.name)
        return num_new


def frozen(data: np.ndarray) -> np.ndarray:
    """The bytes as they come out of an object store: elsewhere, and read-only."""
    copied = data.copy()
    copied.flags.writeable = False
    return copied


def assert_equal(direct: Any, fed: Any, batch_size: int) -> None:
    """Same sizes, ends and batches."""
    assert len(direct) == len(fed)
    if not direct.store.is_built:
        return
    assert direct.store.ring.num_ends == fed.store.ring.num_ends
    assert direct.store.ring.sizes.tolist() == fed.store.ring.sizes.tolist()
    try:
        batches = [flatten(buffer.sample(batch_size)) for buffer in (direct, fed)]
    except RecollectError:
        return
    assert_rows(*batches)


@pytest.mark.slow
@pytest.mark.parametrize("unit", FEATURES["unit"])
@pytest.mark.parametrize("observation", FEATURES["observation"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_pieces_are_stored_as_the_same_arrays_are(observation: str, unit: str, data: st.DataObject) -> None:
    buffer_name, goals = data.draw(st.sampled_from([("ere", "absent"), ("ere", "dict"), ("her", "dict")]))
    features = BASE | {
        "buffer": buffer_name,
        "goals": goals,
        "strategy": data.draw(st.sampled_from(FEATURES["strategy"])),
        "priorities": data.draw(st.sampled_from(FEATURES["priorities"])),
        "recent": data.draw(st.sampled_from(FEATURES["recent"])),
        "observation": observation,
        "unit": unit,
        "optional": data.draw(st.sampled_from(FEATURES["optional"])),
        "ring": data.draw(st.sampled_from(FEATURES["ring"])),
        "sources": "several",
    }
    config = make_config(features, np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))))
    both = build(config, config.rewriting), build(config, config.rewriting)
    states = state_numbers()
    senders = [
        Sender(both[1], SourceStream(config.stream, config.settings.num_envs, [index], states), f"worker {index}")
        for index in range(2)
    ]
    has_skips, is_seen = False, features["ring"] == "has_room"
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["send", "send", "send", "lose", "repeat", "resize", "reset", "leave"]))
        sender = data.draw(st.sampled_from(senders))
        if action == "reset":
            for buffer in both:
                buffer.reset()
        elif action == "resize":
            size = data.draw(st.integers(12, 40))
            for buffer in both:
                buffer.update_storage_parameter("max_size", size)
        elif action == "leave":
            if sender.name in both[0].store.sources:
                for buffer in both:
                    buffer.release_source(sender.name)
                sender.name += "'"
        else:
            num_steps = data.draw(st.integers(1, 9))
            skips = None
            if data.draw(st.booleans()):
                skips = np.random.default_rng(num_steps).random((num_steps, config.settings.num_envs)) < 0.3
                skips[0] = False  # a lost slice of rows that are no steps is a gap in none of the lanes
                has_skips = True
            sender.collect(num_steps, skips)
            sender.send(both, is_lost=action == "lose", is_whole=action == "repeat")
        assert_equal(*both, batch_size=9)
        is_seen &= action == "send"
        if is_seen:  # only a worker sees all breaks: a store may hold no step before them
            assert both[0].num_cuts == both[1].num_cuts
        if not has_skips:
            assert both[0].num_repeated == both[1].num_repeated


def make_piece(run: Run, *takes: int) -> RingPiece:
    """The last piece of a source that handed its steps over after these numbers of them."""
    outbox, piece = run.buffer.make_outbox(max(takes)), None
    for num_steps in takes:
        data = run.streams[0].take(num_steps)
        for step in range(num_steps):
            outbox.insert_transition(as_sample({path: values[step] for path, values in data.items()}, "numpy"))
        piece = outbox.take()
    assert piece is not None
    return piece


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_is_taken_or_refused_whatever_its_bytes_are(kind: str) -> None:
    run, rng = Run(kind), np.random.default_rng(0)
    victim, twin = run.build(24), run.build(24)
    run.fill(9, victim, twin)
    piece = make_piece(run, 6, 11)
    num_refused = 0
    for number in range(300):
        data = piece.data.copy()
        # The head and the fixed bytes of rows matter most: they say where a kernel reads.
        position = rng.integers(len(data)) if number % 3 else rng.integers(200)
        data[position] = rng.integers(256) if number % 2 else data[position] ^ (1 << rng.integers(8))
        try:
            changed = RingPiece(piece.schema, data)
            victim.append_piece(changed, source=number)
        except SchemaError:
            num_refused += 1
        else:
            twin.append_piece(changed, source=number)
            for buffer in (victim, twin):
                buffer.release_source(number)
    assert 30 < num_refused < 300
    assert len(victim) == len(twin)
    for _ in range(3):
        assert_rows(*(flatten(buffer.sample(30)) for buffer in (victim, twin)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_has_nothing_of_the_memory_that_it_lies_in(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(kind)
    run.fill(9)
    ring, lanes = run.buffer.store.ring, slice(0, NUM_ENVS)
    begins, heads = ring.lows[lanes].copy(), ring.heads[lanes].copy()
    for num_left in range(10):  # of one env, so that its last step is any of them, or there is none
        pieces = []
        for value in (0, 255):
            with monkeypatch.context() as patch:
                patch.setattr(np, "empty", lambda shape, dtype, value=value: np.full(shape, value, dtype))
                pieces.append(RingPiece.cut_from(ring, 0, begins, heads - [num_left, 0]))
        assert pieces[0].data.tobytes() == pieces[1].data.tobytes()


@pytest.mark.parametrize("num_bytes", [0, 5, 48, 100, -8, -1, 8])
def test_bytes_that_are_too_few_or_too_many_are_refused(num_bytes: int) -> None:
    piece = make_piece(Run("frames"), 5)
    data = np.concatenate([piece.data, np.zeros(8, np.uint8)]) if num_bytes == 8 else piece.data[:num_bytes]
    with pytest.raises(SchemaError, match="piece"):
        RingPiece(piece.schema, data)


def test_what_is_no_array_of_bytes_is_refused() -> None:
    piece = make_piece(Run("vector"), 5)
    for wrong in (piece.data.tobytes(), piece.data[None], piece.data.view(np.int8), np.repeat(piece.data, 2)[::2]):
        with pytest.raises(SchemaError, match="contiguous array of bytes"):
            RingPiece(piece.schema, wrong)  # type: ignore[arg-type]


def test_bytes_at_any_address_are_read() -> None:
    run = Run("vector")
    piece = make_piece(run, 5)
    shifted = np.concatenate([np.zeros(3, np.uint8), piece.data])[3:]
    buffers = run.build(24), run.build(24)
    for buffer, data in zip(buffers, (piece.data, shifted), strict=True):
        assert buffer.append_piece(RingPiece(piece.schema, data), source=0) == 5 * NUM_ENVS
    assert_alike(*buffers)


@pytest.mark.parametrize("is_built", [False, True])
def test_steps_of_another_kind_are_refused(is_built: bool) -> None:
    for kind, other in [("vector", "frames"), ("frames", "vector"), ("sequences", "vector")]:
        run = Run(other)
        if is_built:
            run.fill(5)
        before = len(run.buffer)
        with pytest.raises(SchemaError):
            run.buffer.append_piece(make_piece(Run(kind), 4), source="stranger")
        assert (len(run.buffer), run.buffer.store.is_built) == (before, is_built)
        assert "stranger" not in run.buffer.store.sources


def test_a_piece_of_another_number_of_envs_is_refused() -> None:
    piece = make_piece(Run("vector"), 4)
    other = PERBuffer.standalone(24, num_envs=NUM_ENVS + 1)
    with pytest.raises(SchemaError, match=f"{NUM_ENVS} envs"):
        other.append_piece(piece, source=0)


def test_stacked_frames_travel_once() -> None:
    outbox = ReplayBuffer.standalone(1000, frame_stack=4).make_outbox(100)
    frames = np.random.default_rng(0).integers(0, 255, (205, 50, 50), np.uint8)
    number = np.zeros((1, 1), np.float32)
    for sent in (0, 100):
        for step in range(sent, sent + 100):
            obs, led_to = frames[None, step : step + 4], frames[None, step + 1 : step + 5]
            sample = {keys.OBS: obs, keys.NEXT_OBS: led_to, keys.ACTION: number, keys.REWARD: number}
            outbox.insert_transition(sample | {keys.NEXT_DONE: number})
        piece = outbox.take()
        assert piece is not None
        assert 101 * 2500 < len(piece.data) < 110 * 2500


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_read_from_its_text(kind: str) -> None:
    schema = make_piece(Run(kind), 2).schema
    assert load_schema(dump_schema(schema)) == schema


@pytest.mark.parametrize(
    "change",
    [
        ('"<f4"', '"O"'),
        ('"<f4"', '"<f2"'),
        ("[3]", "[-3]"),
        ("[3]", "[3.5]"),
        ("steps", "others"),
        ('["Reward"]', '["Rewards"]'),
        (",1,0]", ",7,0]"),
        ("{", "["),
    ],
)
def test_a_text_that_describes_no_steps_is_refused(change: tuple[str, str]) -> None:
    text = dump_schema(make_piece(Run("vector"), 2).schema)
    assert change[0] in text
    with pytest.raises(SchemaError, match="does not describe"):
        load_schema(text.replace(*change))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_refused(value: float) -> None:
    run = Run("vector")
    outbox, data = run.buffer.make_outbox(3), run.streams[0].take(3)
    data[keys.REWARD][1, 0] = marked = np.float32(1234.5678)
    for step in range(3):
        outbox.insert_transition(as_sample({path: values[step] for path, values in data.items()}, "numpy"))
    piece = outbox.take()
    assert piece is not None
    assert piece.data.tobytes().count(marked.tobytes()) == 1
    changed = np.frombuffer(piece.data.tobytes().replace(marked.tobytes(), np.float32(value).tobytes()), np.uint8)
    with pytest.raises(SchemaError, match="reward"):
        RingPiece(piece.schema, changed)


def test_a_tail_that_refers_to_a_stack_that_is_not_there_is_refused() -> None:
    # The stack that the only step leads to has nothing of the one before it.
    zero, flags = np.zeros((NUM_ENVS, 1), np.float32), np.ones((NUM_ENVS, 1), np.float32)
    outbox, rng = ReplayBuffer.standalone(9, num_envs=NUM_ENVS, frame_stack=3).make_outbox(2), np.random.default_rng(0)
    stacks = rng.integers(1, 255, (2, NUM_ENVS, 3, 5), np.uint8)
    sample = {keys.OBS: stacks[0], keys.NEXT_OBS: stacks[1], keys.ACTION: zero, keys.REWARD: zero}
    outbox.insert_transition(sample | {keys.NEXT_DONE: flags})
    piece = outbox.take()
    assert piece is not None
    # The stacks of both envs, and those that they lead to: records 1 to 4 in this order, of which tails name 2 and 4.
    words = piece.data.view(np.int32)
    places = [np.flatnonzero(words == record) for record in (2, 4)]
    assert any(len(found) for found in places)
    num_refused = 0
    for place in np.concatenate(places):
        changed = words.copy()
        changed[place] = 3
        try:
            RingPiece(piece.schema, changed.view(np.uint8))
        except SchemaError as error:
            num_refused += "refer" in str(error)
    assert num_refused >= 2
