"""Runs that have diverged: losses and weights that are no numbers any more are said, not trained on."""

from torch import Tensor, nn

from proco.training.run_folder import RunError, RunFolder


def require_finite_weights(network: nn.Module, epoch: int) -> None:
    """Refuse to save weights that are infinite or no numbers."""
    wrong = [name for name, value in network.state_dict().items() if not value.isfinite().all()]
    if wrong:
        raise RunError(
            f"the weights {wrong[0]} became infinite in epoch {epoch + 1}; a smaller optim.lr usually helps."
        )


def require_finite(values: Tensor, names: tuple[str, ...], epoch: int, folder: RunFolder) -> None:
    """Refuse values of the terms, (steps, T + 1), that are infinite or no numbers; names: of the terms."""
    wrong = (~values.isfinite()).nonzero()
    if len(wrong):
        step, column = wrong[0].tolist()
        saved = folder.checkpoint_file
        kept = f"the last good state is {saved}" if saved.exists() else "no checkpoint was written before"
        raise RunError(
            f"the loss {names[column]} became {values[step, column].item()} in epoch {epoch + 1}, step {step + 1}; "
            f"{kept}. A smaller optim.lr or a longer optim.warmup usually helps."
        )
