"""CNNs against their papers: numbers of weights, and every layer computed again."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import Generator, Tensor, nn
from torch.nn import functional

from recollect.agent.actors.networks.features.builders import (
    build_data_efficient_features,
    build_features,
    build_impala_features,
)

FRAMES = Box(0, 255, (4, 84, 84), np.uint8)


def draw_images(num: int) -> Tensor:
    return torch.randint(0, 256, (num, *FRAMES.shape), generator=Generator().manual_seed(0)).to(torch.uint8)


@pytest.mark.parametrize(
    ("build", "size", "num_weights"),
    # 16, 32 and 32 filters of 3 x 3 with four more of each, and 11 x 11 x 32 -> 256; 32 and 64 filters of 5 x 5.
    [(build_impala_features, 256, 1_089_232), (build_data_efficient_features, 576, 54_496)],
)
def test_other_cnns_have_the_shapes_of_their_papers(build: object, size: int, num_weights: int) -> None:
    features = build(FRAMES)  # type: ignore[operator]
    assert features(draw_images(2)).shape == (2, size)
    assert sum(weight.numel() for weight in features.parameters()) == num_weights


def test_the_impala_cnn_layer_by_layer() -> None:
    features, images = build_impala_features(FRAMES), draw_images(2)
    convolutions = iter([part for part in features.modules() if isinstance(part, nn.Conv2d)])

    def convolve(inputs: Tensor) -> Tensor:
        layer = next(convolutions)
        return functional.conv2d(inputs, layer.weight, layer.bias, padding=1)

    hidden = images.float() / 255
    for _ in range(3):
        hidden = functional.max_pool2d(convolve(hidden), 3, stride=2, padding=1)
        for _ in range(2):
            hidden = hidden + convolve(convolve(hidden.relu()).relu())
    expected = functional.linear(hidden.relu().flatten(1), features.output.weight, features.output.bias).relu()
    torch.testing.assert_close(features(images), expected, rtol=1e-4, atol=1e-5)
    assert next(convolutions, None) is None


@pytest.mark.parametrize(("build", "strides"), [(build_features, (4, 2, 1)), (build_data_efficient_features, (5, 5))])
def test_the_other_cnns_layer_by_layer(build: object, strides: tuple[int, ...]) -> None:
    features, images = build(FRAMES), draw_images(2)  # type: ignore[operator]
    hidden = images.float() / 255
    layers = [part for part in features.modules() if isinstance(part, nn.Conv2d)]
    for layer, stride in zip(layers, strides, strict=True):
        hidden = functional.conv2d(hidden, layer.weight, layer.bias, stride=stride).relu()
    expected = hidden.flatten(1)
    if features.output is not None:
        expected = functional.linear(expected, features.output.weight, features.output.bias).relu()
    torch.testing.assert_close(features(images), expected, rtol=1e-4, atol=1e-5)
