"""Views per second, beside torchvision's on one core of the CPU and the network that is trained on them.

    python -m benchmarks.augment [--images 10752] [--block N] [--views auto sim ...] [--json FILE]

A view is whole: choices drawn on the CPU, the window cut and resized, augmented, normalised to bfloat16 (on a CPU
float32) in channels-last order. Images are 32 x 32 pixels in colour and lie on the device. "block" is how many are
worked on at a time: on a CPU, what fits its caches.

torchvision's transforms get one Pillow image at a time, as in a worker of a loader. Their RandAugment is not the one of
`rand` and `strong`, but much like it. "network" is forward and backward of ResNet-32 for three views of each image of a
batch; "share" is the time of a view to that of the network for it.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchvision.transforms import AutoAugmentPolicy, v2

from benchmarks.measure import add_json_option, default_device, interleaved_ms, report
from proco.augment import View, geometric, select, to_device
from proco.models.resnet_small import resnet32

SIDE = 32
NUM_CLASSES = 100
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
VIEWS = ["weak", "auto", "sim", "rand", "strong"]
CPU = torch.device("cpu")


def pictures(count: int) -> Tensor:
    """Colours that change slowly, with noise: equalising and sharpening have something to do."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, size=SIDE, mode="bilinear")
    noise = 0.1 * torch.rand(count, 3, SIDE, SIDE, generator=generator)
    return ((smooth + noise).clamp(0, 1) * 255).to(torch.uint8)


def make_views(view: View, images: Tensor, block: int) -> Callable[[], list[Tensor]]:
    """Return what makes a view of every image, block by block."""
    generator = torch.Generator().manual_seed(0)
    device, dtype = images.device, torch.float32 if images.device.type == "cpu" else torch.bfloat16
    mean, scale = (
        torch.tensor(values, device=device, dtype=dtype).view(3, 1, 1)
        for values in ([255 * m for m in MEAN], [1 / (255 * s) for s in STD])
    )

    def run() -> list[Tensor]:
        randoms, choices = view.window.draw(len(images), generator), view.draw(len(images), generator)
        made = []
        for start in range(0, len(images), block):
            part = slice(start, start + block)
            views = images[part]
            if randoms.shape[1]:  # else the window is the whole image
                boxes = view.window.boxes(to_device(randoms[part], device), SIDE, SIDE)
                views = geometric.resized_crop(views, *boxes, (SIDE, SIDE))
            views = view.apply(views, to_device(select(choices, part), device))
            made.append(views.to(dtype, memory_format=torch.channels_last).sub_(mean).mul_(scale))
        return made

    return run


def torchvision_transform(name: str) -> v2.Transform:
    flip = v2.RandomHorizontalFlip()
    hole = v2.RandomErasing(p=1.0, scale=(0.25, 0.25), ratio=(1.0, 1.0))  # a square of half the side
    jitter = v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    before, after = {
        "weak": ([v2.RandomCrop(SIDE, padding=4), flip], []),
        "auto": ([v2.RandomCrop(SIDE, padding=4), flip, v2.AutoAugment(AutoAugmentPolicy.CIFAR10)], [hole]),
        "sim": ([v2.RandomResizedCrop(SIDE), flip, jitter, v2.RandomGrayscale(0.2)], []),
        "rand": ([v2.RandomResizedCrop(SIDE), flip, v2.ColorJitter(0.4, 0.4, 0.4), v2.RandAugment()], []),
        "strong": ([v2.RandomCrop(SIDE, padding=4, padding_mode="reflect"), flip, v2.RandAugment()], [hole]),
    }[name]
    to_float = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose([*before, *to_float, *after, v2.Normalize(MEAN, STD)])


def torchvision_views_per_second(names: list[str], images: Tensor) -> dict[str, float]:
    files = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]

    def run(transform: v2.Transform) -> Callable[[], list[Tensor]]:
        return lambda: [transform(file) for file in files]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = interleaved_ms({name: run(torchvision_transform(name)) for name in names}, CPU, seconds=1.0, rounds=3)
    finally:
        torch.set_num_threads(threads)
    return {name: 1e3 * len(files) / ms for name, ms in times.items()}


def network_step(num_views: int, mode: str, device: torch.device) -> Callable[[], None]:
    """Return forward and backward of ResNet-32 with a linear classifier."""
    network = nn.Sequential(resnet32(), nn.Linear(64, NUM_CLASSES)).to(device, memory_format=torch.channels_last)
    images = torch.randn(num_views, 3, SIDE, SIDE, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(NUM_CLASSES, (num_views,), device=device)

    def loss_of(images: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu"):
            return cross_entropy(network(images).float(), labels)

    if mode != "eager":
        loss_of = torch.compile(loss_of)

    def step() -> None:
        network.zero_grad(set_to_none=True)
        loss_of(images).backward()

    step()  # compile and warm up
    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    device = default_device()
    on_cpu = device.type == "cpu"
    parser.add_argument("--images", type=int, default=10_752, metavar="N")
    parser.add_argument("--block", type=int, default=512 if on_cpu else None, help="images worked on at a time")
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=VIEWS)
    parser.add_argument("--batch", type=int, default=32 if on_cpu else 256, help="images of a training step")
    parser.add_argument("--reference", type=int, default=200, help="images that torchvision transforms")
    parser.add_argument("--seconds", type=float, default=10.0, help="about how long to measure")
    parser.add_argument(
        "--mode", choices=["default", "eager"], default="eager" if on_cpu else "default", help="compile the network"
    )
    add_json_option(parser)
    options = parser.parse_args()

    images = pictures(options.images)
    theirs = torchvision_views_per_second(options.views, images[: options.reference])
    num_views = 3 * options.batch
    contenders: dict[str, Callable[[], Any]] = {
        name: make_views(View.registry[name](), images.to(device), options.block or options.images)
        for name in options.views
    }
    for run in contenders.values():
        run()  # warm up
    contenders["network"] = network_step(num_views, options.mode, device)
    times = interleaved_ms(contenders, device, seconds=options.seconds)
    network = 1e3 * num_views / times["network"]
    ours = {name: 1e3 * options.images / times[name] for name in options.views}
    rows = [
        {
            "view": name,
            "N": options.images,
            "ms": times[name],
            "views/s": ours[name],
            "torchvision views/s": theirs[name],
            "ratio": ours[name] / theirs[name],
            "network views/s": network,
            "share": network / ours[name],
        }
        for name in options.views
    ]
    report(rows, device, options.json)


if __name__ == "__main__":
    main()
