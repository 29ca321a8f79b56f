"""Write data/bessel.csv: reference values of log I, log(I exp(-x)) and I_(order+1)/I_order with 30 digits.

    python tests/sphere/make_bessel_table.py

Ball arithmetic (python-flint) with the precision doubled until 35 digits of every value are certain. Every x is a
float32, so that the table serves both precisions; beside an even grid it holds points around the zero of log I_order,
where the terms of size order cancel.
"""

import csv
from pathlib import Path

import numpy as np
from flint import arb, ctx

ORDERS = [0.0, 0.5, 1.0, 2.5, 7.0, 15.0, 31.0, 63.0, 127.0, 511.0, 1023.0, 4095.0, 1e5]
DIGITS = 30
TABLE = Path(__file__).parent / "data" / "bessel.csv"


def grid(order: float) -> list[float]:
    decades = np.logspace(-8, 8, 49)
    zero = np.array([0.6, 0.66, 0.6627, 0.664, 0.7, 1.0, 1.5]) * order if order else np.array([])
    seam = np.array([9.9, 10.1, 21.9, 22.1])  # where the formulas of small orders change
    return sorted({float(x) for x in np.concatenate([decades, zero, seam]).astype(np.float32)})


def reference(order: float, x: float) -> tuple[arb, arb, arb]:
    ctx.prec = 160
    while True:
        at = arb(x)
        here, above = at.bessel_i(arb(order), scaled=True), at.bessel_i(arb(order) + 1, scaled=True)
        values = here.log() + at, here.log(), above / here
        if all(value.is_finite() and value.rel_accuracy_bits() > 117 for value in values):
            return values
        ctx.prec *= 2


def main() -> None:
    TABLE.parent.mkdir(exist_ok=True)
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["order", "x", "log_iv", "log_ive", "ratio"])
        for order in ORDERS:
            for x in grid(order):
                writer.writerow([order, repr(x), *(value.str(DIGITS, radius=False) for value in reference(order, x))])


if __name__ == "__main__":
    main()
