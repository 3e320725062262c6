from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text

from recollect.agent.actors.networks.features.builders import NatureCNN, build_features, build_flat_features
from recollect.agent.actors.networks.features.images import ConvolutionalFeatures, DataEfficientCNN, ImpalaCNN
from recollect.agent.kernels.fusible import plain_operators
from recollect.errors import ConfigError


def _bytes(*shape: int) -> Box:
    return Box(0, 255, shape, np.uint8)


def _num_weights(module: Any) -> int:
    return sum(weight.numel() for weight in module.parameters())


def test_flat_observations_pass_unchanged_and_uncopied() -> None:
    obs = torch.randn(5, 3)
    features = build_features(Box(-1, 1, (3,)))
    assert features(obs).data_ptr() == obs.data_ptr()
    assert _num_weights(features) == 0


@pytest.mark.parametrize(("shape", "dtype"), [((), np.float32), ((2, 3), np.float64), ((4,), np.int16)])
def test_arrays_become_rows_of_floats(shape: tuple[int, ...], dtype: type) -> None:
    space = Box(-5, 5, shape, dtype)
    obs = np.stack([space.sample() for _ in range(4)])
    features = build_features(space)(torch.from_numpy(obs))
    assert features.dtype == torch.float32
    np.testing.assert_allclose(features, obs.reshape(4, -1), rtol=1e-6)


def test_bytes_become_floats_from_0_to_1() -> None:
    obs = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    torch.testing.assert_close(build_features(_bytes(3))(obs), torch.tensor([[0.0, 0.2, 1.0]]))


@pytest.mark.parametrize("shape", [(3,), (1, 36, 36)])
def test_the_largest_byte_of_a_space_becomes_1(shape: tuple[int, ...]) -> None:
    obs = torch.randint(0, 5, (2, *shape), dtype=torch.uint8)
    of_bytes, of_floats = build_features(Box(0, 4, shape, np.uint8)), build_features(Box(0, 1, shape))
    of_floats.load_state_dict(of_bytes.state_dict())
    torch.testing.assert_close(of_bytes(obs), of_floats(obs / 4))


def test_whole_numbers_become_one_hot() -> None:
    assert build_features(Discrete(3))(torch.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert build_features(Discrete(3, start=-1))(torch.tensor([-1])).tolist() == [[1, 0, 0]]


def test_several_whole_numbers_become_one_hot_side_by_side() -> None:
    features = build_features(MultiDiscrete([2, 3], start=[0, 5]))
    assert features(torch.tensor([[1, 5], [0, 7]])).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_switches_become_floats() -> None:
    assert build_features(MultiBinary(3))(torch.tensor([[1, 0, 1]], dtype=torch.int8)).tolist() == [[1.0, 0.0, 1.0]]


@pytest.mark.parametrize("shape", [(4, 84, 84), (96, 96, 3), (1, 36, 40), (36, 40), (4, 36, 40, 3), (4, 3, 36, 40)])
def test_images_pass_the_cnn(shape: tuple[int, ...]) -> None:
    features = build_features(_bytes(*shape))
    assert isinstance(features, NatureCNN)
    obs = torch.randint(0, 256, (2, *shape), dtype=torch.uint8)
    assert features(obs).shape == (2, features.out_features)


def test_axes_of_images_are_found() -> None:
    first, last = build_features(_bytes(3, 40, 44)), build_features(_bytes(40, 44, 3))
    last.load_state_dict(first.state_dict())
    obs = torch.randint(0, 256, (2, 3, 40, 44), dtype=torch.uint8)
    torch.testing.assert_close(first(obs), last(obs.movedim(1, -1)))


def test_bytes_of_images_are_scaled_and_floats_are_not() -> None:
    of_bytes, of_floats = build_features(_bytes(1, 36, 36)), build_features(Box(0, 1, (1, 36, 36)))
    of_floats.load_state_dict(of_bytes.state_dict())
    obs = torch.randint(0, 256, (2, 1, 36, 36), dtype=torch.uint8)
    torch.testing.assert_close(of_bytes(obs), of_floats(obs / 255))


def test_channels_of_stacked_images_come_one_image_after_the_other() -> None:
    first, last, plain = build_features(_bytes(4, 3, 40, 44)), build_features(_bytes(4, 40, 44, 3)), _bytes(12, 40, 44)
    obs = torch.randint(0, 256, (2, 4, 3, 40, 44), dtype=torch.uint8)
    expected = build_features(plain)
    for features, given in ((first, obs), (last, obs.movedim(2, -1))):
        features.load_state_dict(expected.state_dict())
        torch.testing.assert_close(features(given), expected(obs.flatten(1, 2)))


def test_an_image_without_channels_has_one() -> None:
    plain, expected = build_features(_bytes(40, 44)), build_features(_bytes(1, 40, 44))
    plain.load_state_dict(expected.state_dict())
    obs = torch.randint(0, 256, (2, 40, 44), dtype=torch.uint8)
    torch.testing.assert_close(plain(obs), expected(obs[:, None]))


def test_images_that_are_stacked_along_another_axis_are_refused() -> None:
    with pytest.raises(ConfigError, match="stacked along their first axis"):
        build_features(_bytes(40, 44, 3, 4))
    assert build_flat_features(_bytes(40, 44, 3, 4)).out_features == 40 * 44 * 12


@pytest.mark.parametrize("shape", [(84, 84), (4, 84, 84, 3)])
def test_floats_of_unusual_shapes_are_not_taken_for_images(shape: tuple[int, ...]) -> None:
    assert _num_weights(build_features(Box(0, 1, shape))) == 0


@pytest.mark.parametrize(("shape", "flat"), [((7, 7, 3), False), ((4, 84, 84), True), ((84, 20), False)])
def test_what_does_not_fit_the_cnn_is_flattened(shape: tuple[int, ...], flat: bool) -> None:
    features = (build_flat_features if flat else build_features)(_bytes(*shape))
    assert _num_weights(features) == 0
    assert features.out_features == np.prod(shape)


def test_parts_of_a_dict_stand_side_by_side() -> None:
    space = Dict({"a": Box(-1, 1, (2,)), "deep": Dict({"b": Discrete(2), "c": Box(-1, 1, (1,))})})
    features = build_features(space)
    obs = {"deep": {"c": torch.tensor([[0.5]]), "b": torch.tensor([1])}, "a": torch.tensor([[1.0, 2.0]])}
    assert features(obs).tolist() == [[1.0, 2.0, 0.0, 1.0, 0.5]]
    assert features.out_features == 5


def test_an_unknown_space_is_refused() -> None:
    with pytest.raises(ConfigError, match="observation space Text"):
        build_features(Text(5))


@pytest.mark.parametrize("kind", [NatureCNN, DataEfficientCNN, ImpalaCNN])
@pytest.mark.parametrize("shape", [(4, 44, 40), (44, 40, 3), (2, 44, 40, 3)])
def test_the_layout_of_images_changes_nothing(kind: type[ConvolutionalFeatures], shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    network, images = kind(Box(0, 255, shape, np.uint8)), torch.randint(256, (3, *shape), dtype=torch.uint8)

    def learned() -> list[torch.Tensor]:
        network.zero_grad()
        features = network(images)
        features.square().sum().backward()
        slopes = [weight.grad for weight in network.parameters()]
        return [features.detach(), *(slope for slope in slopes if slope is not None)]

    found = learned()
    assert all(slope.is_contiguous() for slope in found[1:]), "as optimisers and messages take them"
    with plain_operators():
        torch.testing.assert_close(found, learned(), rtol=1e-3, atol=1e-4)
