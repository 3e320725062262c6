"""Bad input is a typed error, and the store is bit-identical afterwards."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from recollect import keys
from recollect.agent.storages import OFF_POLICY_STORAGES
from recollect.errors import ConfigError, RecollectError, RecollectWarning, SchemaError, StorageError
from tests.programs import compute_reward
from tests.reference import Row, flatten, same_bits
from tests.simulated import FrameStack, ObservationKind, SourceStream, StreamKind, as_sample, state_numbers

NUM_ENVS = 2
NUM_STEPS = 3
OBSERVATION = ObservationKind({"/pixels": ("uint8", (2, 3)), "/speed": ("float32", (3,))}, has_goals=True)
STACKED = ObservationKind({}, {"": FrameStack(3, 0, "first", "uint8", (4,), few_values=False)})
OPTIONAL = frozenset([keys.DONE, keys.NEXT_TERMINATED, keys.IREWARD, keys.RHS, keys.NEXT_RHS])
Sample = dict[str, Any]

OPTIONS: dict[str, dict[str, Any]] = {
    "nstep": {"n_step": 3},
    "per": {"n_step": 2, "alpha": 0.6},
    "ere": {"alpha": 0.6, "eta": 0.99, "cmin": 2},
    "her": {"alpha": 0.6, "compute_reward": compute_reward},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, OPTIONS.get(name, {})) for name in OFF_POLICY_STORAGES},
    "sequences": ("per", {"alpha": 0.6, "sequence_length": 3, "sequence_overlap": 1}),
    "frames": ("nstep", {"n_step": 2, "frame_stack": 3}),
}


class Twins:
    """Two stores with one history; bad input goes to the first only.

    Parameters
    ----------
    variant : str
        Which buffer, of `VARIANTS`.
    num_inserts : int
        How many slices both hold from the start.
    """

    def __init__(self, variant: str, num_inserts: int = 5) -> None:
        name, options = VARIANTS[variant]
        self.victim, self.twin = (
            OFF_POLICY_STORAGES[name].standalone(8, num_envs=NUM_ENVS, gamma=0.9, seed=3, **options) for _ in range(2)
        )
        kind = StreamKind(STACKED if variant == "frames" else OBSERVATION, OPTIONAL)
        states = state_numbers()
        self.sources = {source: SourceStream(kind, NUM_ENVS, [source], states) for source in (0, 1)}
        for number in range(num_inserts):
            self.insert(number % 2)
        for _ in range(2 if num_inserts else 0):
            self.draw()

    @property
    def both(self) -> tuple[Any, Any]:
        """The two stores."""
        return self.victim, self.twin

    def next_slice(self) -> Row:
        """Steps that would fit."""
        return self.sources[0].take(NUM_STEPS)

    def insert(self, source: int) -> None:
        """Insert the same good steps into both."""
        data = self.sources[source].take(NUM_STEPS)
        for store in self.both:
            store.insert_data_slice(as_sample(data, "numpy"), source=source)

    def draw(self) -> None:
        """Draw from both, compare, and hand the same errors back."""
        batches = [next(iter(store.generate_batches(1, 12))) for store in self.both]
        assert_same(*map(flatten, batches))
        errors = np.linspace(0, 3, len(batches[0][keys.IDXS]))
        for store, batch in zip(self.both, batches, strict=True):
            store.after_gradients(batch, {keys.ALGORITHM: {keys.ERRORS: errors}})

    def assert_alike(self) -> None:
        """Nothing tells the two apart, neither now nor later."""
        for name in ("size", "step", "max_size", "num_cuts"):
            assert getattr(self.victim, name) == getattr(self.twin, name), name
        assert len(self.victim) == len(self.twin)
        for source in (0, 1):
            assert_same(*(flatten(store.get_all_buffer_data(source=source)) for store in self.both))
        self.draw()
        self.insert(0)
        self.insert(1)
        for _ in range(3):
            self.draw()


def assert_same(left: Row, right: Row) -> None:
    assert set(left) == set(right)
    for path, values in left.items():
        assert same_bits(values, right[path]), path


def with_last(path: str, value: float) -> Callable[[Row], Sample]:
    """Set one key of the very last step of the last environment."""

    def change(flat: Row) -> Sample:
        flat[path][(-1,) * flat[path].ndim] = value
        return as_sample(flat, "numpy")

    return change


def with_array(path: str, convert: Callable[[np.ndarray], Any]) -> Callable[[Row], Sample]:
    """Replace the array of one key."""
    return lambda flat: as_sample(flat, "numpy") | {path: convert(flat[path])}


def with_leaf(root: str, name: str, convert: Callable[[np.ndarray], Any]) -> Callable[[Row], Sample]:
    """Replace one part of a nested observation; None takes it away."""

    def change(flat: Row) -> Sample:
        sample = as_sample(flat, "numpy")
        part = sample[root].pop(name)
        replaced = convert(part)
        sample[root] |= {} if replaced is None else {name: replaced}
        return sample

    return change


def without(key: str) -> Callable[[Row], Sample]:
    """Leave one key out."""
    return lambda flat: {name: value for name, value in as_sample(flat, "numpy").items() if name != key}


def with_all(convert: Callable[[np.ndarray], np.ndarray]) -> Callable[[Row], Sample]:
    """Replace every array."""
    return lambda flat: as_sample({path: convert(values) for path, values in flat.items()}, "numpy")


def unterminated_end(flat: Row) -> Sample:
    """Terminated, but not done."""
    flat[keys.NEXT_DONE][-1] = 0
    flat[keys.NEXT_TERMINATED][-1, -1] = 1
    return as_sample(flat, "numpy")


BAD_DATA: dict[str, Callable[[Row], Sample]] = {
    "no observation": without(keys.OBS),
    "no action": without(keys.ACTION),
    "no reward": without(keys.REWARD),
    "no next observation": without(keys.NEXT_OBS),
    "no next done": without(keys.NEXT_DONE),
    "optional key gone": without(keys.IREWARD),
    "optional key new": lambda flat: as_sample(flat | {keys.ACTION_PROBS: flat[keys.REWARD]}, "numpy"),
    "action too wide": with_array(keys.ACTION, lambda v: np.concatenate([v, v], axis=-1)),
    "action without its axis": with_array(keys.ACTION, lambda v: v[..., 0]),
    "reward without its axis": with_array(keys.REWARD, lambda v: v[..., 0]),
    "done without its axis": with_array(keys.NEXT_DONE, lambda v: v[..., 0]),
    "reward of more envs": with_array(keys.REWARD, lambda v: np.concatenate([v, v], axis=-2)),
    "everything of fewer envs": with_all(lambda v: v[:, :1]),
    "everything of more envs": with_all(lambda v: np.concatenate([v, v], axis=1)),
    "fewer steps in one key": with_array(keys.ACTION, lambda v: v[1:]),
    "float64 action": with_array(keys.ACTION, lambda v: v.astype(np.float64)),
    "integer action": with_array(keys.ACTION, lambda v: v.astype(np.int64)),
    "float64 reward": with_array(keys.REWARD, lambda v: v.astype(np.float64)),
    "integer reward": with_array(keys.REWARD, lambda v: v.astype(np.int64)),
    "complex reward": with_array(keys.REWARD, lambda v: v.astype(np.complex64)),
    "objects": with_array(keys.ACTION, lambda v: v.astype(object)),
    "text": with_array(keys.ACTION, lambda v: v.astype(str)),
    "nothing": with_array(keys.ACTION, lambda v: None),
    "NaN reward": with_last(keys.REWARD, np.nan),
    "infinite reward": with_last(keys.REWARD, np.inf),
    "minus infinite reward": with_last(keys.REWARD, -np.inf),
    "NaN intrinsic reward": with_last(keys.IREWARD, np.nan),
    "done 2": with_last(keys.NEXT_DONE, 2),
    "done one half": with_last(keys.NEXT_DONE, 0.5),
    "done NaN": with_last(keys.NEXT_DONE, np.nan),
    "done -1": with_last(keys.DONE, -1),
    "terminated but not done": unterminated_end,
    "hidden state too wide": with_array(keys.RHS, lambda v: np.concatenate([v, v], axis=-1)),
}
BAD_LEAVES: dict[str, Callable[[Row], Sample]] = {
    "leaf gone": with_leaf(keys.OBS, keys.ACHIEVED_GOAL, lambda v: None),
    "next leaf gone": with_leaf(keys.NEXT_OBS, keys.ACHIEVED_GOAL, lambda v: None),
    "leaf new": lambda flat: as_sample(flat | {f"{keys.OBS}/new": flat[keys.REWARD]}, "numpy"),
    "next leaf new": lambda flat: as_sample(flat | {f"{keys.NEXT_OBS}/new": flat[keys.REWARD]}, "numpy"),
    "leaf too wide": with_leaf(keys.OBS, keys.DESIRED_GOAL, lambda v: np.concatenate([v, v], axis=-1)),
    "next leaf of another dtype": with_leaf(keys.NEXT_OBS, keys.DESIRED_GOAL, lambda v: v.astype(np.float64)),
    "leaf instead of a dict": with_leaf(keys.OBS, "observation", lambda v: v["speed"]),
    "dict instead of a leaf": with_leaf(keys.OBS, keys.DESIRED_GOAL, lambda v: {"x": v}),
    "array instead of a dict": lambda flat: as_sample(flat, "numpy") | {keys.OBS: flat[keys.ACTION]},
}
VARIANTS_WITH_LEAVES = [name for name in VARIANTS if name != "frames"]
CASES = [(variant, name) for variant in VARIANTS for name in BAD_DATA]
CASES += [(variant, name) for variant in VARIANTS_WITH_LEAVES for name in BAD_LEAVES]


@pytest.mark.parametrize(("variant", "name"), CASES)
def test_bad_slice(variant: str, name: str) -> None:
    twins = Twins(variant)
    with pytest.raises(SchemaError):
        twins.victim.insert_data_slice((BAD_DATA | BAD_LEAVES)[name](twins.next_slice()))
    twins.assert_alike()


@pytest.mark.parametrize(("variant", "name"), [case for case in CASES if case[1] != "fewer steps in one key"])
def test_bad_transition(variant: str, name: str) -> None:
    twins = Twins(variant)
    bad = (BAD_DATA | BAD_LEAVES)[name](twins.next_slice())
    with pytest.raises(SchemaError):
        twins.victim.insert_transition(last_step(bad))
    twins.assert_alike()


def last_step(sample: Any) -> Any:
    if isinstance(sample, dict):
        return {key: last_step(value) for key, value in sample.items()}
    return None if sample is None else sample[-1]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["no reward", "integer reward", "NaN reward", "objects", "done 2"])
def test_bad_first_slice(variant: str, name: str) -> None:
    twins = Twins(variant, num_inserts=0)
    with pytest.raises(SchemaError):
        twins.victim.insert_data_slice(BAD_DATA[name](twins.next_slice()))
    assert len(twins.victim) == 0
    for source in (0, 1, 0, 1):
        twins.insert(source)
    twins.assert_alike()


@pytest.mark.parametrize("source", [2, "new"])
def test_bad_slice_of_a_new_source_does_not_divide_the_store(source: Any) -> None:
    twins = Twins("per")
    with pytest.raises(SchemaError):
        twins.victim.insert_data_slice(BAD_DATA["NaN reward"](twins.next_slice()), source=source)
    twins.assert_alike()


@pytest.mark.parametrize("source", [0, "new"])
@pytest.mark.parametrize("first_step", ["a", float("nan"), -1, 1.5, [1]])
def test_bad_first_step(source: Any, first_step: Any) -> None:
    twins = Twins("per")
    with pytest.raises(ConfigError, match="first_step"):
        twins.victim.insert_data_slice(as_sample(twins.next_slice(), "numpy"), source=source, first_step=first_step)
    twins.assert_alike()


def test_a_source_that_cannot_be_a_name() -> None:
    twins = Twins("per")
    with pytest.raises(ConfigError, match="source"):
        twins.victim.insert_data_slice(as_sample(twins.next_slice(), "numpy"), source=[1])
    twins.assert_alike()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("source", [0, "new"])
def test_a_slice_without_steps_changes_nothing(variant: str, source: Any) -> None:
    twins = Twins(variant)
    twins.victim.insert_data_slice(with_all(lambda v: v[:0])(twins.next_slice()), source=source)
    twins.assert_alike()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("num_inserts", [0, 5])
@pytest.mark.parametrize("sample", [None, 3, "text", [], list(range(12)), np.zeros(3)])
def test_a_transition_that_is_no_dict(variant: str, num_inserts: int, sample: Any) -> None:
    twins = Twins(variant, num_inserts)
    insert = [twins.victim.insert_transition, twins.victim.insert_data_slice]
    for function in insert if num_inserts else [*insert, twins.victim.init_tensors]:
        with pytest.raises(SchemaError, match="dict of arrays"):
            function(sample)
    for source in (0, 1, 0, 1):
        twins.insert(source)
    twins.assert_alike()


@pytest.mark.parametrize("reward", [None, 1.0, np.float32(1), np.zeros(()), [1.0, 2.0]])
def test_a_reward_that_has_no_steps(reward: Any) -> None:
    twins = Twins("per")
    with pytest.raises(SchemaError, match=keys.REWARD):
        twins.victim.insert_data_slice(as_sample(twins.next_slice(), "numpy") | {keys.REWARD: reward})
    twins.assert_alike()


@pytest.mark.parametrize("key", [keys.ACTION, keys.OBS, keys.REWARD])
def test_a_dtype_that_torch_lacks(key: str) -> None:
    twins = Twins("frames" if key == keys.OBS else "per", num_inserts=0)
    with pytest.raises(SchemaError, match=key):
        twins.victim.insert_data_slice(with_array(key, lambda v: v.astype(np.longdouble))(twins.next_slice()))
    assert len(twins.victim) == 0
    for source in (0, 1, 0, 1):
        twins.insert(source)
    twins.assert_alike()


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_plan_for_other_envs_is_refused(num_envs: int) -> None:
    twins = Twins("per", num_inserts=0)
    fewer_or_more = with_all(lambda v: np.concatenate([v[-1], v[-1]])[:num_envs])
    with pytest.raises(SchemaError, match=f"{num_envs} envs"):
        twins.victim.init_tensors(fewer_or_more(twins.next_slice()))
    for source in (0, 1, 0, 1):
        twins.insert(source)
    twins.assert_alike()


@pytest.mark.parametrize("values", [1.0, np.float32(1), None, np.zeros(2, np.float32)])
def test_a_column_ahead_that_is_none(values: Any) -> None:
    twins = Twins("per")
    with pytest.raises(SchemaError, match=keys.ACTION):
        twins.victim.insert_single_tensor_slice(twins.victim.data, keys.ACTION, values)
    twins.assert_alike()


@pytest.mark.parametrize("bad", [{"reward": ["a", "b"]}, {"reward": None}, {"obs": [[1.0], [1.0, 2.0]]}])
def test_bad_values_in_ones_own_loop(bad: dict[str, Any]) -> None:
    stores = [OFF_POLICY_STORAGES["per"].standalone(8, num_envs=NUM_ENVS, seed=1) for _ in range(2)]
    zeros, no = np.zeros((NUM_ENVS, 2), np.float32), np.zeros(NUM_ENVS, np.bool_)
    step = {"obs": zeros, "action": zeros, "reward": [0, 0], "next_obs": zeros, "terminated": no, "truncated": no}
    for store in stores:
        store.add(**step)
    with pytest.raises(SchemaError):
        stores[0].add(**(step | bad))
    for store in stores:
        store.add(**step)
    assert_same(*(flatten(store.get_all_buffer_data()) for store in stores))


BAD_REWRITING: dict[str, Callable[..., Any]] = {
    "too few rows": lambda obs, *rest: ({**obs, "desired_goal": obs["desired_goal"][:1]}, *rest[:4]),
    "one row for all": lambda obs, *rest: ({**obs, "desired_goal": obs["desired_goal"][0]}, *rest[:4]),
    "unknown key": lambda obs, *rest: ({**obs, "goal": obs["desired_goal"]}, *rest[:4]),
    "no dict": lambda obs, *rest: (obs["desired_goal"], *rest[:4]),
    "no rewards": lambda *given: (*given[:4], None),
    "words": lambda *given: (*given[:4], ["a"] * len(given[4])),
    "nothing": lambda *given: None,
}


@pytest.mark.parametrize("name", BAD_REWRITING)
def test_bad_answers_of_a_her_function(name: str) -> None:
    answers = [BAD_REWRITING[name], lambda *given: given[:5]]

    def rewrite(*given: Any) -> Any:
        return answers[0](*given)

    stores = [
        OFF_POLICY_STORAGES["her"].standalone(8, num_envs=NUM_ENVS, seed=1, share=1.0, her_function=rewrite)
        for _ in range(2)
    ]
    data = as_sample(SourceStream(StreamKind(OBSERVATION, OPTIONAL), NUM_ENVS, [1], state_numbers()).take(6), "numpy")
    for store in stores:
        store.insert_data_slice(data)
    with pytest.raises(SchemaError, match="her_function"):
        stores[0].sample(12)
    assert_same(*(flatten(store.get_all_buffer_data()) for store in stores))
    answers.pop(0)
    assert len(stores[0].sample(12)[keys.REWARD]) == 12


def test_messages_name_what_is_wrong() -> None:
    twins = Twins("nstep")
    for name, part in (
        ("NaN reward", "(?i)reward"),
        ("action too wide", keys.ACTION),
    ):
        with pytest.raises(SchemaError, match=part):
            twins.victim.insert_data_slice(BAD_DATA[name](twins.next_slice()))


def info_with(errors: Any) -> dict[str, Any]:
    return {keys.ALGORITHM: {keys.ERRORS: errors}}


BAD_ERRORS: dict[str, Callable[[int], dict[str, Any]]] = {
    "negative": lambda n: info_with(np.r_[np.ones(n - 1), -1e-6]),
    "NaN": lambda n: info_with(np.r_[np.ones(n - 1), np.nan]),
    "infinite": lambda n: info_with(np.r_[np.ones(n - 1), np.inf]),
    "too many": lambda n: info_with(np.ones(n + 1)),
    "too few": lambda n: info_with(np.ones(n - 1)),
    "too wide": lambda n: info_with(np.ones((n, 2, 2))),
    "words": lambda n: info_with(["a"] * n),
    "no errors": lambda n: {keys.ALGORITHM: {}},
    "no algorithm": lambda n: {},
    "nothing of the algorithm": lambda n: {keys.ALGORITHM: None},
    "complex": lambda n: info_with(np.ones(n, np.complex64)),
}


@pytest.mark.parametrize("variant", ["per", "ere", "her", "sequences"])
@pytest.mark.parametrize("name", BAD_ERRORS)
def test_bad_errors(variant: str, name: str) -> None:
    twins = Twins(variant)
    batches = [next(iter(store.generate_batches(1, 12))) for store in twins.both]
    with pytest.raises(SchemaError):
        twins.victim.after_gradients(batches[0], BAD_ERRORS[name](len(batches[0][keys.IDXS])))
    twins.assert_alike()


@pytest.mark.parametrize("batch", [None, {}, {keys.IDXS: None}, {keys.IDXS: "ids"}, [1]])
def test_errors_of_what_is_no_batch(batch: Any) -> None:
    twins = Twins("per")
    with pytest.raises(SchemaError, match="ids"):
        twins.victim.after_gradients(batch, info_with(np.ones(3)))
    twins.assert_alike()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_ids_that_were_rounded_are_refused(dtype: torch.dtype) -> None:
    twins = Twins("per")
    batches = [next(iter(store.generate_batches(1, 12))) for store in twins.both]
    with pytest.raises(SchemaError, match=r"whole numbers, got torch.*give idxs as they were drawn"):
        twins.victim.after_gradients({**batches[0], keys.IDXS: batches[0][keys.IDXS].to(dtype)}, info_with(np.ones(12)))
    twins.assert_alike()


@pytest.mark.parametrize("info", [{}, None, {keys.EPISODES: {}}, {keys.EPISODES: {keys.TRAIN_REWARD: "much"}}])
def test_returns_that_are_none(info: Any) -> None:
    twins = Twins("ere")
    with pytest.raises(SchemaError, match="training return"):
        twins.victim.update_eta(info)
    assert twins.victim.eta == twins.twin.eta
    twins.assert_alike()


def test_errors_may_be_missing_when_nothing_is_prioritised() -> None:
    store = OFF_POLICY_STORAGES["per"].standalone(8, num_envs=NUM_ENVS, seed=1)
    stream = SourceStream(StreamKind(OBSERVATION), NUM_ENVS, [1], state_numbers())
    store.insert_data_slice(as_sample(stream.take(4), "numpy"))
    batch = store.sample(4)
    assert store.after_gradients(batch, {}) is not None


@pytest.mark.parametrize("variant", VARIANTS)
def test_empty_store(variant: str) -> None:
    twins = Twins(variant, num_inserts=0)
    with pytest.raises(StorageError):
        next(iter(twins.victim.generate_batches(1, 4)))
    with pytest.raises(StorageError):
        twins.victim.sample(4)
    for source in (0, 1, 0, 1):
        twins.insert(source)
    twins.assert_alike()


@pytest.mark.parametrize("variant", VARIANTS)
def test_batch_larger_than_the_store_is_drawn_with_replacement(variant: str) -> None:
    twins = Twins(variant)
    batch = next(iter(twins.victim.generate_batches(1, 300)))
    assert len(batch[keys.IDXS]) == (100 if variant == "sequences" else 300)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("sizes", [(0, 4, 1), (1, 0, 1), (1, -3, 1), (-1, 4, 1), (1, 4, 0), (1, 2.5, 1)])
def test_bad_batch_sizes(variant: str, sizes: tuple[int, int, int]) -> None:
    twins = Twins(variant)
    with pytest.raises(RecollectError):
        next(iter(twins.victim.generate_batches(*sizes)))
    twins.assert_alike()


BAD_PARAMETERS: list[tuple[str, str, Any]] = [
    ("nstep", "n_step", 0),
    ("nstep", "n_step", -1),
    ("nstep", "n_step", 1.5),
    ("nstep", "n_step", "two"),
    ("nstep", "n_step", float("nan")),
    ("nstep", "n_step", None),
    ("per", "alpha", -0.1),
    ("per", "alpha", float("nan")),
    ("per", "alpha", None),
    ("per", "alpha", True),
    ("per", "epsilon", None),
    ("per", "beta", -0.1),
    ("per", "beta", float("nan")),
    ("per", "epsilon", -0.1),
    ("per", "epsilon", float("inf")),
    ("per", "epsilon", 1e39),
    ("ere", "eta", -0.5),
    ("ere", "eta", float("nan")),
    ("ere", "cmin", -1),
    ("replay", "max_size", 0),
    ("replay", "max_size", -3),
    ("replay", "max_size", 2.5),
    ("replay", "max_size", float("inf")),
    ("sequences", "max_size", 1),
    ("replay", "gamma", float("nan")),
    ("replay", "gamma", -0.1),
]


@pytest.mark.parametrize(("variant", "name", "value"), BAD_PARAMETERS)
def test_bad_parameter(variant: str, name: str, value: Any) -> None:
    twins = Twins(variant)
    with pytest.raises(ConfigError):
        twins.victim.update_storage_parameter(name, value)
    twins.assert_alike()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("name", "hint"), [("max_sise", "max_size"), ("gama", "gamma")])
def test_unknown_parameter_warns_and_changes_nothing(variant: str, name: str, hint: str) -> None:
    twins = Twins(variant)
    with pytest.warns(RecollectWarning, match=hint):
        twins.victim.update_storage_parameter(name, 3)
    assert not hasattr(twins.victim, name)
    twins.assert_alike()


@pytest.mark.parametrize("name", [None, 3, ["gamma"]])
def test_a_parameter_name_that_is_none(name: Any) -> None:
    twins = Twins("per")
    with pytest.raises(ConfigError, match="parameter_name"):
        twins.victim.update_storage_parameter(name, 3)
    twins.assert_alike()


@pytest.mark.parametrize("variant", VARIANTS)
def test_known_parameter_does_not_warn(variant: str) -> None:
    twins = Twins(variant)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for store in twins.both:
            store.update_storage_parameter("gamma", 0.5)
    twins.assert_alike()


@pytest.mark.parametrize("bounds", [(-1, 2), (0, 99), (3, 2), (0.5, 2), ("first", 2)])
def test_bad_bounds_of_a_slice(bounds: tuple[Any, int]) -> None:
    twins = Twins("replay")
    with pytest.raises(RecollectError):
        twins.victim.get_data_slice(*bounds)
    with pytest.raises(RecollectError):
        twins.victim.get_all_buffer_data(source="nobody")
    twins.assert_alike()


BAD_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("replay", {"size": 0}),
    ("replay", {"size": -4}),
    ("replay", {"num_envs": 0}),
    ("replay", {"seed": -1}),
    ("replay", {"seed": "one"}),
    ("nstep", {"n_step": 0}),
    ("per", {"alpha": -1.0}),
    ("per", {"epsilon": -1.0}),
    ("per", {"beta": float("nan")}),
    ("per", {"default_error": -1}),
    ("per", {"default_error": float("inf")}),
    ("per", {"default_error": 1e39}),
    ("per", {"epsilon": 1e39}),
    ("ere", {"eta": -0.5}),
    ("ere", {"cmin": -1}),
    ("her", {"share": 1.5}),
    ("her", {"share": -0.1}),
    ("her", {"strategy": "past"}),
    ("replay", {"sequence_length": 0}),
    ("replay", {"sequence_length": 3, "sequence_overlap": 3}),
    ("replay", {"sequence_length": 30}),
    ("replay", {"sequence_length": 3, "sequence_overlap": "one"}),
    ("replay", {"sequence_length": 3, "sequence_overlap": 1.5}),
    ("replay", {"sequence_overlap": 1}),
    ("replay", {"frame_stack": 0}),
    ("replay", {"frame_stack": "four"}),
    ("replay", {"frame_stack": (4,)}),
    ("replay", {"frame_stack": (4, "last")}),
    ("replay", {"frame_stack": {"pixels": (4, 0, 1)}}),
    ("replay", {"frame_stack": {0: 4}}),
    ("replay", {"device": "nowhere"}),
    ("replay", {"device": None}),
    ("her", {"compute_reward": -1.0}),
    ("her", {"compute_reward": compute_reward, "compute_terminated": False}),
    ("her", {"her_function": "future"}),
]


@pytest.mark.parametrize(("buffer", "options"), BAD_OPTIONS)
def test_bad_option(buffer: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        OFF_POLICY_STORAGES[buffer].standalone(**({"size": 10} | options))


@pytest.mark.parametrize(
    ("buffer", "name", "hint"),
    [
        ("per", "alhpa", "alpha"),
        ("nstep", "nstep", "n_step"),
        ("ere", "c_min", "cmin"),
        ("her", "compute_rewards", "compute_reward"),
        ("her", "stategy", "strategy"),
        ("replay", "sead", "seed"),
        ("per", "gama", "gamma"),
        ("her", "num_env", "num_envs"),
    ],
)
def test_a_misspelt_option_is_answered_with_the_closest_one(buffer: str, name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"no option '{name}'; did you mean '{hint}'"):
        OFF_POLICY_STORAGES[buffer].standalone(10, **{name: 1})


@pytest.mark.parametrize("variant", ["per", "sequences"])
def test_a_refused_first_sample_leaves_no_priorities(variant: str) -> None:
    twins = Twins(variant, num_inserts=0)
    with pytest.raises(SchemaError, match="finite"):
        twins.victim.insert_data_slice(with_last(keys.REWARD, np.nan)(twins.next_slice()))
    with pytest.raises(StorageError, match="empty"):
        twins.victim.update_priorities({keys.IDXS: [0]}, [1.0])
    assert all(len(store.state().slot_arrays["errors"]) == 0 for store in twins.both)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_plan_that_differs_from_the_first_is_refused(variant: str) -> None:
    twins = Twins(variant)
    sample = as_sample({path: values[0] for path, values in twins.next_slice().items()}, "numpy")
    twins.victim.init_tensors(sample)
    with pytest.raises(SchemaError, match=keys.ACTION):
        twins.victim.init_tensors(sample | {keys.ACTION: np.zeros((NUM_ENVS, 7), np.float32)})
    twins.assert_alike()


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_storage_that_is_copied_names_the_ways_that_there_are(make_copy: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"PERBuffer cannot be pickled or copied.*create_factory.*save_storage"):
        make_copy(Twins("per").victim)


def test_a_source_without_a_hash_is_refused_wherever_it_is_named() -> None:
    twins = Twins("replay")
    for call in (twins.victim.get_all_buffer_data, twins.victim.release_source):
        with pytest.raises(ConfigError, match="hashable"):
            call(source=[0])
    with pytest.raises(ConfigError, match="hashable"):
        twins.victim.insert_data_slice(as_sample(twins.next_slice(), "numpy"), source=(0, [1]))
    twins.assert_alike()


@pytest.mark.parametrize("size", [1e2, np.int64(100)])
def test_a_size_may_be_written_as_any_whole_number(size: Any) -> None:
    store = OFF_POLICY_STORAGES["per"].standalone(size=size, n_step=2, alpha=0.6, seed=1)
    store.add(np.zeros((1, 3), np.float32), np.zeros(1), np.ones(1), np.ones((1, 3), np.float32), False, False)
    assert type(store.max_size) is int
    assert store.max_size == 100
    assert len(store.sample(4)[keys.REWARD]) == 4
