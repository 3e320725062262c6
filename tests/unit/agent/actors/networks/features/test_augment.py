import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from torch import Generator, Tensor

from recollect.agent.actors import ActorPlan, OffPolicyActor
from recollect.agent.actors.networks.features.augment import RandomShift
from recollect.errors import ConfigError

PIXELS = 4
SHAPES = [(3, 40, 44), (40, 44, 3), (40, 44), (2, 3, 40, 44), (2, 40, 44, 3)]


def _space(*shape: int) -> Box:
    return Box(0, 255, shape, np.uint8)


def _images(num: int, *shape: int) -> Tensor:
    return torch.randint(0, 256, (num, *shape), generator=Generator().manual_seed(0)).to(torch.uint8)


def _shifted(image: Tensor, down: int, right: int) -> Tensor:
    """The slow way: an image `[height, width]` behind a border of repeated pixels, cut out again."""
    padded = torch.nn.functional.pad(image[None].float(), (PIXELS,) * 4, mode="replicate")[0]
    height, width = image.shape
    return padded[PIXELS + down : PIXELS + down + height, PIXELS + right : PIXELS + right + width].to(torch.uint8)


def _shift_of(image: Tensor, found: Tensor) -> tuple[int, int] | None:
    offsets = range(-PIXELS, PIXELS + 1)
    return next(((y, x) for y in offsets for x in offsets if torch.equal(_shifted(image, y, x), found)), None)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_row_is_shifted_as_a_whole_by_an_offset_of_its_own(shape: tuple[int, ...]) -> None:
    shift, images = RandomShift(_space(*shape), PIXELS), _images(12, *shape)
    kept = images.clone()
    assert shift(images) is images
    shift.begin(Generator().manual_seed(1))
    found = shift(images)
    assert torch.equal(images, kept)
    assert found.dtype is torch.uint8
    if shape[-1] == 3:
        images, found = images.movedim(-1, 1), found.movedim(-1, 1)
    planes, shifted = (values.reshape(12, -1, 40, 44) for values in (images, found))
    offsets = [{_shift_of(*pair) for pair in zip(planes[row], shifted[row], strict=True)} for row in range(12)]
    assert all(len(each) == 1 and None not in each for each in offsets)
    assert len({offset for each in offsets for offset in each}) > 6
    shift.end()
    assert shift(images) is images


def test_a_sequence_keeps_its_shift_and_other_parts_are_left_alone() -> None:
    space = Dict(image=_space(1, 40, 44), state=Box(-1, 1, (2,)))
    shift, frames, state = RandomShift(space, PIXELS), _images(2, 3, 1, 40, 44), torch.ones(2, 3, 2)
    shift.begin(Generator().manual_seed(3))
    # An update walks over the burn-in, then over the steps that it trains.
    found = [shift.shift_sequences({"image": frames[:, part], "state": state}) for part in (slice(2), slice(2, 3))]
    assert found[0]["state"] is state
    shifted = torch.cat([part["image"] for part in found], 1)
    for row in range(2):
        offsets = {_shift_of(frames[row, step, 0], shifted[row, step, 0]) for step in range(3)}
        assert len(offsets) == 1
        assert None not in offsets
    shift.end()
    shift.begin(Generator().manual_seed(4))
    assert not torch.equal(shift.shift_sequences({"image": frames, "state": state})["image"], shifted)


def test_images_are_shifted_in_learning_alone() -> None:
    space = _space(1, 40, 40)
    plan, options = ActorPlan(None, "q_values"), {"random_shift": 4, "hidden_sizes": ()}
    actor = OffPolicyActor.create_factory(space, Discrete(2), plan, **options)("cpu")  # type: ignore[arg-type]
    images, none = _images(3, 1, 40, 40), torch.zeros(3, 1)
    acted = [actor.encode(images, none, none)[0] for _ in range(2)]
    assert torch.equal(*acted)
    for target in (False, True):
        with actor.learning(Generator().manual_seed(1)):
            learned = [actor.encode(images, none, none, target=target)[0] for _ in range(2)]
        assert not torch.equal(*learned)


def test_shifts_need_images() -> None:
    with pytest.raises(ConfigError, match="have none"):
        RandomShift(Box(-1, 1, (3,)), 4)
