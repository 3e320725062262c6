"""Faults in data that come in and go out."""

from typing import Final

from tests.mutants.mutant import Mutant

DATA: Final = ("tests/unit/data/test_data.py",)

MUTANTS: Final = (
    Mutant("truncated episodes are written as terminated", "data/minari.py",
           "ends[:, -1] = episode.is_terminated, episode.is_truncated",
           "ends[:, -1] = episode.is_terminated or episode.is_truncated, False", DATA),
    Mutant("images are written as JPEG", "data/minari.py", "jpeg_encoding=False", "jpeg_encoding=True", DATA),
    Mutant("actions are written in the policy's units", "data/storing.py",
           "in_env = actor.to_env(stored.to(actor.device)).cpu()", "in_env = stored", DATA),
    Mutant("episodes of a wrapped lane are not parted", "agent/storages/experience/store/ring/columns.py",
           "yield from np.split(ids, np.flatnonzero(last[:-1]) + 1)", "yield ids", DATA),
    Mutant("merging drops hidden states", "data/npz.py", "if keys.RHS not in extras and any(", "if False and any(",
           ("tests/unit/data/test_offline.py",)),
    Mutant("truncated episodes are read as terminated", "data/minari.py",
           "        bool(terminated[-1]),\n", "        bool(terminated[-1] or truncated[-1]),\n", DATA),
    Mutant("episodes that were cut off are stored as truncated", "data/episode.py",
           "ended[-1], terminated[-1] = self.is_terminated or self.is_truncated, self.is_terminated",
           "ended[-1], terminated[-1] = True, self.is_terminated", DATA),
    Mutant("the last observation of an episode is lost", "data/episode.py",
           "np.concatenate([observed, following[-1:]])", "np.concatenate([observed, observed[-1:]])", DATA),
    Mutant("data fall into own experience", "data/storing.py",
           "_Lanes(storage, storage.data_source if part is None else part)", "_Lanes(storage, 0)",
           ("tests/unit/data/test_mixed.py",)),
    Mutant("data are written over others unasked", "data/episode.py",
           "if exists and not overwrite:", "if False:", DATA),
)  # fmt: skip
