"""What a module says of itself, by what it inherits from, that training acts on beyond what torch's modules have."""

from typing import ClassVar


class DrawsOnly:
    """Draws random numbers in training, and keeps nothing of a batch.

    It stays in training mode in the second pass of sharpness-aware steps, in which what keeps statistics does not.
    """


class FollowsBatches:
    """Keeps statistics of the batches that it sees in training, but not while `is_following` is false.

    It is false in the second pass of sharpness-aware steps, and while running statistics are renewed.
    """

    is_following: bool = True


class WithoutDecay:
    """Has parameters that weight decay leaves alone."""

    undecayed: ClassVar[tuple[str, ...]]
    """Their names."""
