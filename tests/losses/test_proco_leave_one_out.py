"""The loss of images left out of their classes against statistics gathered without them."""

import copy

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.losses import LeaveOneOutProCoLoss, ProCoLoss
from proco.losses.contrast_form import ContrastForm

COUNTS = [5, 3, 2, 1]
LABELS = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3])
FORMS: list[ContrastForm] = ["in", "out"]
Batch = tuple[Tensor, Tensor, Tensor]  # embeddings, labels, positions


def batch(seed: int, size: int = 11, dim: int = 16) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    positions = torch.randperm(11, generator=generator)[:size]
    embeddings = normalize(torch.randn(size, dim, generator=generator, dtype=torch.float64), dim=1)
    return embeddings, LABELS[positions], positions


def make(form: ContrastForm = "in", **settings: object) -> LeaveOneOutProCoLoss:
    return LeaveOneOutProCoLoss(COUNTS, 16, form=form, num_images=11, reduction="none", **settings).double()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("past_epochs", [1, 2])
def test_an_image_is_compared_with_what_others_gave(form: ContrastForm, past_epochs: int) -> None:
    """Three epochs of two views; then each image of a batch against a criterion that never saw it."""
    criterion = make(form, past_epochs=past_epochs)
    epochs = [[batch(10 * epoch + view, size=11 if epoch < 2 else 6) for view in range(2)] for epoch in range(3)]
    for epoch in epochs:
        criterion.start_epoch()
        for embeddings, labels, positions in epoch:
            own = embeddings.clone().requires_grad_()
            losses = criterion(own, labels, positions)
    losses.sum().backward()
    assert criterion.moments.counts.sum() == 12 + 22 * min(past_epochs, 2)
    for row, position in enumerate(positions):
        reference = ProCoLoss(COUNTS, 16, form=form, past_epochs=past_epochs, reduction="none").double()
        for epoch in epochs:
            reference.start_epoch()
            for others, their_labels, their_positions in epoch:
                rest = their_positions != position
                reference(others[rest], their_labels[rest])
        alone = embeddings[row : row + 1].clone().requires_grad_()
        expected = reference.eval()(alone, labels[row : row + 1])
        expected.sum().backward()
        torch.testing.assert_close(losses[row], expected[0])
        torch.testing.assert_close(own.grad[row], alone.grad[0])


def test_the_only_image_of_a_class_meets_the_uniform_distribution() -> None:
    criterion = make()
    for seed in range(3):
        embeddings, labels, positions = batch(seed)
        criterion.start_epoch()
        losses = criterion(embeddings, labels, positions)
    (row,) = (positions == 10).nonzero()[0]
    weights = criterion.posterior(embeddings)[row]
    uniform = ProCoLoss(COUNTS, 16).double().logits(embeddings)[row, 3]  # of a criterion that has seen nothing
    scores = criterion.logits(embeddings)[row].clone()
    scores[3] = uniform
    expected = -(scores + (criterion.class_counts / 11).log()).log_softmax(0)[3]
    torch.testing.assert_close(losses[row], expected)
    assert losses[row] > -weights[3].log()  # by itself it would be recognised


def test_a_second_look_in_evaluation_mode_leaves_the_image_out_too() -> None:
    criterion = make()
    arguments = batch(0)
    losses = criterion(*arguments)
    torch.testing.assert_close(criterion.eval()(*arguments), losses)
    assert criterion.moments.counts.sum() == criterion.image_moments.counts.sum() == 11


def test_images_never_seen_are_compared_with_whole_classes() -> None:
    criterion = make()
    criterion(*batch(0))
    plain = ProCoLoss(COUNTS, 16, reduction="none").double()
    plain(*batch(0)[:2])
    embeddings, labels, _ = batch(1)
    assert torch.equal(criterion.eval()(embeddings, labels), plain.eval()(embeddings, labels))


def test_saved_and_loaded_it_goes_on() -> None:
    criterion, restored = make(past_epochs=2), make(past_epochs=2)
    for seed in range(4):
        criterion.start_epoch()
        criterion(*batch(seed))
    restored.load_state_dict(copy.deepcopy(criterion.state_dict()))
    for one in (criterion, restored):
        one.start_epoch()
    assert torch.equal(criterion(*batch(5)), restored(*batch(5)))


@pytest.mark.parametrize("form", FORMS)
def test_compiles_into_one_graph(form: ContrastForm) -> None:
    plain = LeaveOneOutProCoLoss(COUNTS, 64, form=form, num_images=11)
    traced = copy.deepcopy(plain)
    compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
    for seed in range(2):
        embeddings, labels, positions = batch(seed, dim=64)
        gradients = []
        for run in (plain, compiled):
            at = embeddings.float().requires_grad_()
            loss = run(at, labels, positions)
            gradients.append((loss, torch.autograd.grad(loss, at)[0]))
        torch.testing.assert_close(gradients[0], gradients[1])
    torch.testing.assert_close(plain.state_dict(), traced.state_dict())


def test_wrong_use_is_explained_and_leaves_the_statistics_alone() -> None:
    criterion = make()
    embeddings, labels, positions = batch(0)
    for wrong, message in (
        ((embeddings, labels), "needs positions"),
        ((embeddings, labels, positions + 1), r"positions must lie in \[0, 10\]; got 11"),
        ((embeddings, labels, positions[1:]), r"positions must have shape \(11,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            criterion(*wrong)
    assert criterion.moments.counts.sum() == criterion.image_moments.counts.sum() == 0
    with pytest.raises(ValueError, match="num_images must be at least 1; got 0"):
        LeaveOneOutProCoLoss([3, 2], 4, num_images=0)


def test_reductions_are_of_each_loss() -> None:
    embeddings, labels, positions = batch(0)
    each = make()(embeddings, labels, positions)
    for reduction, expected in (("sum", each.sum()), ("mean", each.mean())):
        criterion = LeaveOneOutProCoLoss(COUNTS, 16, num_images=11, reduction=reduction).double()
        torch.testing.assert_close(criterion(embeddings, labels, positions), expected)
    assert LeaveOneOutProCoLoss(COUNTS, 16, num_images=11)(embeddings[:0].float(), labels[:0], positions[:0]) == 0
