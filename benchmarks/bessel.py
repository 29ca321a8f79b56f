"""Speed, range and accuracy of log_ive beside scipy.special.ive and the paper's Miller recurrence.

    python -m benchmarks.bessel [--size 100000] [--json FILE]

The grid is x from 0.01 to 1e5, evenly in the logarithm. "lost" is the share of it where a method underflows or
overflows, so that there is no logarithm; "error" is the largest difference from log_ive in float64 over the rest,
divided by 1 + |value|. scipy runs on the CPU whatever the device.
"""

import argparse
from typing import Any

import numpy as np
import torch
from scipy.special import ive

from benchmarks.measure import add_json_option, default_device, interleaved_ms, report
from benchmarks.miller import miller_log_ive
from proco.sphere import log_ive

DIMS = [16, 32, 128, 512, 1024, 2048]


def measure(dim: int, size: int, device: torch.device) -> list[dict[str, Any]]:
    order = dim / 2 - 1
    x = torch.logspace(-2, 5, size, dtype=torch.float64, device=device)
    x32, x_numpy = x.float(), x.cpu().numpy()

    def scipy_log_ive() -> Any:
        with np.errstate(divide="ignore"):
            return np.log(ive(order, x_numpy))

    contenders = {
        "proco float64": lambda: log_ive(order, x),
        "proco float32": lambda: log_ive(order, x32),
        "scipy": scipy_log_ive,
        "Miller": lambda: miller_log_ive(dim, x),
    }
    exact = log_ive(order, x).cpu()
    times = interleaved_ms(contenders, device, seconds=2.0, rounds=5)
    rows = []
    for name, run in contenders.items():
        value = torch.as_tensor(run()).cpu().double()
        finite = value.isfinite()
        error = ((value - exact).abs() / (1 + exact.abs()))[finite]
        rows.append(
            {
                "p": dim,
                "method": name,
                "ns a value": 1e6 * times[name] / size,
                "time ratio": times[name] / times["proco float64"],
                "lost": float((~finite).double().mean()),
                "error": float(error.max()) if len(error) else float("nan"),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000, help="points of the grid (default: %(default)s)")
    parser.add_argument("--dims", type=int, nargs="+", default=DIMS, metavar="p", help="dimensions, even")
    add_json_option(parser)
    options = parser.parse_args()
    device = default_device()
    rows = []
    for dim in options.dims:
        print(f"  p = {dim} ...", flush=True)
        rows += measure(dim, options.size, device)
    report(rows, device, options.json)


if __name__ == "__main__":
    main()
