"""ELM, embedding and logit margins (Jitkrittum et al., 2022): priors in the classifier's softmax and in the contrast's.

L = LA(s) + weight mean_i mean_(p in P(i)) -log(pi_y e^(z_i.z_p/tau) / sum_a pi_(y_a) e^(z_i.z_a/tau)), with LA the
logit-adjusted cross-entropy, z the embeddings of all views but the first, a over all but the anchor i, P(i) those of
its class and pi the class priors.

Departures: this is a reconstruction, not confirmed. No code is public, and only the abstract was at hand: margins in
the space of logits, and a regulariser with margins in that of embeddings. That the latter is SupCon with log priors
added to its similarities, its weight of 1 and its temperature are choices of this library.
"""

from dataclasses import dataclass

from proco.losses.supcon import SupConLoss
from proco.methods.method import Method, Task, Term
from proco.methods.pairs import Pairs
from proco.methods.two_branch import TwoBranch


@Method.registry.register("elm")
@dataclass(frozen=True, kw_only=True)
class Elm(TwoBranch):
    """A logit-adjusted classifier and contrast within the batch, both with margins by the class priors."""

    source = "Jitkrittum et al., ELM: Embedding and logit margins for long-tail learning, 2022; reconstructed"

    def representation(self, task: Task) -> Term:
        """Return the loss over all pairs of the views."""
        return Pairs(SupConLoss(self.temperature, class_counts=task.class_counts))
