"""Windows of arrays are those of torchvision, image by image."""

import warnings

import pytest
import torch
from tests.data.cuts import by_torchvision, difference, drawn, random_pixels
from torch import Tensor

from proco.augment.geometric import resize_scratch_bytes
from proco.augment.window import CentreWindow, RandomWindow
from proco.data import array_images
from proco.data.array_images import ArrayImages
from proco.data.images import Cut
from proco.errors import DataError

CPU = torch.device("cpu")


@pytest.mark.parametrize("channels", [1, 3])
def test_array_cuts_are_torchvisions(channels: int, device: torch.device) -> None:
    pixels = random_pixels(20, 12, 15, channels)
    positions = torch.tensor([3, 19, 0, 3, 7])
    cuts = [drawn(RandomWindow(), 5), drawn(CentreWindow(0.5), 5)]
    results = ArrayImages(pixels).to(device).cut(positions, cuts, (10, 9), device)
    for cut, result in zip(cuts, results, strict=True):
        assert result.shape == (5, channels, 10, 9)
        assert result.dtype == torch.uint8
        assert result.device.type == device.type
        box = cut.window.boxes(cut.randoms, 12, 15)
        for row, position in enumerate(positions):
            assert difference(result[row].cpu(), by_torchvision(pixels[position], box, row, (10, 9))) <= 1


def test_array_on_the_cpu_is_cut_on_the_device(device: torch.device) -> None:
    images = ArrayImages(random_pixels(8, 6, 6))
    positions, cut = torch.tensor([5, 1]), drawn(RandomWindow(), 2)
    (result,) = images.cut(positions, [cut], (4, 4), device)
    (expected,) = images.to(device).cut(positions.to(device), [Cut(cut.window, cut.randoms.to(device))], (4, 4), device)
    assert result.device.type == device.type
    assert torch.equal(result, expected)


def test_whole_and_centred_windows_of_the_right_size_are_only_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_images, "resized_crop", None)  # calling it would raise
    pixels = random_pixels(6, 8, 8)
    positions = torch.tensor([4, 4, 1])
    whole, again = ArrayImages(pixels).cut(positions, [drawn(CentreWindow(), 3)] * 2, (8, 8), CPU)
    assert torch.equal(whole, pixels[positions])
    assert torch.equal(again, pixels[positions])
    (centre,) = ArrayImages(pixels).cut(positions, [drawn(CentreWindow(0.5), 3)], (4, 4), CPU)
    assert torch.equal(centre, pixels[positions, :, 2:6, 2:6])


def test_indexing_gives_what_resizing_would() -> None:
    class WholeByChance(CentreWindow):
        """The same boxes, but with a random number that hides it."""

        def draw(self, size: int, generator: torch.Generator) -> Tensor:
            return torch.rand(size, 1, generator=generator)

    images, positions = ArrayImages(random_pixels(6, 8, 8)), torch.arange(6)
    plain, resized = images.cut(positions, [drawn(CentreWindow(), 6), drawn(WholeByChance(), 6)], (8, 8), CPU)
    assert torch.equal(plain, resized)


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    images, positions = ArrayImages(random_pixels(30, 8, 8)), torch.randperm(30)
    cuts = [drawn(RandomWindow(), 30), drawn(CentreWindow(), 30)]
    expected = images.cut(positions, cuts, (8, 8), CPU)
    sizes = []
    original = array_images.resized_crop

    def counted(pixels: Tensor, *box: Tensor) -> Tensor:
        sizes.append(len(pixels))
        return original(pixels, *box)

    monkeypatch.setattr(array_images, "resized_crop", counted)
    monkeypatch.setattr(array_images, "_SCRATCH_BYTES", resize_scratch_bytes(torch.Size([7, 3, 8, 8]), (8, 8), CPU))
    results = images.cut(positions, cuts, (8, 8), CPU)
    assert sizes == [7, 7, 7, 7, 2]
    assert all(map(torch.equal, results, expected))


def test_no_positions_give_no_images() -> None:
    (result,) = ArrayImages(random_pixels(3, 4, 4)).cut(
        torch.empty(0, dtype=torch.int64), [drawn(RandomWindow(), 0)], (5, 5), CPU
    )
    assert result.shape == (0, 3, 5, 5)


def test_cutting_on_a_gpu_does_not_wait_for_it(device: torch.device) -> None:
    if device.type != "cuda":
        pytest.skip("there is no CUDA device")
    images = ArrayImages(random_pixels(50, 8, 8)).to(device)
    cuts = [Cut(cut.window, cut.randoms.to(device)) for cut in (drawn(RandomWindow(), 9), drawn(CentreWindow(), 9))]
    positions = torch.arange(9, device=device)
    images.cut(positions, cuts, (8, 8), device)  # the libraries of the device set themselves up
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it does not detect everything
        torch.cuda.set_sync_debug_mode("error")
        try:
            images.cut(positions, cuts, (8, 8), device)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_array_subset_and_properties() -> None:
    pixels = random_pixels(5, 4, 6, channels=1)
    images = ArrayImages(pixels)
    assert (len(images), images.channels, images.common_size, images.warnings) == (5, 1, (4, 6), ())
    assert torch.equal(images.subset(torch.tensor([4, 0])).pixels, pixels[[4, 0]])
    with pytest.raises(DataError, match=r"got torch.float32 of shape \(5, 4\)"):
        ArrayImages(torch.zeros(5, 4))
