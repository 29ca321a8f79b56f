"""Training steps in float32 and bfloat16: `python -m benchmarks.precision`, on the machine at hand.

A step is forward and backward of a backbone, channels last, as the trainer runs it with engine.precision=float32 or
bfloat16. "ratio" is float32's time to bfloat16's: above 1, bfloat16 is the faster.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measure import add_json_option, default_device, interleaved_ms, report
from proco.cli.memory import keep_freed_memory
from proco.models.backbones import build_backbone
from proco.training.device import autocast_to

# name, images of a batch, their size
CASES = (
    ("resnet32", 256, 32),
    ("timm/resnet18", 64, 64),
    ("timm/resnet50", 16, 224),
    ("timm/vit_tiny_patch16_224", 16, 224),
    ("timm/convnext_atto", 16, 128),
    ("timm/mobilenetv3_small_100", 32, 128),
)


def step_of(name: str, batch: int, size: int, kind: torch.dtype | None, device: torch.device) -> Callable[[], None]:
    torch.manual_seed(0)
    backbone = build_backbone(name).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(batch, 3, size, size, device=device).contiguous(memory_format=torch.channels_last)

    def step() -> None:
        backbone.zero_grad()
        with autocast_to(kind, device):
            features = backbone(images)
        features.float().square().mean().backward()

    return step


def measure(name: str, batch: int, size: int, device: torch.device, seconds: float) -> dict[str, Any]:
    kinds = {"float32 ms": None, "bfloat16 ms": torch.bfloat16}
    contenders = {label: step_of(name, batch, size, kind, device) for label, kind in kinds.items()}
    times = interleaved_ms(contenders, device, seconds=seconds)
    ratio = times["float32 ms"] / times["bfloat16 ms"]
    return {"backbone": name, "batch": batch, "size": size, **times, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name, _, _ in CASES]
    parser.add_argument("--backbones", nargs="+", choices=names, default=names)
    parser.add_argument("--batch", type=int, metavar="N", help="images of a step, for all backbones alike")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each backbone")
    add_json_option(parser)
    options = parser.parse_args()
    keep_freed_memory()  # as `proco train` does
    device = default_device()
    rows = [
        measure(name, options.batch or batch, size, device, options.seconds)
        for name, batch, size in CASES
        if name in options.backbones
    ]
    report(rows, device, options.json)


if __name__ == "__main__":
    main()
