"""The ProCo loss in a training loop of your own, on generated data with unevenly filled classes. Seconds on a CPU.

Twenty classes of points around random centres, from 500 down to 5 training samples each. The same small network is
trained twice, once with plain cross-entropy and once with two branches as in the paper: a classifier under logit
adjustment and a projector under the ProCo loss. Both are judged on a balanced test set.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from proco import LogitAdjustedLoss, ProCoLoss, class_counts_from_labels

NUM_CLASSES, INPUTS, EPOCHS, BATCH = 20, 24, 30, 128


def make_data(counts: list[int], centres: Tensor) -> tuple[Tensor, Tensor]:
    labels = torch.arange(NUM_CLASSES).repeat_interleave(torch.tensor(counts))
    return centres[labels] + 1.7 * torch.randn(len(labels), INPUTS), labels


class Network(nn.Module):
    """A shared body with a classifier and a projector."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(INPUTS, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.classifier = nn.Linear(64, NUM_CLASSES)
        self.projector = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (N, K) and unit embeddings (N, 32)."""
        features = self.body(inputs)
        return self.classifier(features), normalize(self.projector(features), dim=1)


def train(inputs: Tensor, labels: Tensor, with_proco: bool) -> Network:
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    class_counts = class_counts_from_labels(labels)
    adjusted = LogitAdjustedLoss(class_counts)
    criterion = ProCoLoss(class_counts, dim=32, temperature=0.1)  # line one
    for epoch in range(EPOCHS):
        criterion.start_epoch()  # line two
        for batch in torch.randperm(len(labels)).split(BATCH):
            logits, embeddings = network(inputs[batch] + 0.3 * torch.randn(len(batch), INPUTS))
            if with_proco:
                loss = adjusted(logits, labels[batch]) + criterion(embeddings, labels[batch])  # line three
            else:
                loss = cross_entropy(logits, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 10 == 9:
            print(f"  epoch {epoch + 1:2d} of {EPOCHS}, loss of the last batch {loss.item():.3f}")
    return network


@torch.no_grad()
def accuracy_by_group(network: Network, inputs: Tensor, labels: Tensor, counts: list[int]) -> list[float]:
    right = (network(inputs)[0].argmax(dim=1) == labels).float()
    per_class = torch.stack([right[labels == c].mean() for c in range(NUM_CLASSES)])
    sizes = torch.tensor(counts)
    groups = [sizes > 100, (sizes >= 20) & (sizes <= 100), sizes < 20, sizes > 0]
    return [100 * per_class[group].mean().item() for group in groups]


def main() -> None:
    torch.manual_seed(0)
    counts = [int(500 * 100 ** (-c / (NUM_CLASSES - 1))) for c in range(NUM_CLASSES)]
    centres = torch.randn(NUM_CLASSES, INPUTS)
    inputs, labels = make_data(counts, centres)
    test_inputs, test_labels = make_data([200] * NUM_CLASSES, centres)
    results = {}
    for name, with_proco in (("cross-entropy", False), ("ProCo", True)):
        print(f"{name}:")
        network = train(inputs, labels, with_proco)
        results[name] = accuracy_by_group(network, test_inputs, test_labels, counts)
    print(f"\n{len(labels)} training samples, {counts[0]} to {counts[-1]} a class; accuracy on a balanced test set")
    print(f"{'':15}{'many':>8}{'medium':>8}{'few':>8}{'all':>8}")
    for name, accuracies in results.items():
        print(f"{name:15}" + "".join(f"{accuracy:8.1f}" for accuracy in accuracies))


if __name__ == "__main__":
    main()
