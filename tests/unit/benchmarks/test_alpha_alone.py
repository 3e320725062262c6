"""The table of priorities beside uniform draws."""

from benchmarks.alpha_alone import STORAGES, table


def test_a_row_has_the_seeds_that_both_were_run_with() -> None:
    task, storage = STORAGES[0]
    name = f"{task.env} · {storage.label}"
    scores = {
        f"{name} · uniform · seed 1": 0.5,
        f"{name} · alpha · seed 1": 1.0,
        f"{name} · uniform · seed 2": 0.7,
        f"{name} · alpha · seed 2": 1.0,
        f"{name} · uniform · seed 3": 0.0,
    }
    rows = table(scores).splitlines()[2:]
    assert rows == [f"| {task.env} | {storage.label} | 2 | 0.60 ± 0.10 | 1.00 ± 0.00 |"]


def test_every_combination_is_named_once() -> None:
    names = [(task.env, storage.label) for task, storage in STORAGES]
    assert len(set(names)) == len(names) == 8
