"""The benchmark of given data: data come before what learns from them, and the tables have every cell."""

from benchmarks import prior_data


def test_data_are_made_before_anything_learns_from_them() -> None:
    names = [name for name, _ in prior_data.jobs()]
    assert names[0] == "demonstrations"
    assert names.index("datasets") < names.index("IQL, medium, 11")
    assert len(set(names)) == len(names) == 2 + 3 + 9 * len(prior_data.OFFLINE)


def test_the_sparse_table_has_the_first_evaluation_that_solves_the_task() -> None:
    curves = {11: [[1024, 10.0], [2048, 91.0]], 12: [[1024, 95.0], [2048, 93.0]], 13: [[1024, 0.0], [2048, 95.0]]}
    lines = prior_data.sparse_table({f"rlpd {seed}": {"curve": curve} for seed, curve in curves.items()}).splitlines()
    assert lines[2].startswith("| SAC | 50,000 | 96.0 ± ")
    assert lines[2].endswith(" | 15,008, 15,008, 15,008 |")
    assert lines[3] == "| RLPD with demonstrations | 2,000 | 93.0 ± 1.2 | 2,048, 1,024, 2,048 |"


def test_a_task_that_is_not_solved_has_no_steps() -> None:
    assert prior_data.first_above([[1000, 80.0], [2000, 90.0]]) == "2,000"
    assert prior_data.first_above([[1000, 80.0]]) == "–"


def test_offline_scores_are_0_for_random_actions_and_100_for_the_expert() -> None:
    outcomes = {"datasets": {"scores": {"random": -1200.0, "medium": -700.0, "expert": -210.0, "reference": -200.0}}}
    scores = {11: -700.0, 12: -200.0, 13: -1200.0}
    for seed, score in scores.items():
        for dataset in prior_data.DATASETS:
            for name in prior_data.OFFLINE:
                outcomes[f"{name}, {dataset}, {seed}"] = {"score": score}  # type: ignore[dict-item]
    lines = prior_data.offline_table(outcomes).splitlines()
    assert lines[0].startswith("| data | its return | behaviour cloning | TD3+BC | IQL | ")
    assert lines[3] == "| medium | −700 |" + " 50 ± 29 |" * len(prior_data.OFFLINE)
