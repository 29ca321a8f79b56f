"""Time and peak memory of callables on the device at hand, and the printing of what was measured."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from proco.training.made_with import source_commit

MIB = 2**20


def default_device() -> torch.device:
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def interleaved_ms(
    contenders: Mapping[str, Callable[[], object]], device: torch.device, *, seconds: float = 4.0, rounds: int = 20
) -> dict[str, float]:
    """Return the median milliseconds of each contender, timed in turn so that a slow moment hits all of them alike.

    Takes about the given seconds; where a single call is long, fewer rounds, but at least three.
    """
    once = {name: _seconds(run, 1, device) for name, run in contenders.items()}
    rounds = max(3, min(rounds, int(seconds / sum(once.values()))))
    repeats = {name: max(1, int(seconds / rounds / len(contenders) / once[name])) for name in contenders}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(_seconds(run, repeats[name], device) / repeats[name])
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def _seconds(run: Callable[[], object], repeats: int, device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    synchronize(device)
    return time.perf_counter() - start


def peak_mib(run: Callable[[], object], device: torch.device) -> float:
    """Return the largest amount of tensor memory that one call holds beside what is held before it."""
    if device.type == "cuda":
        synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - before) / MIB
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    # The allocations of every operator, in order; the public list of events shows only those outside of operators.
    assert recorded.profiler is not None
    events = recorded.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    held = peak = 0
    for _, num_bytes in changes:
        held += num_bytes
        peak = max(peak, held)
    return peak / MIB


def hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return f"{model}, {torch.get_num_threads()} threads, torch {torch.__version__}"


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")


def report(rows: Sequence[Mapping[str, Any]], device: torch.device, path: Path | None) -> None:
    """Print the rows as a Markdown table and, if asked to, write them as JSON."""
    print(f"\n{hardware(device)}\n\n{markdown(rows)}")
    if path:
        content = {"hardware": hardware(device), "commit": source_commit() or None, "rows": [dict(row) for row in rows]}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")
        print(f"\nwritten to {path}")


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table with aligned columns."""
    names = list(rows[0])
    lines = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
