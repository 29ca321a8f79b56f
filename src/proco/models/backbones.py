"""Backbones by name: this library's own, torchvision's and timm's, all as images (N, C, H, W) -> features (N, d)."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from proco.errors import ConfigError
from proco.models import resnet_small as resnet_small  # files its networks in BACKBONES, as does the next
from proco.models import wide_resnet as wide_resnet
from proco.models.base import BACKBONES as BACKBONES
from proco.models.base import Backbone as Backbone
from proco.registry import suggest


def build_backbone(name: str, *, in_channels: int = 3, pretrained: bool = False, **options: Any) -> Backbone:
    """Build a backbone: a module with the attribute num_features.

    name: one of BACKBONES, or `torchvision/NAME` or `timm/NAME` for any classification model of these libraries,
        without its classifier. A bare name that is not in BACKBONES is looked for in torchvision, then in timm.
    in_channels: channels C of the images.
    pretrained: start from the weights the other library publishes, fetched on first use.
    options: handed on to what builds the network, such as width=4, image_size=32 (torchvision), img_size=32 (timm).

    >>> build_backbone("resnet20", width=2).num_features
    128
    """
    library, _, bare_name = name.rpartition("/")
    if not library:
        library = _library_of(name)
    if library not in _BUILDERS:
        raise ConfigError(f"unknown library {library!r} of backbone {name!r}; write timm/NAME or torchvision/NAME.")
    if bare_name not in _names(library):
        raise _unknown(name, (f"{library}/{known}" for known in _names(library)))
    if library != "proco" and "experts" in options:
        raise ConfigError(f"backbone {name!r} cannot be split into experts; resnet32 and its like can.")
    return _BUILDERS[library](bare_name, in_channels, pretrained, options)


class ForeignBackbone(Backbone):
    """Another library's network, whose classifier has been taken off, as `network`."""

    def __init__(self, network: nn.Module, num_features: int, name: str) -> None:
        super().__init__()
        self.network = network
        self.num_features = num_features
        self.name = name

    def forward(self, images: Tensor) -> Tensor:
        """Return features (N, num_features)."""
        features: Tensor = self.network(images)
        # Some few networks keep part of their head, or lose too much, when the classifier goes.
        if features.shape != (len(images), self.num_features):
            raise ConfigError(
                f"backbone {self.name!r} gives features of shape {tuple(features.shape)} instead of "
                f"{(len(images), self.num_features)} and cannot be used here; choose another."
            )
        return features


def _own(name: str, in_channels: int, pretrained: bool, options: dict[str, Any]) -> Backbone:
    if pretrained:
        raise ConfigError(
            f"backbone {name!r} has no pretrained weights; leave pretrained out or choose a torchvision or timm model."
        )
    factory = BACKBONES[name]
    permitted = [option for option in inspect.signature(factory).parameters if option != "in_channels"]
    for option in options:
        if option not in permitted:
            raise ConfigError(f"backbone {name!r} has no option {option!r}; it has {', '.join(permitted)}.")
        if type(options[option]) is not int:  # all of them are numbers of something
            raise ConfigError(f"network.options.{option} is a whole number; got {options[option]!r}.")
    return factory(in_channels=in_channels, **options)


def _from_torchvision(name: str, in_channels: int, pretrained: bool, options: dict[str, Any]) -> Backbone:
    from torchvision.models import get_model  # type: ignore[import-untyped]

    if name in ("googlenet", "inception_v3"):
        # Without this they answer with tuples while training, and warn about their initialisation.
        options = {"aux_logits": False, "init_weights": not pretrained} | options
    with _explained(f"torchvision/{name}"):
        network: nn.Module = get_model(name, weights="DEFAULT" if pretrained else None, **options)
    if in_channels != 3:
        if getattr(network, "transform_input", False):
            raise ConfigError(f"the pretrained torchvision/{name} takes images of 3 channels; got {in_channels}.")
        path, convolution = next((path, m) for path, m in network.named_modules() if isinstance(m, nn.Conv2d))
        network.set_submodule(path, _with_in_channels(convolution, in_channels, keep_weights=pretrained))
    linear = [(path, module) for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ConfigError(f"torchvision/{name} has no linear classifier to take off; choose another backbone.")
    path, classifier = linear[-1]
    network.set_submodule(path, nn.Identity())
    return ForeignBackbone(network, classifier.in_features, f"torchvision/{name}")


def _from_timm(name: str, in_channels: int, pretrained: bool, options: dict[str, Any]) -> Backbone:
    import timm

    with _explained(f"timm/{name}"):
        network = timm.create_model(name, pretrained=pretrained, num_classes=0, in_chans=in_channels, **options)
    # Where a hidden layer stands before the classifier, num_features is the width before that layer.
    width = "head_hidden_size" if hasattr(network, "head_hidden_size") else "num_features"
    return ForeignBackbone(network, getattr(network, width), f"timm/{name}")


_BUILDERS: dict[str, Callable[[str, int, bool, dict[str, Any]], Backbone]] = {
    "proco": _own,
    "torchvision": _from_torchvision,
    "timm": _from_timm,
}


def _names(library: str) -> Iterable[str]:
    """Return the names a library knows; those of timm with and without the tag of their weights."""
    if library == "proco":
        return BACKBONES
    if library == "torchvision":
        import torchvision  # type: ignore[import-untyped]

        return list(torchvision.models.list_models(module=torchvision.models))
    import timm

    return [*timm.list_models(), *timm.list_pretrained()]


def _library_of(name: str) -> str:
    for library in _BUILDERS:
        if name in _names(library):
            return library
    raise _unknown(name, (known for library in _BUILDERS for known in _names(library)))


def _unknown(name: str, choices: Iterable[str]) -> ConfigError:
    others = f"choose from {', '.join(BACKBONES)}, or any model of torchvision or timm."
    return ConfigError(f"unknown backbone {name!r}; {suggest(name, choices, most=3, otherwise=others)}")


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn what goes wrong while another library builds a network into one sentence."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"the pretrained weights of {name} could not be fetched ({_one_line(error)}); connect to the network, copy "
            "them into the cache of torch or Hugging Face, or set pretrained to false."
        ) from error
    except (RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(f"backbone {name} cannot be built so: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).strip(".")


def _with_in_channels(convolution: nn.Conv2d, in_channels: int, *, keep_weights: bool) -> nn.Conv2d:
    """Return the convolution for in_channels input channels.

    keep_weights: spread the sum of the weights evenly over the channels, so that an image whose channels are equal
    gives what it gave before.
    """
    replaced = type(convolution)(
        in_channels,
        convolution.out_channels,
        convolution.kernel_size,  # type: ignore[arg-type]
        convolution.stride,  # type: ignore[arg-type]
        convolution.padding,  # type: ignore[arg-type]
        convolution.dilation,  # type: ignore[arg-type]
        bias=convolution.bias is not None,
        device=convolution.weight.device,
    )
    if keep_weights:
        with torch.no_grad():
            replaced.weight.copy_(convolution.weight.sum(dim=1, keepdim=True) / in_channels)
            if replaced.bias is not None and convolution.bias is not None:
                replaced.bias.copy_(convolution.bias)
    return replaced
