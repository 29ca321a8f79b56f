"""The ProCo loss against slow references, its limits, and everything a training loop may do to it."""

import copy
import math

import mpmath
import pytest
import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.nn.functional import cross_entropy, normalize

from proco.losses import LogitAdjustedLoss, ProCoLoss, SupConLoss, mixture_contrast
from proco.losses.contrast_form import ContrastForm
from proco.sphere import VonMisesFisher

FORMS: list[ContrastForm] = ["in", "out"]
COUNTS = [400, 120, 30, 6]


def batch(dim: int, size: int = 24, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    embeddings = normalize(torch.randn(size, dim, generator=generator, dtype=torch.float64), dim=1).to(dtype)
    return embeddings, torch.randint(len(COUNTS), (size,), generator=generator)


def trained(dim: int, form: ContrastForm = "in", **settings: object) -> ProCoLoss:
    """A criterion with statistics of three batches."""
    criterion = ProCoLoss(COUNTS, dim=dim, form=form, **settings).double()  # type: ignore[arg-type]
    for seed in (1, 2, 3):
        criterion(*batch(dim, seed=seed))
    return criterion.eval()


def slow_loss(criterion: ProCoLoss, embeddings: Tensor, labels: Tensor) -> list[float]:
    """The paper's eqs. 12 and 13 with 30-digit Bessel functions, sample by sample."""
    dim, tau = criterion.dim, criterion.temperature
    means, counts = criterion.moments.mean(), criterion.class_counts.tolist()
    with mpmath.workdps(30):
        order = mpmath.mpf(dim) / 2 - 1

        def log_normalizer(kappa: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log(mpmath.besseli(order, kappa)) - order * mpmath.log(kappa)

        losses = []
        for z, label in zip(embeddings, labels.tolist(), strict=True):
            logs, attraction = [], None
            for j, mean in enumerate(means):
                length = float(mean.norm())
                kappa = dim * length / (1 - length**2)
                tilted = float((kappa * mean / length + z / tau).norm())
                logs.append(
                    log_normalizer(tilted) - log_normalizer(kappa) + mpmath.log(counts[j]) - mpmath.log(sum(counts))
                )
                if j == label:
                    ratio = mpmath.besseli(order + 1, kappa) / mpmath.besseli(order, kappa)
                    attraction = logs[j] if criterion.form == "in" else ratio * float(z @ mean) / length / tau
            losses.append(float(mpmath.log(sum(mpmath.exp(value) for value in logs)) - attraction))
    return losses


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dim", [2, 3, 7, 16, 33, 64])
def test_value_agrees_with_high_precision_arithmetic(dim: int, form: ContrastForm) -> None:
    criterion = trained(dim, form, reduction="none")
    embeddings, labels = batch(dim, size=6)
    assert criterion(embeddings, labels).tolist() == pytest.approx(slow_loss(criterion, embeddings, labels), rel=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_float32_on_any_device_agrees_with_float64(form: ContrastForm, device: torch.device) -> None:
    fine = ProCoLoss(COUNTS, dim=128, form=form).double()
    coarse = ProCoLoss(COUNTS, dim=128, form=form).to(device)
    embeddings, labels = batch(128)
    gradients = []
    for criterion, at in ((fine, embeddings), (coarse, embeddings.float().to(device))):
        loss = criterion(at.requires_grad_(), labels.to(at.device))
        gradients.append(torch.autograd.grad(loss, at)[0].cpu().double())
        gradients.append(loss.cpu().double())
    torch.testing.assert_close(gradients[0], gradients[2], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradients[1], gradients[3], rtol=2e-6, atol=2e-6)


# --- Monte-Carlo: the loss is the limit of SupCon over infinitely many samples -------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dim", [3, 24])
def test_supcon_over_samples_approaches_the_loss(dim: int, form: ContrastForm) -> None:
    """SupCon over n draws from the mixture, less its constant log n (and log pi_y for "in"), tends to the loss.

    Its error is asymptotically normal; the delta method gives the standard deviation from the variance of the weights
    e^(z.z'/tau) inside and outside the class. Bound: 5 deviations for each sample size, and a clear fall from first to
    last.
    """
    torch.manual_seed(dim)
    tau = 0.25
    criterion = ProCoLoss(COUNTS, dim=dim, temperature=tau, form=form, concentration="exact", reduction="none").double()
    centres = normalize(torch.randn(len(COUNTS), dim, dtype=torch.float64), dim=1)
    kappas = torch.tensor([2.0, 5.0, 12.0, 30.0], dtype=torch.float64)
    stimuli = torch.arange(len(COUNTS)).repeat_interleave(200)
    criterion(VonMisesFisher(centres[stimuli], kappas[stimuli]).sample(), stimuli)
    criterion.eval()

    anchors, labels = batch(dim, size=5)
    exact = criterion(anchors, labels)
    prior = criterion.class_counts.double() / criterion.class_counts.sum()
    classes = VonMisesFisher(criterion.moments.mean_direction(), criterion.concentration())
    errors = []
    for size in (1_000, 10_000, 100_000):
        drawn = (prior * size).round().long()
        owners = torch.arange(len(COUNTS)).repeat_interleave(drawn)
        samples = VonMisesFisher(classes.loc[owners], classes.concentration[owners]).sample()
        supcon = SupConLoss(tau, form=form, reduction="none")(anchors, labels, samples, owners)
        constant = math.log(size) + (prior[labels].log() if form == "in" else 0.0)
        error = supcon - constant - exact
        similarity = anchors @ samples.T / tau
        weights = similarity.exp()
        variance = torch.zeros(len(anchors), dtype=torch.float64)
        for j in range(len(COUNTS)):
            inside = owners == j
            share = weights[:, inside] / weights.sum(1, keepdim=True)
            own = labels == j
            positive = (
                weights[:, inside] / weights[:, inside].sum(1, keepdim=True)
                if form == "in"
                else similarity[:, inside] / drawn[j]
            )
            influence = share - torch.where(own[:, None], positive, 0.0)
            variance += drawn[j] * influence.var(dim=1)
        assert (error.abs() < 5 * variance.sqrt()).all(), size
        errors.append(error.abs().mean().item())
    # A hundred times the samples: a tenth of the error is expected; a factor of 3 is left for chance.
    assert errors[-1] < 0.3 * errors[0]


# --- Limits --------------------------------------------------------------------------------------------------------


def test_infinite_concentration_is_the_softmax_over_centroids() -> None:
    """With kappa -> infinity the logit is mu.z/tau; the rest is logit adjustment."""
    directions = normalize(torch.randn(len(COUNTS), 48, dtype=torch.float64), dim=1)
    criterion = ProCoLoss(COUNTS, dim=48, max_concentration=1e9).double()
    criterion(directions, torch.arange(len(COUNTS)))  # one vector a class: mean length 1
    criterion.eval()
    assert (criterion.concentration() == 1e9).all()
    embeddings, labels = batch(48)
    centroid_logits = embeddings @ directions.T / criterion.temperature
    torch.testing.assert_close(criterion.logits(embeddings), centroid_logits, rtol=1e-6, atol=1e-6)
    expected = LogitAdjustedLoss(COUNTS)(centroid_logits, labels)
    torch.testing.assert_close(criterion(embeddings, labels), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 128])
def test_no_statistics_leave_the_prior_alone(dim: int) -> None:
    """Before the first batch every kappa is 0: all logits are equal and the loss is -log pi_y."""
    criterion = ProCoLoss(COUNTS, dim=dim, reduction="none").double().eval()
    embeddings, labels = batch(dim)
    logits = criterion.logits(embeddings)
    torch.testing.assert_close(logits, logits[:1, :1].expand_as(logits))
    prior = torch.tensor(COUNTS, dtype=torch.float64) / sum(COUNTS)
    torch.testing.assert_close(criterion(embeddings, labels), -prior.log()[labels])
    torch.testing.assert_close(criterion.posterior(embeddings), prior.expand(len(embeddings), -1))


def test_prior_enters_the_loss() -> None:
    embeddings, labels = batch(32)
    losses = []
    for counts in (COUNTS, COUNTS[::-1]):
        criterion = ProCoLoss(counts, dim=32, reduction="none").double()
        losses.append(criterion(embeddings, labels))
        logits = criterion.logits(embeddings)
        prior = torch.tensor(counts, dtype=torch.float64) / sum(counts)
        expected = torch.nn.functional.cross_entropy(logits + prior.log(), labels, reduction="none")
        torch.testing.assert_close(losses[-1], expected)
    assert (losses[0] - losses[1]).abs().min() > 0.01


def test_loss_is_minus_log_posterior_of_the_label() -> None:
    criterion = trained(20, reduction="none")
    embeddings, labels = batch(20)
    posterior = criterion.posterior(embeddings)
    torch.testing.assert_close(posterior.sum(1), torch.ones(24, dtype=torch.float64))
    own = posterior[torch.arange(24), labels]
    torch.testing.assert_close(criterion(embeddings, labels), -own.log())


# --- Gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [None, 3, 1])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dim", [3, 40])
def test_gradient(dim: int, form: ContrastForm, chunk_size: int | None) -> None:
    criterion = trained(dim, form, chunk_size=chunk_size, reduction="none")
    embeddings, labels = batch(dim, size=4)
    assert torch.autograd.gradcheck(lambda z: criterion(z, labels), (embeddings.requires_grad_(),))


def test_gradient_of_logits_is_twice_differentiable() -> None:
    criterion = trained(5)
    embeddings = batch(5, size=2)[0].requires_grad_()
    assert torch.autograd.gradcheck(criterion.logits, (embeddings,))
    assert torch.autograd.gradgradcheck(criterion.logits, (embeddings,))


def test_gradient_of_a_certain_label_vanishes_in_coarse_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one chunk, softmax - one-hot cancels before the product; after it, the rounding of the product remains."""

    def coarse_product(left: Tensor, right: Tensor) -> Tensor:
        return torch.matmul(left.bfloat16().float(), right.bfloat16().float())

    monkeypatch.setattr(torch.Tensor, "__matmul__", coarse_product)
    directions = normalize(torch.randn(2, 64, generator=torch.Generator().manual_seed(0)), dim=1)
    remainders = []
    for chunk_size in (None, 1):
        criterion = ProCoLoss([10, 10], dim=64, temperature=0.01, chunk_size=chunk_size)
        criterion(directions.repeat(5, 1), torch.arange(2).repeat(5))
        embeddings = directions.clone().requires_grad_()
        loss = criterion.eval()(embeddings, torch.arange(2))
        remainders.append(torch.autograd.grad(loss, embeddings)[0].abs().max().item())
    assert remainders[0] < 1e-20
    assert remainders[1] > 1e-3


def test_second_derivatives_of_the_loss_are_refused() -> None:
    criterion = trained(16)
    embeddings, labels = batch(16)
    loss = criterion(embeddings.requires_grad_(), labels)
    with pytest.raises(RuntimeError, match=r"first derivatives only.*criterion\.logits"):
        torch.autograd.grad(loss, embeddings, create_graph=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk_size", [1, 3, 4, 1000])
def test_chunks_give_the_same_loss_and_gradient(form: ContrastForm, chunk_size: int) -> None:
    results = []
    for size in (None, chunk_size):
        criterion = trained(16, form, chunk_size=size)
        embeddings, labels = batch(16)
        loss = criterion(embeddings.requires_grad_(), labels)
        results.append((loss, torch.autograd.grad(loss, embeddings)[0]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-12)


# --- In a training loop --------------------------------------------------------------------------------------------


def test_training_takes_the_batch_in_before_scoring_and_evaluation_does_not() -> None:
    criterion = ProCoLoss(COUNTS, dim=16).double()
    embeddings, labels = batch(16)
    trained_loss = criterion(embeddings, labels)
    assert criterion.moments.counts.sum() == 24
    criterion.eval()
    assert criterion(embeddings, labels) == trained_loss
    assert criterion.moments.counts.sum() == 24
    criterion.logits(embeddings)
    assert criterion.moments.counts.sum() == 24


def test_past_epochs_are_in_the_window() -> None:
    criterion = ProCoLoss(COUNTS, dim=16, past_epochs=2).double()
    for seed in range(5):
        criterion.start_epoch()
        criterion(*batch(16, seed=seed))
    assert criterion.moments.counts.sum() == 3 * 24


def test_one_call_per_view_then_one_backward() -> None:
    """The second call changes the statistics the first was scored with; the first's gradient must not care."""
    embeddings, labels = batch(16)
    views = [embeddings.clone().requires_grad_(), batch(16, seed=5)[0].requires_grad_()]
    criterion = ProCoLoss(COUNTS, dim=16).double()
    together = [criterion(view, labels) for view in views]
    sum(together).backward()  # type: ignore[union-attr]
    alone = ProCoLoss(COUNTS, dim=16).double()
    first = views[0].detach().requires_grad_()
    alone(first, labels).backward()
    assert torch.equal(views[0].grad, first.grad)  # type: ignore[arg-type]
    assert criterion.moments.counts.sum() == 48


def test_start_epoch_forgets_what_is_older_than_an_epoch() -> None:
    criterion = ProCoLoss(COUNTS, dim=16).double()
    for seed in range(3):
        criterion.start_epoch()
        criterion(*batch(16, seed=seed))
    assert criterion.moments.counts.sum() == 48


def test_loss_falls_when_embeddings_follow_its_gradient() -> None:
    embeddings, labels = batch(16, size=64)
    free = embeddings.clone().requires_grad_()
    criterion = ProCoLoss(COUNTS, dim=16).double()
    losses = []
    for _ in range(30):
        criterion.start_epoch()
        loss = criterion(normalize(free, dim=1), labels)
        losses.append(loss.item())
        (gradient,) = torch.autograd.grad(loss, free)
        free = (free - 2 * gradient).detach().requires_grad_()
    assert losses[-1] < 0.5 * losses[0]
    assert criterion.posterior(normalize(free, dim=1)).argmax(1).eq(labels).double().mean() > 0.9


def test_classes_absent_from_every_batch_do_no_harm() -> None:
    criterion = ProCoLoss(COUNTS, dim=16).double()
    embeddings, labels = batch(16)
    loss = criterion(embeddings.requires_grad_(), labels.clamp_max(1))
    loss.backward()
    assert loss.isfinite()
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()
    assert (criterion.concentration()[2:] == 0).all()


def test_empty_batch_has_loss_zero() -> None:
    criterion = trained(16)
    embeddings = torch.zeros(0, 16, dtype=torch.float64, requires_grad=True)
    loss = criterion(embeddings, torch.zeros(0, dtype=torch.int64))
    loss.backward()
    assert loss == 0


@pytest.mark.parametrize("form", FORMS)
def test_reductions(form: ContrastForm) -> None:
    embeddings, labels = batch(16)
    each = trained(16, form, reduction="none")(embeddings, labels)
    assert each.shape == (24,)
    torch.testing.assert_close(trained(16, form, reduction="sum")(embeddings, labels), each.sum())
    torch.testing.assert_close(trained(16, form)(embeddings, labels), each.mean())


def test_order_of_classes_does_not_matter() -> None:
    order = torch.tensor([2, 0, 3, 1])
    embeddings, labels = batch(16)
    criterion = ProCoLoss(COUNTS, dim=16).double()
    renamed = ProCoLoss(torch.tensor(COUNTS)[order], dim=16).double()
    torch.testing.assert_close(renamed(embeddings, order.argsort()[labels]), criterion(embeddings, labels))


@pytest.mark.parametrize("chunk_size", [None, 1])
def test_int32_labels_are_taken(chunk_size: int | None) -> None:
    results = []
    for dtype in (torch.int32, torch.int64):
        criterion = ProCoLoss(COUNTS, dim=16, chunk_size=chunk_size).double()
        embeddings, labels = batch(16)
        loss = criterion(embeddings.requires_grad_(), labels.to(dtype))
        results.append((loss, torch.autograd.grad(loss, embeddings)[0], criterion.moments.counts))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


def test_one_batch_with_a_nan_does_not_poison_the_next() -> None:
    criterion = ProCoLoss(COUNTS, dim=16).double()
    embeddings, labels = batch(16)
    spoilt = embeddings.clone()
    spoilt[5, 3] = torch.nan
    assert criterion(spoilt, labels).isnan()
    assert criterion(embeddings, labels).isfinite()
    assert criterion.moments.counts.sum() == 47


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_reach_the_state(dtype: torch.dtype) -> None:
    counts = torch.tensor([100_000.0, 1283.0, 10.5, 1.0])
    criterion, reference = ProCoLoss(counts, dim=16).to(dtype), ProCoLoss(counts, dim=16)
    embeddings, labels = batch(16, dtype=torch.float32)
    assert torch.equal(criterion(embeddings, labels), reference(embeddings, labels))
    torch.testing.assert_close(criterion.state_dict(), reference.state_dict(), rtol=0, atol=0)


def test_embeddings_a_little_too_long_are_finite() -> None:
    """bfloat16 unit vectors have lengths up to 1.01; kappa = 1/tau and cosine -1 is where that could hurt."""
    criterion = ProCoLoss([1, 1], dim=32, temperature=0.01, max_concentration=100.0).double()
    directions = torch.eye(32, dtype=torch.float64)[:2]
    criterion(directions, torch.arange(2))
    embeddings = (-1.02 * directions).requires_grad_()
    loss = criterion.eval()(embeddings, torch.arange(2))
    assert loss.isfinite()
    assert torch.autograd.grad(loss, embeddings)[0].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_computes_in_float32(dtype: torch.dtype) -> None:
    embeddings, labels = batch(128, dtype=torch.float32)
    plain, mixed = ProCoLoss(COUNTS, dim=128), ProCoLoss(COUNTS, dim=128)
    with torch.autocast("cpu", dtype=dtype):
        loss = mixed(embeddings.to(dtype), labels)
        logits = mixed.logits(embeddings.to(dtype))
    assert loss.dtype == logits.dtype == torch.float32
    # The embeddings were rounded; nothing after them was.
    torch.testing.assert_close(loss, plain(embeddings.to(dtype).float(), labels), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_arrive_in_the_type_of_the_embeddings(dtype: torch.dtype) -> None:
    embeddings, labels = batch(32)
    half = embeddings.to(dtype).requires_grad_()
    ProCoLoss(COUNTS, dim=32)(half, labels).backward()
    assert half.grad is not None
    assert half.grad.dtype == dtype


@pytest.mark.parametrize("past_epochs", [1, 3])
def test_saved_loaded_continued_gives_the_same_bits(past_epochs: int) -> None:
    criterion = ProCoLoss(COUNTS, dim=16, past_epochs=past_epochs)
    for seed in range(3):
        criterion.start_epoch()
        criterion(*batch(16, seed=seed, dtype=torch.float32))
    restored = ProCoLoss([1, 1, 1, 1], dim=16, past_epochs=past_epochs)
    restored.load_state_dict(copy.deepcopy(criterion.state_dict()))
    for seed in range(3, 6):
        losses = [one(*batch(16, seed=seed, dtype=torch.float32)) for one in (criterion, restored)]
        assert torch.equal(*losses)
        for one in (criterion, restored):
            one.start_epoch()
    for name, value in criterion.state_dict().items():
        assert torch.equal(value, restored.state_dict()[name]), name


def test_state_keeps_frequencies_given_instead_of_counts() -> None:
    restored = ProCoLoss([1, 1], dim=16)
    restored.load_state_dict(ProCoLoss([0.6, 0.4], dim=16).state_dict())
    torch.testing.assert_close(restored.class_counts, torch.tensor([0.6, 0.4]))


def test_state_of_another_size_is_refused() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        ProCoLoss([1, 1], dim=16).load_state_dict(ProCoLoss(COUNTS, dim=16).state_dict())


def test_has_no_parameters() -> None:
    assert not list(ProCoLoss(COUNTS, dim=16).parameters())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dim", "chunk_size"), [(5, None), (64, None), (64, 2)])
def test_compiles_into_one_graph(dim: int, chunk_size: int | None, form: ContrastForm) -> None:
    plain = ProCoLoss(COUNTS, dim=dim, form=form, chunk_size=chunk_size)
    traced = copy.deepcopy(plain)
    compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
    for seed in range(3):
        embeddings, labels = batch(dim, seed=seed, dtype=torch.float32)
        gradients = []
        for run in (plain, compiled):
            at = embeddings.clone().requires_grad_()
            loss = run(at, labels)
            gradients.append((loss, torch.autograd.grad(loss, at)[0]))
        torch.testing.assert_close(gradients[0], gradients[1])
    torch.testing.assert_close(plain.state_dict(), traced.state_dict())


def test_compiled_loss_takes_batches_of_any_size() -> None:
    compilations = 0

    def counting(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        nonlocal compilations
        compilations += 1
        return graph

    compiled = torch.compile(ProCoLoss(COUNTS, dim=24).double(), fullgraph=True, backend=counting)
    plain = ProCoLoss(COUNTS, dim=24).double()
    for size in (16, 17, 30, 5, 100):
        embeddings, labels = batch(24, size=size)
        torch.testing.assert_close(compiled(embeddings, labels), plain(embeddings, labels))
    assert compilations <= 2  # one for the first size, one for all others


def test_generated_code_gives_the_same_loss(device: torch.device) -> None:
    """For two views in one graph: the second changes the statistics before the backward pass of the first."""
    plain = ProCoLoss(COUNTS, dim=64).to(device)
    compiled = copy.deepcopy(plain)
    embeddings, labels = (part.to(device) for part in batch(64, dtype=torch.float32))
    at = [embeddings.clone().requires_grad_() for _ in range(2)]

    def of_two_views(criterion: ProCoLoss, embeddings: Tensor) -> Tensor:
        return criterion(embeddings, labels) + criterion(embeddings.flip(1), labels)

    losses = [torch.compile(of_two_views, fullgraph=True)(compiled, at[0]), of_two_views(plain, at[1])]
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(torch.autograd.grad(loss, z)[0] for loss, z in zip(losses, at, strict=True)))
    torch.testing.assert_close(plain.state_dict(), compiled.state_dict())


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_compiled_backward_pass_does_not_read_the_statistics(chunk_size: int | None) -> None:
    """They may have moved on by then; so the product of the gradient must not be put off to it."""
    graphs = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> object:
        graphs.append(graph.graph)
        return make_boxed_func(graph)

    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep, partition_fn=min_cut_rematerialization_partition)
    criterion = trained(512, chunk_size=chunk_size)
    embeddings, labels = batch(512)
    torch.compile(criterion, fullgraph=True, backend=backend)(embeddings.requires_grad_(), labels).backward()
    _, backward = graphs
    assert not [node for node in backward.nodes if node.target == torch.ops.aten.mm.default]
    shapes = {tuple(node.meta["val"].shape) for node in backward.nodes if node.op == "placeholder"}
    assert tuple(criterion.moments.sums.shape) not in shapes


def test_chunks_wait_for_each_other_in_a_compiled_graph() -> None:
    """A compiler reorders what is independent: each product must depend on all before it, or their scores pile up."""
    graphs = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph.graph)
        return graph

    criterion = trained(512, chunk_size=2)
    embeddings, labels = batch(512)
    torch.compile(criterion, fullgraph=True, backend=aot_autograd(fw_compiler=keep))(
        embeddings.requires_grad_(), labels
    )
    products = [node for node in graphs[0].nodes if node.target == torch.ops.aten.mm.default]
    assert len(products) == 4  # scores and gradient of two chunks

    def ancestors(node: torch.fx.Node) -> set[torch.fx.Node]:
        found, waiting = set(), [node]
        while waiting:
            for parent in waiting.pop().all_input_nodes:
                if parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        return found

    for index, product in enumerate(products):
        assert set(products[:index]) <= ancestors(product)


def test_many_classes_are_taken_in_chunks_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    num_classes, size = 9000, 1024  # 2^23 scores are 8192 classes
    sizes, score = list[int](), mixture_contrast._score
    monkeypatch.setattr(mixture_contrast, "_score", lambda *given: _counted(score(*given), sizes))
    criterion = ProCoLoss(torch.ones(num_classes), dim=32)
    generator = torch.Generator().manual_seed(0)
    embeddings = normalize(torch.randn(size, 32, generator=generator), dim=1).requires_grad_()
    labels = torch.randint(num_classes, (size,), generator=generator)
    loss = criterion(embeddings, labels)
    # The same by a plain softmax over all scores.
    expected = cross_entropy(criterion.logits(embeddings) - math.log(num_classes), labels)
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(value, embeddings)[0] for value in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-8)
    assert sizes == [2**23, size * num_classes - 2**23]  # so memory does not grow with the classes


