"""Windows of files are those of Pillow, torchvision and arrays; files that go bad are grey and on record."""

import os
import random
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.cuts import by_torchvision, difference, drawn, random_pixels
from torch import Tensor

from proco.augment.window import Box, CentreWindow, RandomWindow
from proco.data import file_images
from proco.data.array_images import ArrayImages
from proco.data.decode import read_image
from proco.data.file_images import FileImages
from proco.data.images import Cut
from proco.errors import DataError

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([10] * 19, [8, 8, 3]),
        ([2**22] * 3, [1, 1, 1]),
        ([2**21, 2**21, 1, 1, 2**23, 1], [2, 2, 1, 1]),
        ([2**30], [1]),
    ],
)
def test_few_large_files_are_decoded_in_one_go(sizes: list[int], expected: list[int]) -> None:
    groups = file_images._groups(sizes)
    assert [len(group) for group in groups] == expected
    assert [row for group in groups for row in group] == list(range(len(sizes)))


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    """Files of several sizes and formats."""
    sizes = [(40, 30), (9, 64), (21, 20), (33, 33)]
    paths = []
    for number in range(12):
        width, height = sizes[number % len(sizes)]
        pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
        paths.append(tmp_path / f"photo {number}.{('jpg', 'png', 'bmp')[number % 3]}")
        Image.fromarray(pixels).save(paths[-1])
    return paths


def test_file_cuts_are_those_done_by_hand(photos: list[Path], device: torch.device) -> None:
    positions = torch.tensor([11, 2, 5, 2, 0])
    cuts = [drawn(RandomWindow(), 5), drawn(CentreWindow(0.875), 5)]
    results = FileImages(photos).cut(positions, cuts, (14, 16), device)
    for cut, result in zip(cuts, results, strict=True):
        assert result.shape == (5, 3, 14, 16)
        assert result.device.type == device.type
        for row, position in enumerate(positions):
            with Image.open(photos[position]) as image:
                image.load()
            top, left, height, width = map(int, cut.window.boxes(cut.randoms[row : row + 1], image.height, image.width))
            cropped = image.crop((left, top, left + width, top + height))
            by_hand = cropped.resize((16, 14), Image.Resampling.BILINEAR)
            assert difference(result[row].cpu(), torch.from_numpy(np.array(by_hand)).permute(2, 0, 1)) <= 1
            box = Box(*(torch.tensor([side]) for side in (top, left, height, width)))
            assert difference(result[row].cpu(), by_torchvision(read_image(photos[position]), box, 0, (14, 16))) <= 1


def test_files_and_arrays_cut_alike(tmp_path: Path) -> None:
    pixels = random_pixels(6, 20, 20)
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for path, image in zip(paths, pixels, strict=True):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    positions, cuts = torch.tensor([5, 0, 3]), [drawn(RandomWindow(), 3), drawn(CentreWindow(), 3)]
    from_files = FileImages(paths).cut(positions, cuts, (8, 8), CPU)
    from_array = ArrayImages(pixels).cut(positions, cuts, (8, 8), CPU)
    assert all(difference(*pair) <= 1 for pair in zip(from_files, from_array, strict=True))


