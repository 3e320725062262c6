"""What a user's type checker knows of storages: options, factories and the columns of a batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect import keys
from recollect.agent.storages import STORAGES
from recollect.roles import Batch

ROOT = Path(__file__).parents[4]
# Each `reveal_type` is followed by the type that is expected, each mistake by its error's code.
SCRIPT = """
from recollect import HERBuffer, PERBuffer, keys

memory = PERBuffer.standalone(100, alpha=0.6)
batch = memory.sample(8)
reveal_type(batch["Reward"])  # Tensor
reveal_type(batch[keys.REWARD])  # Tensor
reveal_type(batch[keys.PER_WEIGHTS])  # Tensor
reveal_type(batch[keys.OBS])  # Any
batch["Rewards"]  # typeddict-item
reveal_type(memory)  # PERBuffer
factory = PERBuffer.create_factory(100, 3, alpha=0.6)
reveal_type(factory)  # StorageFactory[recollect.agent.storages.off_policy.per_buffer.PERBuffer]
PERBuffer.create_factory(size=100, n_step=3, seed=1)
HERBuffer.create_factory(100, None, 3, strategy="final")
PERBuffer.create_factory(100, alpha="much")  # arg-type
PERBuffer.create_factory(100, alhpa=0.6)  # call-arg
PERBuffer.create_factory()  # call-arg
HERBuffer.create_factory(100, strategy="past")  # arg-type
"""


@pytest.mark.slow
@pytest.mark.xdist_group("mypy")  # who share a cache take turns
def test_options_and_batches_have_types(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    # To read PyTorch takes a while, so the second time it comes from the cache.
    cache = str(ROOT / ".mypy_cache" / "users")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--cache-dir", cache, "script.py"]
    env = os.environ | {"MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    for number, line in enumerate(SCRIPT.splitlines(), 1):
        expected = line.partition("  # ")[2]
        found = [said for said in done.stdout.splitlines() if said.startswith(f"script.py:{number}: ")]
        assert (expected in found[0]) if expected and found else not (expected or found), (line, found, done.stderr)


def test_the_columns_of_a_batch_are_called_as_the_vocabulary_says() -> None:
    words = {value for value in vars(keys).values() if isinstance(value, str)}
    assert Batch.__annotations__.keys() <= words


def test_a_batch_has_a_type_for_every_column_of_every_storage() -> None:
    columns = {key for cls in STORAGES.values() for key in (*cls.storage_tensors, *getattr(cls, "drawn_keys", ()))}
    assert columns <= Batch.__annotations__.keys()
