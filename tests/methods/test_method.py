"""What all methods and terms inherit: epochs that begin, and what is asked of their parts."""

from collections.abc import Sequence

import pytest
import torch
from tests.methods.small import TASK
from torch import Tensor, nn

from proco.methods import Method
from proco.methods.batchformer import BatchFormer
from proco.methods.crt import Crt
from proco.methods.method import Targets, Term
from proco.methods.proco import ProCo
from proco.models.network import Outputs


class Listening(nn.Module):
    """Counts the epochs that begin, as the statistics of a loss do."""

    epochs = 0

    def start_epoch(self) -> None:
        self.epochs += 1


class Holder(Term):
    """A term whose parts lie in containers."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = Listening()
        self.listed = nn.ModuleList([Listening(), nn.ModuleDict({"deep": Listening()})])

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        return torch.zeros(())


def test_an_epoch_begins_once_for_every_part_however_deep() -> None:
    outer = Holder()
    outer.inner = Holder()
    outer.start_epoch(0.5)
    heard = [part.epochs for part in outer.modules() if isinstance(part, Listening)]
    assert heard == [1] * 6


@pytest.mark.parametrize("kind", Method.registry.values())
def test_the_sampler_reaches_the_first_stage(kind: type[Method]) -> None:
    assert kind(sampler="square_root").stages(TASK, 1)[0].sampler == "square_root"


def test_ranks_are_equal_where_they_are_in_every_part() -> None:
    assert ProCo().is_equal_on_ranks
    assert not BatchFormer().is_equal_on_ranks
    assert not ProCo(classification=BatchFormer()).is_equal_on_ranks
    assert not Crt(first=BatchFormer()).is_equal_on_ranks
