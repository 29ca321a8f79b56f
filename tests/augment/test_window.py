"""Windows against torchvision's crops."""

import pytest
import torch
from tests.augment.pictures import noise
from torchvision.transforms.v2 import RandomResizedCrop
from torchvision.transforms.v2 import functional as reference

from proco.augment import CentreWindow, RandomWindow
from proco.augment.choices import select
from proco.augment.window import Box
from proco.errors import ConfigError


@pytest.mark.parametrize(("height", "width"), [(32, 32), (48, 32), (375, 500)])
def test_random_boxes_are_distributed_as_torchvisions(height: int, width: int) -> None:
    size = 10_000
    window = RandomWindow()
    boxes = window.boxes(window.draw(size, torch.Generator().manual_seed(0)), height, width)
    torch.manual_seed(0)
    crop = RandomResizedCrop(32)
    image = torch.zeros(1, 1, 1).expand(3, height, width)
    theirs = [crop.make_params([image]) for _ in range(size)]
    for name in ("top", "left", "height", "width"):
        ours = getattr(boxes, name).double()
        other = torch.tensor([params[name] for params in theirs]).double()
        deviation = (ours.var() / size + other.var() / size).sqrt()
        assert (ours.mean() - other.mean()).abs() < 5 * deviation
        assert abs(ours.std() / other.std() - 1) < 0.04


def test_boxes_lie_inside_and_narrow_images_get_the_largest_box() -> None:
    window = RandomWindow()
    boxes = window.boxes(window.draw(5000, torch.Generator().manual_seed(1)), 20, 100)
    assert (boxes.top >= 0).all()
    assert (boxes.left >= 0).all()
    assert (boxes.top + boxes.height <= 20).all()
    assert (boxes.left + boxes.width <= 100).all()
    window = RandomWindow(scale=(1.0, 1.0))
    whole = window.boxes(window.draw(100, torch.Generator().manual_seed(1)), 20, 100)
    assert (whole.height == 20).all()
    assert (whole.width == 27).all()
    assert (whole.left == 36).all()


def test_area_and_aspect_lie_in_their_ranges() -> None:
    window = RandomWindow(scale=(0.2, 0.3), ratio=(1.0, 2.0))
    boxes = window.boxes(window.draw(2000, torch.Generator().manual_seed(1)), 1000, 1000)
    area = boxes.height * boxes.width / 1e6
    assert 0.199 < area.min() < area.max() < 0.301
    aspect = boxes.width / boxes.height
    assert 0.99 < aspect.min() < aspect.max() < 2.01


def test_the_largest_random_numbers_stay_inside() -> None:
    randoms = torch.full((1, 22), 1 - 2**-24)
    for side in (1, 3, 32, 224, 4001):
        box = RandomWindow(scale=(0.08, 0.08)).boxes(randoms, side, side)
        assert box.top + box.height <= side
        assert box.left + box.width <= side


def test_boxes_of_a_slice_are_a_slice_of_the_boxes() -> None:
    window = RandomWindow()
    randoms = window.draw(50, torch.Generator().manual_seed(0))
    whole = select(window.boxes(randoms, 40, 30), slice(7, 19))
    assert all(torch.equal(a, b) for a, b in zip(whole, window.boxes(randoms[7:19], 40, 30), strict=True))


@pytest.mark.parametrize(("height", "width"), [(256, 256), (256, 320), (512, 300)])
def test_centre_window_is_a_resize_and_a_centre_crop(height: int, width: int) -> None:
    window = CentreWindow(0.875)
    randoms = window.draw(2, torch.Generator())
    assert randoms.shape == (2, 0)
    top, left, box_height, box_width = (int(part[1]) for part in window.boxes(randoms, height, width))
    image = noise(1, 3, height, width)[0]
    cut = image[:, top : top + box_height, left : left + box_width]
    side = round(0.875 * min(height, width))
    assert torch.equal(cut, reference.center_crop(image, [side, side]))


def test_whole_square_image_is_the_default() -> None:
    assert [part.tolist() for part in CentreWindow().boxes(torch.empty(2, 0), 32, 32)] == [
        [0, 0],
        [0, 0],
        [32] * 2,
        [32] * 2,
    ]


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_share_is_checked(share: float) -> None:
    with pytest.raises(ConfigError, match=r"share must lie in \(0, 1\]"):
        CentreWindow(share)


@pytest.mark.parametrize("scale", [(0.5,), (0.0, 1.0), (0.8, 0.2), (0.5, 1.5)])
def test_scale_is_checked(scale: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="scale must be a pair of shares"):
        RandomWindow(scale=scale)
    with pytest.raises(ConfigError, match="ratio must be a pair"):
        RandomWindow(ratio=(2.0, 1.0))


def test_tall_images_get_the_largest_box() -> None:
    window = RandomWindow(scale=(1.0, 1.0))
    boxes = window.boxes(window.draw(100, torch.Generator().manual_seed(1)), 100, 20)
    assert [set(part.tolist()) for part in boxes] == [{36}, {0}, {27}, {20}]


def test_a_small_share_of_a_small_image_is_a_pixel() -> None:
    boxes = CentreWindow(0.1).boxes(torch.empty(1, 0), 3, 3)
    assert [part.tolist() for part in boxes] == [[1], [1], [1], [1]]


@pytest.mark.parametrize("ratio", [(0.0, 1.0), (-1.0, 1.0), (1.0,), (2.0, 1.0)])
def test_ratio_is_checked(ratio: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="ratio must be a pair"):
        RandomWindow(ratio=ratio)  # type: ignore[arg-type]


def numbers(box: Box, row: int = 0) -> list[int]:
    return [int(part[row]) for part in box]


@pytest.mark.parametrize(
    ("share", "height", "width", "expected"),
    [
        (0.875, 33, 40, [2, 5, 29, 29]),  # 28.9 pixels are 29, and of an odd rest less lies above and left
        (0.875, 32, 33, [2, 2, 28, 28]),
        (1.0, 5, 8, [0, 1, 5, 5]),
    ],
)
def test_centre_of_odd_sizes(share: float, height: int, width: int, expected: list[int]) -> None:
    assert numbers(CentreWindow(share).boxes(torch.empty(1, 0), height, width)) == expected


def test_sides_are_rounded() -> None:
    """An area of 0.5 of 9 x 9 pixels, square: 6.36 pixels; of 0.75: 7.79. The place is in the middle."""
    for share, side in ((0.5, 6), (0.75, 8)):
        box = RandomWindow(scale=(share, share), ratio=(1.0, 1.0)).boxes(torch.full((1, 22), 0.5), 9, 9)
        assert numbers(box)[2:] == [side, side]


def test_largest_box_keeps_to_either_end_of_the_ratio() -> None:
    window = RandomWindow(scale=(1.0, 1.0), ratio=(0.5, 3.0))
    randoms = window.draw(1, torch.Generator().manual_seed(0))
    assert numbers(window.boxes(randoms, 10, 100)) == [0, 35, 10, 30]
    assert numbers(window.boxes(randoms, 100, 10)) == [40, 0, 20, 10]


def test_tiny_images_have_boxes_of_a_pixel_at_least() -> None:
    window = RandomWindow(scale=(0.08, 0.08), ratio=(0.05, 20.0))
    boxes = window.boxes(window.draw(2000, torch.Generator().manual_seed(0)), 3, 3)
    assert boxes.height.min() == boxes.width.min() == 1
