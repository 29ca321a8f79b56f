"""The kernel of the scores against the same formulas in float64; without a GPU, Triton interprets it."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

pytest.importorskip("triton")

from proco import ProCoLoss
from proco.losses import mixture_contrast
from proco.losses.contrast_form import ContrastForm
from proco.losses.mixture_contrast import VmfMixture, contrast

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def by_kernel(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the classes each time the kernel is taken; on a CPU it is interpreted, as if it were a GPU."""
    taken: list[int] = []
    original = mixture_contrast._by_kernel

    def spy(embeddings: Tensor, labels: Tensor, mixture: VmfMixture, form: ContrastForm) -> tuple[Tensor, Tensor]:
        taken.append(len(mixture.sums))
        return original(embeddings, labels, mixture, form)

    monkeypatch.setattr(mixture_contrast, "_by_kernel", spy)
    if not torch.cuda.is_available():
        monkeypatch.setattr(mixture_contrast, "kernels_run_on", lambda device: True)
        monkeypatch.setattr(Tensor, "is_cuda", True)
    return taken


def make_mixture(num_classes: int, dim: int) -> VmfMixture:
    generator = torch.Generator().manual_seed(1)
    sums = 50 * torch.randn(num_classes, dim, generator=generator)
    sums[num_classes // 2] = 0  # of a class never seen
    length = sums.norm(dim=1)
    concentration = torch.logspace(-1, 5, num_classes)
    concentration[num_classes // 2] = 0
    log_prior = torch.randn(num_classes, generator=generator).log_softmax(dim=0)
    inverse = torch.where(length > 0, 1 / length, 0)
    parts = (part.to(DEVICE) for part in (sums, inverse, concentration, log_prior))
    return VmfMixture(*parts, order=dim / 2 - 1, temperature=0.1)


def losses_and_gradient(
    embeddings: Tensor, labels: Tensor, mixture: VmfMixture, form: ContrastForm
) -> tuple[Tensor, Tensor]:
    embeddings = embeddings.clone().requires_grad_()
    losses = contrast(embeddings, labels, mixture, form, chunk_size=10**6)
    weights = torch.arange(1, len(labels) + 1, device=DEVICE, dtype=losses.dtype)
    return losses.detach(), torch.autograd.grad((losses * weights).sum(), embeddings)[0]


@pytest.mark.parametrize("form", ["in", "out"])
@pytest.mark.parametrize(("num_classes", "dim"), [(1, 32), (10, 128), (100, 128), (33, 48), (513, 2048)])
def test_losses_and_gradients_are_exact(num_classes: int, dim: int, form: ContrastForm, by_kernel: list[int]) -> None:
    mixture = make_mixture(num_classes, dim)
    generator = torch.Generator().manual_seed(2)
    # Some near a mean, some anywhere.
    near = mixture.sums[:3].cpu() + 20 * torch.randn(len(mixture.sums[:3]), dim, generator=generator)
    embeddings = normalize(torch.cat([near, torch.randn(4, dim, generator=generator)]), dim=1).to(DEVICE)
    labels = torch.randint(num_classes, (len(embeddings),), generator=generator).to(DEVICE)
    losses, gradient = losses_and_gradient(embeddings, labels, mixture, form)
    assert by_kernel == [num_classes]

    exact_mixture = mixture._replace(**{name: getattr(mixture, name).double() for name in mixture._fields[:4]})
    exact_losses, exact_gradient = losses_and_gradient(embeddings.double(), labels, exact_mixture, form)
    assert by_kernel == [num_classes]  # float64 is torch's
    torch.testing.assert_close(losses.double(), exact_losses, rtol=2e-6, atol=1e-5)
    torch.testing.assert_close(gradient.double(), exact_gradient, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("form", ["in", "out"])
def test_the_loss_module_learns_the_same(
    form: ContrastForm, by_kernel: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    embeddings = normalize(torch.randn(16, 32, generator=generator), dim=1).to(DEVICE)
    labels = torch.randint(5, (16,), generator=generator).to(DEVICE)

    def learnt() -> tuple[Tensor, Tensor]:
        criterion = ProCoLoss([50, 20, 10, 4, 2], dim=32, form=form).to(DEVICE)
        given = embeddings.clone().requires_grad_()
        loss = criterion(given, labels) + criterion(given.flip(0), labels.flip(0))
        return loss.detach(), torch.autograd.grad(loss, given)[0]

    ours = learnt()
    assert by_kernel == [5, 5]
    monkeypatch.setattr(mixture_contrast, "_kernel_serves", lambda embeddings, mixture: False)
    for value, expected in zip(ours, learnt(), strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
    assert by_kernel == [5, 5]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the interpreter
def test_nan_stays_nan(by_kernel: list[int]) -> None:
    """So that a diverged run is noticed."""
    mixture = make_mixture(10, 32)
    embeddings = normalize(torch.randn(3, 32), dim=1).to(DEVICE)
    embeddings[1, 4] = torch.nan
    losses, gradient = losses_and_gradient(embeddings, torch.tensor([0, 1, 2], device=DEVICE), mixture, "in")
    assert losses.isnan().tolist() == [False, True, False]
    assert gradient.isnan().any(dim=1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("num_classes", "dim", "chunk_size"), [(10, 16, 100), (10, 32, 5), (mixture_contrast._MOST_CLASSES + 1, 32, 10**6)]
)
def test_what_the_kernel_does_not_serve_is_torchs(
    num_classes: int, dim: int, chunk_size: int, by_kernel: list[int]
) -> None:
    """Few dimensions, classes in chunks, too many of them."""
    embeddings = normalize(torch.randn(2, dim), dim=1).to(DEVICE)
    labels = torch.tensor([0, 1], device=DEVICE)
    losses = contrast(embeddings, labels, make_mixture(num_classes, dim), "in", chunk_size)
    assert losses.isfinite().all()
    assert not by_kernel
