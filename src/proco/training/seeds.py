"""One seed for each purpose of each epoch, so that nothing depends on how much randomness something else used up."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Held by whoever uses what a process has one of: torch's own generators, and the recording of CUDA graphs with them.
# Runs side by side wait for each other here.
ONE_AT_A_TIME = threading.RLock()


def seed_for(seed: int, *purpose: int | str) -> int:
    """Return a 63-bit seed for a purpose such as (epoch, "order"), the same on every machine.

    >>> seed_for(0, 3, "order") == seed_for(0, 3, "order") != seed_for(0, 4, "order")
    True
    """
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator_for(seed: int, *purpose: int | str) -> torch.Generator:
    """Return a generator on the CPU with that seed."""
    return torch.Generator().manual_seed(seed_for(seed, *purpose))


@contextmanager
def seeded_weights(seed: int) -> Iterator[None]:
    """Let what is built on the CPU draw its weights from the seed; the caller's random numbers are not used up."""
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def own_random_numbers(device: torch.device) -> Iterator[None]:
    """Put the device's generator, from which dropout draws, back to where it was."""
    generator = _generator_of(device)
    with ONE_AT_A_TIME:
        before = generator.get_state()
    try:
        yield
    finally:
        with ONE_AT_A_TIME:
            generator.set_state(before)


def reseed(device: torch.device, seed: int) -> None:
    """Let the device's generator begin at the seed."""
    with ONE_AT_A_TIME:
        _generator_of(device).manual_seed(seed)


def _generator_of(device: torch.device) -> torch.Generator:
    if device.type != "cuda":
        return torch.default_generator
    generator: torch.Generator = torch.cuda.default_generators[device.index]
    return generator