def test_each_file_is_decoded_once_and_threads_do_not_mix_rows(
    photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    cuts = [drawn(RandomWindow(), 12), drawn(RandomWindow(scale=(0.5, 1.0)), 12)]
    expected = FileImages(photos).cut(positions, cuts, (6, 6), CPU)
    decoded = []

    def slow_read(path: Path) -> Tensor:
        time.sleep(random.random() / 100)
        decoded.append(path)
        return read_image(path)

    monkeypatch.setattr(file_images, "read_image", slow_read)
    results = FileImages(photos).cut(positions, cuts, (6, 6), CPU)
    assert sorted(decoded) == sorted(photos)
    assert all(map(torch.equal, results, expected))


def test_files_that_go_bad_become_grey_and_are_recorded(photos: list[Path]) -> None:
    images = FileImages(photos)
    cuts = [drawn(RandomWindow(), 12), drawn(CentreWindow(), 12)]
    expected = images.cut(torch.arange(12), cuts, (5, 5), CPU)
    assert images.warnings == ()
    photos[4].unlink()
    photos[7].write_bytes(photos[7].read_bytes()[:100])
    for result, before in zip(images.cut(torch.arange(12), cuts, (5, 5), CPU), expected, strict=True):
        assert (result[[4, 7]] == 128).all()
        good = [row for row in range(12) if row not in (4, 7)]
        assert torch.equal(result[good], before[good])
    images.cut(torch.arange(12), cuts, (5, 5), CPU)
    assert list(images.bad_files) == [photos[4], photos[7]]
    (warning,) = images.warnings
    assert warning.startswith("2 of 12 image files could not be read and were replaced by grey: ")
    assert "photo 4.png (no such file or directory)" in warning
    assert images.subset(torch.tensor([0, 4])).warnings == ()


def test_a_lost_disk_is_told_from_bad_files(photos: list[Path], tmp_path: Path) -> None:
    missing = [tmp_path / f"missing {number}.jpg" for number in range(13)]
    few = torch.arange(12, 24)
    # Twelve missing files, but too few to judge by.
    FileImages([*photos, *missing]).cut(few, [], (4, 4), CPU)
    with pytest.raises(
        DataError, match=r"13 of 25 image files cannot be read: .* and 10 more\. Is the disk still there"
    ):
        FileImages([*photos, *missing]).cut(torch.arange(25), [], (4, 4), CPU)
    # The same file many times over is one file.
    FileImages(missing).cut(torch.zeros(30, dtype=torch.int64), [], (4, 4), CPU)


def test_other_errors_are_not_taken_for_bad_files(photos: list[Path]) -> None:
    class Broken(CentreWindow):
        def boxes(self, randoms: Tensor, height: int, width: int) -> Box:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        FileImages(photos).cut(torch.arange(3), [drawn(Broken(), 3)], (4, 4), CPU)


def test_file_subset_and_properties(photos: list[Path]) -> None:
    images = FileImages(photos)
    assert (len(images), images.channels, images.common_size) == (12, 3, None)
    assert images.to(CPU) is images
    assert images.subset(torch.tensor([5, 1])).paths == (photos[5], photos[1])


def test_fingerprint_of_files_is_of_names_and_order() -> None:
    names = ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg"]

    def fingerprint(root: str, order: list[int]) -> bytes:
        return FileImages([Path(root, names[i]) for i in order]).fingerprint

    assert fingerprint("here", [0, 1, 2]) == fingerprint("moved/elsewhere", [0, 1, 2])
    names[0] = os.fsdecode(b"caf\xe9.png")  # not UTF-8
    assert len({fingerprint("here", order) for order in ([0, 1, 2], [1, 0, 2], [0, 2], [0, 1, 1])}) == 4


def test_every_file_of_a_large_batch_has_its_own_window(tmp_path: Path) -> None:
    """More files than a thread decodes in one go, all of one size, and in an array."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (30, 3, 20, 20), dtype=torch.uint8, generator=generator)
    paths = [tmp_path / f"{number}.png" for number in range(30)]
    for path, image in zip(paths, pixels, strict=True):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    positions, window = torch.randperm(30, generator=generator), RandomWindow()
    cut = Cut(window, window.draw(30, generator))
    (from_files,) = FileImages(paths).cut(positions, [cut], (8, 8), CPU)
    (from_array,) = ArrayImages(pixels).cut(positions, [cut], (8, 8), CPU)
    assert (from_files.int() - from_array.int()).abs().max() <= 1


def test_files_that_went_bad_stay_on_record(photos: list[Path]) -> None:
    images = FileImages(photos)
    photos[4].unlink()
    images.cut(torch.arange(6), [], (5, 5), CPU)
    images.cut(torch.arange(6, 12), [], (5, 5), CPU)
    photos[7].unlink()
    images.cut(torch.arange(6, 12), [], (5, 5), CPU)
    assert list(images.bad_files) == [photos[4], photos[7]]


def test_half_of_the_files_may_go_bad(tmp_path: Path, photos: list[Path]) -> None:
    missing = [tmp_path / f"missing {number}.jpg" for number in range(9)]
    FileImages([*photos[:8], *missing[:8]]).cut(torch.arange(16), [], (4, 4), CPU)  # half, not more
    with pytest.raises(DataError, match="9 of 16 image files cannot be read"):  # sixteen are enough to judge by
        FileImages([*photos[:7], *missing]).cut(torch.arange(16), [], (4, 4), CPU)


def test_fingerprint_of_files_sees_that_one_was_exchanged(tmp_path: Path) -> None:
    file = tmp_path / "1.jpg"
    file.write_bytes(b"a picture")
    before = FileImages([file]).fingerprint
    file.write_bytes(b"another picture")
    assert FileImages([file]).fingerprint != before


def test_fingerprint_of_files_sees_their_folders() -> None:
    one, other = (FileImages([Path("root", name, "1.jpg")]).fingerprint for name in ("cat", "dog"))
    assert one != other


def test_files_are_known_again_by_what_is_in_them(tmp_path: Path) -> None:
    """Not by their names, which splits have in common, nor by their sizes, which all are alike in some formats."""
    contents = {"train/a/1.bmp": b"a" * 40_000, "test/a/1.bmp": b"a" * 39_999 + b"b", "moved.bmp": b"a" * 40_000}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    names = [*contents, "gone.bmp", "also gone.bmp"]
    train, test, moved, *gone = FileImages([tmp_path / name for name in names]).identities.tolist()
    assert train == moved != test
    assert len({train, test, *gone}) == 4
