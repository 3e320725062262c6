"""How often each step, sequence and goal is drawn, by chi-square against the exact probabilities."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from recollect import keys
from recollect.agent.storages import OFF_POLICY_STORAGES
from tests.programs import compute_reward
from tests.reference import ReferenceStore, Settings
from tests.simulated import LAYOUTS, ObservationKind, SourceStream, StreamKind, as_sample, state_numbers

SMALLEST_P = 1e-6
BATCH_SIZE = 256
NUM_BATCHES = 150
CONSTRUCTED = ("n_step", "epsilon", "alpha", "beta", "default_error", "eta", "cmin", "strategy")


def make_pair(buffer: str, settings: Settings, **options: Any) -> tuple[Any, ReferenceStore]:
    """Build a buffer that stands alone, and its reference model."""
    given = {
        name: getattr(settings, name) for name in CONSTRUCTED if getattr(settings, name) != getattr(Settings, name)
    }
    if settings.length:
        given |= {"sequence_length": settings.length, "sequence_overlap": settings.overlap}
    shape: dict[str, Any] = {"num_envs": settings.num_envs, "gamma": settings.gamma, "seed": 11}
    memory = OFF_POLICY_STORAGES[buffer].standalone(settings.max_size, **shape, **given, **options)
    return memory, ReferenceStore(settings)


def fill(pair: tuple[Any, ReferenceStore], num_steps: dict[Hashable, int], *, has_goals: bool = False) -> None:
    """Insert steps from some sources into both."""
    memory, reference = pair
    kind = StreamKind(ObservationKind(LAYOUTS["vector"], has_goals=has_goals), frozenset([keys.DONE]))
    states = state_numbers()
    for place, (source, count) in enumerate(num_steps.items()):
        data = SourceStream(kind, reference.settings.num_envs, [5, place], states).take(count)
        memory.insert_data_slice(as_sample(data, "numpy"), source=source)
        reference.insert(data, source)


def set_errors(pair: tuple[Any, ReferenceStore], errors: dict[int, float]) -> None:
    """Give steps these errors in both."""
    memory, reference = pair
    batch = {keys.IDXS: np.array(list(errors))}
    memory.after_gradients(batch, {keys.ALGORITHM: {keys.ERRORS: np.array(list(errors.values()))}})
    reference.set_errors(errors.keys(), errors.values())


def varied_errors(ids: Iterable[int]) -> dict[int, float]:
    """Errors between 0 and 3, some of them exactly 0."""
    return {step_id: place % 7 / 2 for place, step_id in enumerate(ids) if place % 4}


def count_draws(pair: tuple[Any, ReferenceStore]) -> Counter[Hashable]:
    """Draw many batches and count the ids."""
    memory, reference = pair
    counts: Counter[Hashable] = Counter()
    for batch in memory.generate_batches(NUM_BATCHES, BATCH_SIZE * max(1, reference.settings.length)):
        counts.update(batch[keys.IDXS].tolist())
    return counts


def p_value(counts: Counter[Hashable], probabilities: dict[Any, float]) -> float:
    """The probability of counts as odd as these, 0 if something impossible was drawn."""
    possible = {outcome: p for outcome, p in probabilities.items() if p > 0}
    if not set(counts) <= set(possible):
        return 0.0
    total = counts.total()
    expected = np.array(list(possible.values()))
    expected *= total / expected.sum()
    return float(stats.chisquare([counts[outcome] for outcome in possible], expected).pvalue)


def everything(reference: ReferenceStore) -> list[int]:
    """All that can be drawn without a window."""
    return reference.candidates([len(lane.steps) for lane in reference.lanes])


def tilted(probabilities: dict[int, float]) -> dict[int, float]:
    """A slightly wrong distribution: the last outcomes half as probable again as the first."""
    slope = np.linspace(1.0, 1.5, len(probabilities))
    return {outcome: p * factor for (outcome, p), factor in zip(probabilities.items(), slope, strict=True)}


def assert_drawn_by(counts: Counter[Hashable], right: dict[Any, float], *wrong: dict[Any, float]) -> None:
    """The counts fit the right distribution and none of the wrong ones."""
    assert p_value(counts, right) > SMALLEST_P
    for probabilities in (tilted(right), *wrong):
        assert p_value(counts, probabilities) < SMALLEST_P


@pytest.mark.parametrize("buffer", [name for name in OFF_POLICY_STORAGES if name != "her"])  # it needs goals
def test_uniform_after_wrapping(buffer: str) -> None:
    pair = make_pair(buffer, Settings(num_envs=3, max_size=17))
    fill(pair, {0: 45})
    right = pair[1].probabilities(everything(pair[1]))
    assert len(right) == 51
    assert_drawn_by(count_draws(pair), right)


@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_prioritised_after_wrapping(alpha: float) -> None:
    settings = Settings(num_envs=2, max_size=20, prioritised=True, alpha=alpha, default_error=2.0)
    pair = make_pair("per", settings)
    fill(pair, {0: 20})
    set_errors(pair, varied_errors(pair[1].ids()))
    fill(pair, {0: 9})
    candidates = everything(pair[1])
    right = pair[1].probabilities(candidates)
    assert 0.0 in right.values()
    settings.alpha = 0.8
    assert_drawn_by(count_draws(pair), right, pair[1].probabilities(candidates))


def test_all_priorities_zero_is_uniform() -> None:
    pair = make_pair("per", Settings(max_size=30, prioritised=True, alpha=0.6))
    fill(pair, {0: 30})
    set_errors(pair, dict.fromkeys(pair[1].ids(), 0.0))
    right = pair[1].probabilities(everything(pair[1]))
    assert_drawn_by(count_draws(pair), right)


def test_changed_alpha_and_epsilon_count_at_once() -> None:
    settings = Settings(max_size=30, prioritised=True, alpha=0.6, default_error=2.0)
    pair = make_pair("per", settings)
    fill(pair, {0: 30})
    set_errors(pair, varied_errors(pair[1].ids()))
    before = pair[1].probabilities(everything(pair[1]))
    for name, value in (("alpha", 1.0), ("epsilon", 0.5)):
        pair[0].update_storage_parameter(name, value)
        pair[1].update(name, value)
    right = pair[1].probabilities(everything(pair[1]))
    assert_drawn_by(count_draws(pair), right, before)


def test_recent_is_uniform_in_the_newest_steps() -> None:
    settings = Settings(num_envs=2, max_size=40, recent=True, prioritised=True, eta=1e-5, cmin=24)
    pair = make_pair("ere", settings)
    fill(pair, {0: 55})
    windows = pair[1].next_windows(NUM_BATCHES, NUM_BATCHES)
    assert windows == [12, 12]
    right = pair[1].probabilities(pair[1].candidates(windows))
    assert_drawn_by(count_draws(pair), right, pair[1].probabilities(pair[1].candidates([13, 12])))


def test_recent_and_prioritised_over_lanes_of_different_sizes() -> None:
    settings = Settings(num_envs=2, max_size=90, recent=True, prioritised=True, alpha=0.6, eta=1e-5, cmin=44)
    settings.default_error = 2.0
    pair = make_pair("ere", settings)
    fill(pair, {"a": 41, "b": 10, "c": 4})
    set_errors(pair, varied_errors(pair[1].ids()))
    windows = pair[1].next_windows(NUM_BATCHES, NUM_BATCHES)
    assert windows == [15, 15, 5, 5, 2, 2]
    candidates = pair[1].candidates(windows)
    right = pair[1].probabilities(candidates)
    uniform = dict.fromkeys(candidates, 1.0)
    assert_drawn_by(count_draws(pair), right, uniform, pair[1].probabilities(everything(pair[1])))


@pytest.mark.parametrize("joint", [False, True])
def test_parts_that_are_mixed(joint: bool) -> None:
    settings = Settings(num_envs=2, max_size=90, recent=True, prioritised=True, alpha=0.6, eta=1e-5, cmin=30)
    settings.shares, settings.joint, settings.default_error = {"expert": 0.3, "medium": 0.2}, joint, 2.0
    pair = make_pair("mixed", settings, data_share=settings.shares, joint_priorities=joint)
    fill(pair, {"a": 29, "expert": 10, "medium": 4, "b": 8})
    set_errors(pair, varied_errors(pair[1].ids()))
    windows = pair[1].next_windows(NUM_BATCHES, NUM_BATCHES)
    assert windows == [11, 11, 10, 10, 4, 4, 4, 4]
    candidates = pair[1].candidates(windows)
    right = pair[1].probabilities(candidates)
    settings.joint = not joint
    other = pair[1].probabilities(candidates)
    settings.shares = {}
    assert_drawn_by(count_draws(pair), right, other, pair[1].probabilities(candidates))


@pytest.mark.parametrize("overlap", [0, 2])
def test_prioritised_sequences(overlap: int) -> None:
    settings = Settings(num_envs=3, max_size=31, prioritised=True, alpha=0.6, length=4, overlap=overlap)
    settings.default_error = 2.0
    pair = make_pair("per", settings)
    fill(pair, {0: 50})
    candidates = everything(pair[1])
    set_errors(pair, varied_errors(candidates))
    right = pair[1].probabilities(candidates)
    assert_drawn_by(count_draws(pair), right, dict.fromkeys(candidates, 1.0))


def goal_counts(memory: Any, reference: ReferenceStore) -> Counter[Hashable]:
    """Draw many relabelled rows and count pairs of step and goal step."""
    path = f"{keys.NEXT_OBS}/{keys.ACHIEVED_GOAL}"
    reached = {float(reference.step(step_id).row[path][0]): step_id for step_id in reference.ids()}
    counts: Counter[Hashable] = Counter()
    for batch in memory.generate_batches(NUM_BATCHES, BATCH_SIZE):
        goals = batch[keys.OBS][keys.DESIRED_GOAL][:, 0].tolist()
        counts.update(zip(batch[keys.IDXS].tolist(), (reached[goal] for goal in goals), strict=True))
    return counts


def goal_probabilities(reference: ReferenceStore) -> dict[Any, float]:
    """Exact probabilities of pairs of step and goal step."""
    return {
        (step_id, goal_id): 1 / len(goals)
        for step_id in reference.ids()
        for goals in [reference.goals(step_id)]
        for goal_id in goals
    }


@pytest.mark.parametrize("strategy", ["future", "final", "episode", "random"])
def test_goals(strategy: str) -> None:
    settings = Settings(num_envs=2, max_size=12, recent=True, prioritised=True, strategy=strategy)
    pair = make_pair("her", settings, share=1.0, compute_reward=compute_reward)
    fill(pair, {0: 30}, has_goals=True)
    right = goal_probabilities(pair[1])
    counts = goal_counts(*pair)
    settings.strategy = "episode" if strategy != "episode" else "future"
    assert_drawn_by(counts, right, goal_probabilities(pair[1]))


def test_every_row_of_a_batch_is_relabelled_equally_often() -> None:
    settings = Settings(max_size=12, recent=True, prioritised=True)
    pair = make_pair("her", settings, share=0.4, compute_reward=compute_reward)
    fill(pair, {0: 30}, has_goals=True)
    counts: Counter[Hashable] = Counter()
    for _ in range(2000):
        goals = pair[0].sample(10)[keys.OBS][keys.DESIRED_GOAL][:, 0]
        relabelled = np.flatnonzero(goals.numpy() > 0).tolist()
        assert len(relabelled) == 4
        counts.update(relabelled)
    assert_drawn_by(counts, dict.fromkeys(range(10), 0.1))
