"""Layers of ResNet-32 by our kernels and by torch's: `python -m benchmarks.kernels`, on a CUDA GPU.

A layer is a 3x3 convolution, or a batch norm with its ReLU, forward and backward apart, of 768 images in bfloat16,
channels last: what a step of three views and batch 256 has. "copy us" is the time to copy the layer's input, "ratio"
torch's time to ours.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from benchmarks.measure import add_json_option, default_device, interleaved_ms, report
from proco.kernels.functions import convolve, norm_relu

SHAPES = {16: 32, 32: 16}  # the side of the images, by channels of the stage
_REPEATS = 10  # of a layer in one recording, so that starting it costs nothing


Make = Callable[[], Callable[[], object]]  # of what is timed


def recorded(make: Make) -> Callable[[], None]:
    """Return a replay of several runs of what is made, recorded as a CUDA graph.

    It is made on the stream it is recorded on: there backward goes, which torch takes to the stream of forward.
    """
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run = make()
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(_REPEATS):
            run()

    def replay(kept: object = run) -> None:  # the recording reads what forward kept for backward
        graph.replay()

    return replay


def layers(channels: int, images: int, device: torch.device) -> dict[str, dict[str, Make]]:
    """Return forward and backward of convolution and norm, by our kernels and by torch's."""
    side = SHAPES[channels]
    shape = (images, channels, side, side)

    def noise() -> Tensor:
        return torch.randn(shape, device=device).to(torch.bfloat16, memory_format=torch.channels_last)

    hidden, upstream = noise().requires_grad_(), noise()
    conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False).to(device, memory_format=torch.channels_last)
    norm = nn.BatchNorm2d(channels).to(device)
    half = conv.weight.detach().bfloat16().requires_grad_()

    def ours_conv() -> Tensor:
        return convolve(hidden, conv.weight)[0]

    def torchs_conv() -> Tensor:
        return nn.functional.conv2d(hidden, half, padding=1)

    def ours_norm() -> Tensor:
        return norm_relu(hidden, None, norm)

    def torchs_norm() -> Tensor:
        return relu(norm(hidden))

    found: dict[str, dict[str, Make]] = {}
    kinds: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor], list[list[Tensor]]]] = {
        "convolution": (ours_conv, torchs_conv, [[hidden, conv.weight], [hidden, half]]),
        "norm and ReLU": (ours_norm, torchs_norm, [[hidden, norm.weight, norm.bias]] * 2),
    }
    for name, (ours, torchs, inputs) in kinds.items():
        found[f"{name}, forward"] = {"ours": lambda run=ours: run, "torch": lambda run=torchs: run}
        found[f"{name}, backward"] = {
            who: _backward(run, wanted, upstream)
            for who, run, wanted in zip(("ours", "torch"), (ours, torchs), inputs, strict=True)
        }
    return found


def _backward(forward: Callable[[], Tensor], inputs: list[Tensor], upstream: Tensor) -> Make:
    def make() -> Callable[[], object]:
        result = forward()
        return lambda: torch.autograd.grad(result, inputs, upstream, retain_graph=True)

    return make


def copied(channels: int, images: int, device: torch.device) -> Make:
    """Return a copy of the layer's input."""
    source = torch.randn(images, channels, SHAPES[channels], SHAPES[channels], device=device).bfloat16()
    target = torch.empty_like(source)
    return lambda: lambda: target.copy_(source)


def measure(images: int, channels: tuple[int, ...], seconds: float, device: torch.device) -> list[dict[str, Any]]:
    """Return a row for each layer."""
    rows = []
    for width in channels:
        for name, ways in layers(width, images, device).items():
            makers = ways | {"copy": copied(width, images, device)}
            contenders = {who: recorded(make) for who, make in makers.items()}
            times = interleaved_ms(contenders, device, seconds=seconds)
            us = {who: 1e3 * ms / _REPEATS for who, ms in times.items()}
            rows.append(
                {
                    "channels": width,
                    "layer": name,
                    "ours us": us["ours"],
                    "torch us": us["torch"],
                    "ratio": us["torch"] / us["ours"],
                    "copy us": us["copy"],
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=768, metavar="N")
    parser.add_argument("--channels", type=int, nargs="+", choices=SHAPES, default=(16, 32))
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long to measure a layer")
    add_json_option(parser)
    options = parser.parse_args()
    device = default_device()
    if device.type != "cuda":
        raise SystemExit("benchmarks.kernels needs a CUDA GPU: elsewhere the kernels are not used.")
    torch.backends.cudnn.benchmark = True
    report(measure(options.images, tuple(options.channels), options.seconds, device), device, options.json)


if __name__ == "__main__":
    main()
