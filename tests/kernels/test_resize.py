"""The kernel that cuts and resizes against torch's products and against torchvision; without a GPU interpreted."""

import pytest
import torch
import torchvision.transforms.v2.functional as reference
from torch import Tensor

pytest.importorskip("triton")

from proco.augment import geometric
from proco.kernels import resize

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Boxes = tuple[Tensor, Tensor, Tensor, Tensor]


def random_images(count: int, channels: int, height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    shape = (count, channels, height, width)
    return torch.randint(256, shape, generator=generator, dtype=torch.uint8).to(DEVICE)


def random_boxes(count: int, height: int, width: int) -> Boxes:
    """Among them the whole image and single pixels."""
    generator = torch.Generator().manual_seed(1)

    def parts(side: int) -> tuple[Tensor, Tensor]:
        extent = torch.randint(1, side + 1, (count,), generator=generator)
        extent[:2] = torch.tensor([side, 1])
        start = (torch.rand(count, generator=generator) * (side + 1 - extent)).long()
        return start.to(DEVICE), extent.to(DEVICE)

    (top, box_height), (left, box_width) = parts(height), parts(width)
    return top, left, box_height, box_width


@pytest.fixture
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometric, "kernels_run_on", lambda device: False)


@pytest.mark.parametrize(
    ("channels", "sides", "size"),
    [
        (3, (32, 32), (32, 32)),
        (1, (28, 28), (32, 32)),
        (3, (17, 24), (10, 31)),
        (3, (64, 40), (8, 8)),
        (4, (5, 3), (20, 33)),
    ],
)
@pytest.mark.usefixtures("without_kernel")
def test_boxes_are_resized_as_by_torch_and_torchvision(
    channels: int, sides: tuple[int, int], size: tuple[int, int]
) -> None:
    images, boxes = random_images(12, channels, *sides), random_boxes(12, *sides)
    found = resize.resized_crop(images, *boxes, size)
    assert found.shape == (12, channels, *size)
    by_torch = geometric.resized_crop(images, *boxes, size)
    numbers = zip(images.cpu(), *(part.tolist() for part in boxes), strict=True)
    by_torchvision = [reference.resized_crop(image, t, f, h, w, list(size)) for image, t, f, h, w in numbers]
    # Sums in another order, and torchvision's in fixed point: a value between two grey levels may fall either way.
    for expected, share in ((by_torch.cpu(), 5e-3), (torch.stack(by_torchvision), 0.02)):
        difference = (found.cpu().int() - expected.int()).abs()
        assert difference.max() <= 1
        assert (difference > 0).double().mean() < share


def test_whole_image_at_its_own_size_is_unchanged() -> None:
    images = random_images(3, 3, 20, 32)
    zero = torch.zeros(3, dtype=torch.int64, device=DEVICE)
    assert torch.equal(resize.resized_crop(images, zero, zero, zero + 20, zero + 32, (20, 32)), images)


def test_images_that_lie_otherwise_in_memory() -> None:
    images, boxes = random_images(4, 3, 16, 20), random_boxes(4, 16, 20)
    turned = images.contiguous(memory_format=torch.channels_last)
    expected = resize.resized_crop(images, *boxes, (16, 16))
    assert torch.equal(resize.resized_crop(turned, *boxes, (16, 16)), expected)
    columns = torch.stack(boxes, dim=1).unbind(dim=1)
    assert torch.equal(resize.resized_crop(images, *columns, (16, 16)), expected)


def test_which_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel for small images where Triton works, and then without scratch memory."""
    sizes = []
    original = resize.resized_crop

    def counted(images: Tensor, *rest: Tensor) -> Tensor:
        sizes.append(images.shape[3])
        return original(images, *rest)

    monkeypatch.setattr(resize, "resized_crop", counted)
    for works, side, by_kernel in ((True, 20, True), (True, 80, False), (False, 20, False)):
        monkeypatch.setattr(geometric, "kernels_run_on", lambda device, works=works: works)
        sizes.clear()
        images, boxes = random_images(2, 3, side, side), random_boxes(2, side, side)
        assert geometric.resized_crop(images, *boxes, (16, 16)).shape == (2, 3, 16, 16)
        assert (sizes == [side]) == by_kernel
        assert (geometric.resize_scratch_bytes(images.shape, (16, 16), DEVICE) == 0) == by_kernel
