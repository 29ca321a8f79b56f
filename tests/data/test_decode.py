"""Decoding: every kind of file against Pillow by hand, and every kind of broken file."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from proco.data.decode import find_bad_images, in_threads, read_image, set_decode_threads
from proco.errors import DataError

RGB = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


def as_array(path: Path) -> NDArray[np.uint8]:
    image = read_image(path)
    assert image.dtype == torch.uint8
    return image.permute(1, 2, 0).numpy()


def by_pillow(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "LA", "RGBA"])
def test_modes_of_png_become_rgb(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    Image.fromarray(RGB).convert(mode).save(path)
    expected = Image.fromarray(RGB).convert(mode).convert("RGB")
    assert np.array_equal(as_array(path), np.asarray(expected))


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "gif", "webp", "tiff", "ppm"])
def test_formats_are_decoded(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"image.{suffix}"
    Image.fromarray(RGB).save(path)
    assert np.array_equal(as_array(path), by_pillow(path))


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_modes_of_jpeg_become_rgb(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    Image.fromarray(RGB).convert(mode).save(path)
    assert np.array_equal(as_array(path), by_pillow(path))


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bits_are_scaled_not_cut_off(suffix: str, tmp_path: Path) -> None:
    grey = RGB[:, :, 0]
    Image.fromarray(grey.astype(np.uint16) * 256 + 99).save(tmp_path / f"deep.{suffix}")
    assert np.array_equal(as_array(tmp_path / f"deep.{suffix}"), np.repeat(grey[:, :, None], 3, axis=2))


def test_transparent_pixels_keep_their_colour(tmp_path: Path) -> None:
    for suffix in ("png", "gif"):
        palette = Image.fromarray(RGB).quantize(16)
        palette.save(tmp_path / f"clear.{suffix}", transparency=3)
        assert np.array_equal(as_array(tmp_path / f"clear.{suffix}"), np.asarray(palette.convert("RGB")))


def test_first_frame_of_an_animation_is_taken(tmp_path: Path) -> None:
    frames = [Image.fromarray(np.full((5, 7, 3), value, dtype=np.uint8)) for value in (10, 200)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert (as_array(tmp_path / "moving.gif") == 10).all()


@pytest.mark.parametrize("suffix", ["jpg", "png", "tiff", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_respected(orientation: int, suffix: str, tmp_path: Path) -> None:
    # Half black, half white along both sides, so that JPEG's rounding does not hide a wrong turn.
    pixels = np.zeros((16, 32, 3), dtype=np.uint8)
    pixels[:8, :16] = 255
    upright = Image.fromarray(pixels)
    stored = {  # how a camera held that way stores the picture: the inverse of the turn that EXIF asks for
        1: upright,
        2: upright.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: upright.rotate(180),
        4: upright.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: upright.transpose(Image.Transpose.TRANSPOSE),
        6: upright.transpose(Image.Transpose.ROTATE_90),
        7: upright.transpose(Image.Transpose.TRANSVERSE),
        8: upright.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / f"image.{suffix}", exif=exif)
    decoded = as_array(tmp_path / f"image.{suffix}")
    assert decoded.shape == pixels.shape
    assert np.abs(decoded.astype(int) - pixels).max() < 30


def test_damaged_exif_does_not_cost_the_pixels(tmp_path: Path) -> None:
    pixels = Image.fromarray(np.full((5, 7, 3), 99, dtype=np.uint8))
    pixels.save(tmp_path / "image.webp", lossless=True, exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12")
    assert (read_image(tmp_path / "image.webp") == 99).all()


def test_names_with_spaces_and_letters_of_all_kinds(tmp_path: Path) -> None:
    path = tmp_path / "déjà vu, 写真 🙂.png"
    Image.fromarray(RGB).save(path)
    assert np.array_equal(as_array(path), RGB)


def test_content_counts_and_not_the_suffix(tmp_path: Path) -> None:
    Image.fromarray(RGB).save(tmp_path / "image.bmp")
    (tmp_path / "image.bmp").rename(tmp_path / "image.jpg")
    assert np.array_equal(as_array(tmp_path / "image.jpg"), RGB)


def broken_files(folder: Path) -> list[Path]:
    """Files that cannot be decoded, each in its own way."""
    for suffix in ("jpg", "png", "webp"):
        Image.fromarray(np.tile(RGB, (20, 20, 1))).save(folder / f"good.{suffix}")
        content = (folder / f"good.{suffix}").read_bytes()
        (folder / f"half.{suffix}").write_bytes(content[: len(content) // 2])
        (folder / f"head.{suffix}").write_bytes(content[:20])
    damaged = bytearray((folder / "good.png").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (folder / "damaged.png").write_bytes(damaged)
    (folder / "empty.jpg").touch()
    (folder / "text.jpg").write_text("<html>404</html>")
    (folder / "folder.jpg").mkdir()
    names = ["half.jpg", "head.jpg", "half.png", "head.png", "half.webp", "head.webp", "damaged.png"]
    return [folder / name for name in [*names, "empty.jpg", "text.jpg", "folder.jpg", "missing.jpg", "nul\0.jpg"]]


def test_broken_files_say_what_is_wrong(tmp_path: Path) -> None:
    for path in broken_files(tmp_path):
        with pytest.raises(DataError):
            read_image(path)
    for name, reason in {
        "missing.jpg": "no such file",
        "empty.jpg": "the file is empty",
        "text.jpg": "not an image that can be decoded: unknown or damaged format$",
        "half.png": "truncated",
        "half.jpg": "truncated",
        "folder.jpg": "is a directory",
    }.items():
        with pytest.raises(DataError, match=reason):
            read_image(tmp_path / name)


def test_pixels_without_a_range_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.ones((4, 4), dtype=np.float32)).save(tmp_path / "float.tiff")
    with pytest.raises(DataError, match="32 bits"):
        read_image(tmp_path / "float.tiff")


def test_bad_images_are_found_among_good_ones(tmp_path: Path) -> None:
    bad = broken_files(tmp_path)
    good = [tmp_path / f"good.{suffix}" for suffix in ("jpg", "png", "webp")]
    calls: list[tuple[int, int]] = []
    found = find_bad_images([good[0], *bad, *good[1:]], lambda done, total: calls.append((done, total)))
    assert list(found) == list(range(1, len(bad) + 1))
    assert found[len(bad) - 1] == "no such file or directory"
    assert calls == [(number, len(bad) + 3) for number in range(1, len(bad) + 4)]
    assert find_bad_images([]) == {}


def test_results_keep_their_order_and_few_are_held() -> None:
    started: list[int] = []

    def slow(number: int) -> int:
        started.append(number)
        time.sleep(random.random() / 200)
        return number**2

    set_decode_threads(3)
    try:
        results = in_threads(slow, iter(range(40)))
        assert [next(results) for _ in range(10)] == [number**2 for number in range(10)]
        assert len(started) <= 10 + 2 * 3
        assert list(results) == [number**2 for number in range(10, 40)]
    finally:
        set_decode_threads(0)


def test_errors_in_threads_arrive() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda number: 1 // number, [1, 0]))


def test_decoding_threads_work_alone_and_others_do_not() -> None:
    outside = torch.get_num_threads()
    torch.set_num_threads(2)
    set_decode_threads(3)
    try:
        assert set(in_threads(lambda _: torch.get_num_threads(), range(30))) == {1}
        with ThreadPoolExecutor(1) as other:
            assert other.submit(torch.get_num_threads).result() == torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(outside)
        set_decode_threads(0)


def test_number_of_threads_is_a_setting() -> None:
    barrier = threading.Barrier(5)
    set_decode_threads(5)
    try:
        assert len(set(in_threads(lambda _: barrier.wait(timeout=10), range(5)))) == 5  # none passes alone
    finally:
        set_decode_threads(0)
    with pytest.raises(DataError, match="got -1"):
        set_decode_threads(-1)