def _counted(scores: "mixture_contrast._Scores", sizes: list[int]) -> "mixture_contrast._Scores":
    sizes.append(scores.log_weight.numel())
    return scores


# --- Wrong input ---------------------------------------------------------------------------------------------------


def test_wrong_settings_are_explained() -> None:
    with pytest.raises(ValueError, match="unknown form 'sum'; choose from in, out"):
        ProCoLoss(COUNTS, form="sum")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="temperature must be positive and finite; got -1"):
        ProCoLoss(COUNTS, temperature=-1)
    with pytest.raises(ValueError, match="dim must be at least 2; got 1"):
        ProCoLoss(COUNTS, dim=1)
    with pytest.raises(TypeError, match=r"dim must be a whole number; got 8\.5"):
        ProCoLoss(COUNTS, dim=8.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown concentration method 'mle'"):
        ProCoLoss(COUNTS, concentration="mle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chunk_size must be at least 1; got 0"):
        ProCoLoss(COUNTS, chunk_size=0)
    with pytest.raises(ValueError, match="class 1 has 0"):
        ProCoLoss([5, 0])


def test_wrong_batches_are_explained_and_leave_the_statistics_alone() -> None:
    criterion = ProCoLoss(COUNTS, dim=16, validate=True)
    embeddings, labels = batch(16, dtype=torch.float32)
    wrong = labels.clone()
    wrong[3] = 4
    with pytest.raises(ValueError, match=r"lie in \[0, 3\]; got 4"):
        criterion(embeddings, wrong)
    with pytest.raises(ValueError, match=r"lie in \[0, 3\]; got -1"):
        criterion(embeddings, labels - 1 - labels.min())
    with pytest.raises(ValueError, match=r"shape \(N, 16\); got \(24, 8\)"):
        criterion(embeddings[:, :8], labels)
    with pytest.raises(ValueError, match=r"labels must have shape \(24,\)"):
        criterion(embeddings, labels[:5])
    with pytest.raises(TypeError, match=r"labels must be a tensor; got list"):
        criterion(embeddings, labels.tolist())
    with pytest.raises(TypeError, match=r"embeddings must be a tensor; got ndarray"):
        criterion(embeddings.numpy(), labels)
    with pytest.raises(ValueError, match=r"24 of 24 have not, the first has 2.*normalize"):
        criterion(2 * embeddings, labels)
    with pytest.raises(ValueError, match=r"1 of 24 have not, the first has nan"):
        criterion(torch.where(torch.arange(24)[:, None] == 7, torch.nan, embeddings), labels)
    with pytest.raises(ValueError, match=r"floating type; got torch\.int64"):
        criterion(torch.ones(24, 16, dtype=torch.int64), labels)
    assert criterion.moments.counts.sum() == 0
    for method in (criterion.logits, criterion.posterior):
        with pytest.raises(ValueError, match="length 1"):
            method(5 * embeddings)
        with pytest.raises(ValueError, match=r"shape \(N, 16\); got \(\)"):
            method(torch.tensor(1.0))
    criterion(embeddings.bfloat16(), labels)


@pytest.mark.parametrize("label", [-1, -100, 4])
def test_compiled_code_refuses_labels_out_of_range(label: int) -> None:
    compiled = torch.compile(ProCoLoss(COUNTS, dim=32), fullgraph=True, backend="aot_eager")
    embeddings, labels = batch(32, dtype=torch.float32)
    labels[3] = label
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        compiled(embeddings, labels)


@pytest.mark.parametrize("label", [-1, 4])
def test_compiled_evaluation_has_no_loss_for_labels_out_of_range(label: int) -> None:
    criterion = ProCoLoss(COUNTS, dim=32, reduction="none").eval()
    embeddings, labels = batch(32, dtype=torch.float32)
    labels[3] = label
    losses = torch.compile(criterion, fullgraph=True, backend="aot_eager")(embeddings, labels)
    assert losses.isnan().nonzero().flatten().tolist() == [3]


def test_classes_of_one_vector_have_the_largest_concentration() -> None:
    criterion = ProCoLoss([3, 2, 1], dim=16)
    criterion(torch.eye(16)[:3], torch.arange(3))
    assert (criterion.concentration() == 1e5).all()
