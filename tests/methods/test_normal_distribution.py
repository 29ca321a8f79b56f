"""Normal distributions as class complements: scores against the mean of many samples, and by hand over the views."""

import pytest
import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of, values_of
from torch.nn.functional import cross_entropy

from proco.errors import ConfigError
from proco.methods.method import Targets
from proco.methods.normal_distribution import NormalDistribution


def test_scores_are_expectations_over_all_views_so_far() -> None:
    network = make_network()
    outputs = outputs_of(network, 3)
    (stage,) = NormalDistribution(temperature=0.5).stages(TASK, 1)
    value = values_of(stage, outputs, network)["normal_distribution"]
    embeddings = [view.embeddings for view in outputs[1:]]
    losses = []
    for seen in (1, 2):
        rows, labels = torch.cat(embeddings[:seen]).detach(), LABELS.repeat(seen)  # type: ignore[arg-type]
        z = embeddings[seen - 1]
        assert z is not None
        columns = []
        for j in range(len(COUNTS)):
            own = rows[labels == j]
            mean = own.mean(dim=0)
            spread = ((own - mean) @ z.T).square().mean(dim=0)  # z' S z, with S the covariance of the class
            columns.append(z @ mean / 0.5 + spread / (2 * 0.5**2))
        scores = torch.stack(columns, dim=1) + (COUNTS / COUNTS.sum()).log()
        losses.append(cross_entropy(scores, LABELS))
    torch.testing.assert_close(value, torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)


def test_a_score_is_the_log_of_the_mean_over_samples() -> None:
    term = NormalDistribution(temperature=0.5).representation(TASK)
    outputs = outputs_of(make_network(), 2)
    term(outputs, Targets.of(LABELS), None)
    criterion = term.criterion.double()
    z = outputs[0].embeddings.detach().double()  # type: ignore[union-attr]
    rows = torch.cat([view.embeddings for view in outputs]).detach().double()  # type: ignore[misc]
    own = rows[LABELS.repeat(2) == 0]
    generator = torch.Generator().manual_seed(0)
    # Samples of N(mean, covariance of the rows): random combinations of the rows' deviations.
    weights = torch.randn(200_000, len(own), generator=generator, dtype=torch.float64) / len(own) ** 0.5
    samples = own.mean(dim=0) + weights @ (own - own.mean(dim=0))
    expected = (z @ samples.T / 0.5).exp().mean(dim=1).log()
    torch.testing.assert_close(criterion.scores(z)[:, 0], expected, rtol=0, atol=0.01)


def test_covariances_that_do_not_fit_are_refused() -> None:
    large = TASK._replace(class_counts=torch.ones(8142), dim=1024)
    with pytest.raises(ConfigError, match=r"8142 classes and 1024 dimensions .* set a smaller network\.dim"):
        NormalDistribution().representation(large)
