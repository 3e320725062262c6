"""The benchmark of adapters: both sides of each loop take turns, and the table has what there is."""

from benchmarks import adapter_loops, adapters


def test_the_sides_take_turns_seed_by_seed() -> None:
    found = list(adapters.commands(2))
    assert found[:2] == [("memory", "sb3", "theirs"), ("memory", "sb3", "ours")]
    learned = [command for command in found if command[0] == "learn"]
    assert learned[:3] == [
        ("learn", "sb3", "theirs", "1"),
        ("learn", "sb3", "ours", "1"),
        ("learn", "cleanrl", "theirs", "1"),
    ]
    assert len(set(learned)) == len(learned) == 12


def test_the_table_has_the_best_time_and_the_mean_score() -> None:
    outcomes = {
        "memory sb3 theirs": {"mb": 282.4},
        "memory sb3 ours": {"mb": 35.5},
        "learn sb3 theirs 1": {"cpu_s": 12.04, "score": 100.0},
        "learn sb3 theirs 2": {"cpu_s": 14.0, "score": 300.0},
        "learn sb3 ours 1": {"cpu_s": 11.0, "score": 500.0},
        "learn sb3 ours 2": {"cpu_s": 11.5, "score": 500.0},
        "learn torchrl theirs 1": {"cpu_s": 1.0, "score": 1.0},
    }
    assert adapters.table(outcomes).splitlines()[2:] == [
        "| SB3's DQN, processor time in s | 2 | 12.0 | 11.0 |",
        "| SB3's DQN, return | 2 | 200 ± 100 | 500 ± 0 |",
        "| SB3, CleanRL, MB of 5,000 stacks of frames | | 282 | 36 |",
    ]


def test_the_score_is_the_mean_return_of_the_last_half() -> None:
    assert adapter_loops.late_return([10.0, 30.0, 20.0, 40.0], num_steps=100) == 30.0
