"""Image files to pixels: one at a time, or all of them to see which cannot be read.

What a file looks like decides how it is decoded, not its name: JPEG and PNG by torchvision, anything else by Pillow.
Every image becomes RGB: grey is repeated, palettes are looked up, 16 bits become 8, transparency is dropped (the
colours below it stay), of an animation the first frame is taken. An image is turned as its EXIF orientation says.
"""

import io
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proco.errors import DataError

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[int, int], None]
"""Called with how many files are done and how many there are."""

_TORCHVISION_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG")


def read_image(path: Path) -> Tensor:
    """Return the image as uint8 (3, H, W), or raise a DataError that says why it cannot be read.

    The channels of a pixel lie side by side in memory, as they do in files: resizing is faster so.
    The message is the reason alone ("the file is empty"): the caller knows the file.
    """
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise DataError((error.strerror or str(error)).lower()) from error
    except ValueError as error:  # a name that no file can have
        raise DataError(str(error)) from error
    if not len(content):
        raise DataError("the file is empty")
    try:
        return _decode(content)
    except Exception as error:  # broken files raise almost anything: OSError, SyntaxError, struct.error, ...
        raise DataError(f"not an image that can be decoded: {' '.join(str(error).split())}") from error


def find_bad_images(paths: Sequence[Path], progress: Progress | None = None) -> dict[int, str]:
    """Decode every file, in threads, and return the positions of those that cannot be read, with the reason."""
    bad = {}
    for position, reason in enumerate(in_threads(_reason_against, paths)):
        if reason is not None:
            bad[position] = reason
        if progress is not None:
            progress(position + 1, len(paths))
    return bad


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield function(item) for each item, in the order of the items, computed by the threads that decode images.

    Twice as many items as there are threads are under way at a time: a million results need not be held at once.
    """
    pool = _pool()
    under_way: deque[Future[R]] = deque()
    for item in items:
        under_way.append(pool.executor.submit(function, item))
        if len(under_way) >= 2 * pool.num_threads:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


def set_decode_threads(count: int) -> None:
    """Let count threads decode images from now on, in the whole process; 0 takes one per core this process may use."""
    if count < 0:
        raise DataError(f"the number of decoding threads must not be negative; got {count}. 0 takes one per core.")
    global _wanted_threads
    _wanted_threads = count


class _Pool(NamedTuple):
    executor: ThreadPoolExecutor
    num_threads: int


# One for the process, so that several sets of files do not crowd the cores; a pool that was replaced ends by itself.
_current_pool: _Pool | None = None
_wanted_threads = 0
_pool_lock = threading.Lock()


def _pool() -> _Pool:
    global _current_pool
    with _pool_lock:
        num_threads = _wanted_threads or _available_cores()
        if _current_pool is None or _current_pool.num_threads != num_threads:
            _current_pool = _start_pool(num_threads)
        return _current_pool


def _start_pool(num_threads: int) -> _Pool:
    # Each thread is to work alone: torch would share out every small operation of each of them over all cores. The
    # number it is told holds for the thread that tells it and for those that start later, so all are started, and then
    # the old number is told again.
    outside = torch.get_num_threads()
    executor = ThreadPoolExecutor(num_threads, "decode", initializer=_work_alone)
    all_started = threading.Barrier(num_threads)
    for future in [executor.submit(all_started.wait) for _ in range(num_threads)]:
        future.result()
    torch.set_num_threads(outside)
    return _Pool(executor, num_threads)


def _work_alone() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread takes the number over when it first asks for it


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reason_against(path: Path) -> str | None:
    try:
        read_image(path)
    except DataError as error:
        return str(error)
    return None


def _decode(content: NDArray[np.uint8]) -> Tensor:
    if content[:4].tobytes().startswith(_TORCHVISION_SIGNATURES):
        try:
            return _decode_by_torchvision(content)
        except RuntimeError:
            pass  # Pillow knows a few more variants, and says better what is wrong
    return _decode_by_pillow(content)


def _decode_by_torchvision(content: NDArray[np.uint8]) -> Tensor:
    from torchvision.io import decode_image  # type: ignore[import-untyped]

    pixels: Tensor = decode_image(torch.from_numpy(content), mode="RGB", apply_exif_orientation=True)
    return pixels if pixels.dtype == torch.uint8 else (pixels.to(torch.int32) >> 8).to(torch.uint8)


def _decode_by_pillow(content: NDArray[np.uint8]) -> Tensor:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        opened = Image.open(io.BytesIO(content.tobytes()))
    except UnidentifiedImageError as error:
        raise DataError("unknown or damaged format") from error  # Pillow's words name an address in memory
    with opened:
        opened.load()  # here, where damaged pixels are refused
        image: Any = opened
        with suppress(Exception):  # damaged notes about the image raise almost anything; the pixels are whole
            image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I;16"):
            # Pillow's own conversion would cut off at 255 instead of scaling.
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        elif image.mode in ("I", "F"):
            raise DataError(
                "pixels whose range is not known, of 32 bits or 16 in a PGM; save the image as PNG with 8 or 16 bits"
            )
        elif "transparency" in image.info:
            image = image.convert("RGBA")  # Pillow warns where this step is left out
        pixels = np.array(image.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)
