"""Cost of the ProCo loss beside a cosine classifier's cross-entropy and SupCon.

    python -m benchmarks.loss [--mode default|reduce-overhead|eager] [--shapes 256,100,128 ...] [--json FILE]

A step is forward, backward and, for ProCo, the update of its statistics. Every contender starts from the same raw
features, which it normalises, and ends with their gradient. Ratios are to the cosine classifier in the same run.

"state" is what a contender keeps between steps: two windows of class statistics, or the classifier's weight and its
gradient. "peak" is the most it holds during a step beside its inputs, state included; "extra" is peak without state.
"""

import argparse
import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from benchmarks.measure import MIB, add_json_option, default_device, interleaved_ms, peak_mib, report
from proco import ProCoLoss, SupConLoss

SHAPES = ["256,100,128", "256,1000,2048", "256,8142,2048", "256,1000000,128"]
SCALE = 30.0


class CosineCrossEntropy(nn.Module):
    """The usual cosine classifier with its loss: K weight vectors, scale 30, no bias."""

    def __init__(self, num_classes: int, dim: int, device: torch.device) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_classes, dim, device=device))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        return cross_entropy(SCALE * embeddings @ normalize(self.weight, dim=1).T, labels)


def build(name: str, num_classes: int, dim: int, device: torch.device) -> nn.Module:
    if name == "cosine":
        module: nn.Module = CosineCrossEntropy(num_classes, dim, device)
        for parameter in module.parameters():  # as after the first step of a training loop
            parameter.grad = torch.zeros_like(parameter)
        return module
    if name == "supcon":
        return SupConLoss()
    with device:
        return ProCoLoss(torch.arange(num_classes, 0, -1), dim=dim)


def step_of(criterion: nn.Module, features: Tensor, labels: Tensor, mode: str) -> Callable[[], None]:
    def loss_of(features: Tensor, labels: Tensor) -> Any:
        return criterion(normalize(features, dim=1), labels)

    if mode != "eager":
        loss_of = torch.compile(loss_of, fullgraph=True, dynamic=False, mode=None if mode == "default" else mode)

    def step() -> None:
        features.grad = None
        loss_of(features, labels).backward()

    return step


def state_mib(criterion: nn.Module) -> float:
    tensors = [
        *criterion.buffers(),
        *criterion.parameters(),
        *(p.grad for p in criterion.parameters() if p.grad is not None),
    ]
    return sum(tensor.nbytes for tensor in tensors) / MIB


def measure(num_samples: int, num_classes: int, dim: int, mode: str, device: torch.device) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    # Every use of the features has the same gradient buffers, so they are inputs, not a contender's cost.
    features = torch.randn(num_samples, dim, device=device, requires_grad=True)
    labels = torch.randint(num_classes, (num_samples,), device=device)
    steps, state, peak = {}, {}, {}
    for name in ("cosine", "proco", "supcon"):
        print(f"  {num_samples} x {num_classes} x {dim}: {name} ...", flush=True)
        criterion = build(name, num_classes, dim, device)
        steps[name], state[name] = step_of(criterion, features, labels, mode), state_mib(criterion)
        for _ in range(2):  # compile and warm up
            steps[name]()
        features.grad = None
        gc.collect()
        peak[name] = state[name] + peak_mib(steps[name], device)
    times = interleaved_ms(steps, device)
    return [
        {
            "N": num_samples,
            "K": num_classes,
            "p": dim,
            "loss": name,
            "ms": times[name],
            "time ratio": times[name] / times["cosine"],
            "state MiB": state[name],
            "peak MiB": peak[name],
            "extra MiB": peak[name] - state[name],
            "peak ratio": peak[name] / peak["cosine"],
        }
        for name in steps
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    device = default_device()
    parser.add_argument(
        "--mode",
        choices=["default", "reduce-overhead", "eager"],
        default="eager" if device.type == "cpu" else "default",
        help="how to compile (on a CPU not at all by default: it would take minutes)",
    )
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="N,K,p")
    add_json_option(parser)
    options = parser.parse_args()
    rows = []
    for shape in options.shapes:
        num_samples, num_classes, dim = map(int, shape.split(","))
        rows += measure(num_samples, num_classes, dim, options.mode, device)
        torch.compiler.reset()
        gc.collect()
    report(rows, device, options.json)


if __name__ == "__main__":
    main()
