"""Backbones by name: what each library gives, with features of the width it says."""

import sys

import pytest
import torch
from torch import nn

from proco.errors import ConfigError
from proco.models.backbones import ForeignBackbone, _with_in_channels, build_backbone
from proco.models.resnet_small import SmallResNet


@pytest.mark.parametrize(
    ("name", "num_features"),
    [
        ("resnet8", 64),
        ("resnet14", 64),
        ("resnet20", 64),
        ("resnet32", 64),
        ("resnet56", 64),
        ("wrn28_2", 128),
        ("torchvision/resnet18", 512),
        ("torchvision/resnext50_32x4d", 2048),
        ("torchvision/mobilenet_v3_small", 1024),
        ("torchvision/vit_b_16", 768),
        ("torchvision/densenet121", 1024),
        ("torchvision/googlenet", 1024),
        ("timm/resnet18", 512),
        ("timm/vit_tiny_patch16_224", 192),
        ("timm/mobilenetv3_small_050", 1024),  # has a hidden layer behind its num_features of 288
        ("timm/resnet18.a1_in1k", 512),
        ("regnety_002", 368),  # only timm has it
    ],
)
def test_features_have_the_width_the_backbone_says(name: str, num_features: int) -> None:
    with torch.device("meta"):
        backbone = build_backbone(name)
        features = backbone(torch.zeros(2, 3, 224, 224))
    assert features.shape == (2, backbone.num_features) == (2, num_features)


@pytest.mark.parametrize("name", ["torchvision/vit_b_16", "torchvision/densenet121", "timm/vit_tiny_patch16_224"])
def test_number_of_channels_and_size_are_free(name: str) -> None:
    size = {"image_size" if name.startswith("torchvision/vit") else "img_size": 32} if "vit" in name else {}
    with torch.device("meta"):
        backbone = build_backbone(name, in_channels=2, **size)
        assert backbone(torch.zeros(3, 2, 32, 32)).shape == (3, backbone.num_features)


@pytest.mark.parametrize("name", ["resnet8", "torchvision/mobilenet_v3_small", "timm/mobilenetv3_small_050"])
def test_every_parameter_learns_from_grey_images(name: str) -> None:
    torch.manual_seed(0)
    backbone = build_backbone(name, in_channels=1)
    features = backbone(torch.randn(4, 1, 32, 32))
    assert features.shape == (4, backbone.num_features)
    features.square().sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


@pytest.mark.parametrize("depth", [8, 14, 20, 32, 56])
def test_small_resnets_have_the_layers_of_their_names(depth: int) -> None:
    with torch.device("meta"):
        convolutions = [m for m in build_backbone(f"resnet{depth}").modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) + 1 == depth  # and a classifier


def test_features_are_what_the_classifier_saw() -> None:
    from torchvision.models import mobilenet_v3_small

    torch.manual_seed(0)
    backbone = build_backbone("torchvision/mobilenet_v3_small").eval()
    assert isinstance(backbone, ForeignBackbone)
    whole = mobilenet_v3_small().eval()
    classifier = whole.classifier[-1]
    own = {f"classifier.3.{name}": value for name, value in classifier.state_dict().items()}
    whole.load_state_dict(backbone.network.state_dict() | own)
    images = torch.randn(1, 3, 64, 64)
    torch.testing.assert_close(classifier(backbone(images)), whole(images))


def test_bare_names_mean_this_library_then_torchvision_then_timm() -> None:
    with torch.device("meta"):
        assert isinstance(build_backbone("resnet32"), SmallResNet)
        libraries = []
        for name in ("resnet18", "timm/resnet18", "regnety_002"):
            backbone = build_backbone(name)
            assert isinstance(backbone, ForeignBackbone)
            libraries.append(type(backbone.network).__module__.split(".")[0])
    assert libraries == ["torchvision", "timm", "timm"]


def test_own_backbones_need_no_other_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("timm", "torchvision"):
        monkeypatch.setitem(sys.modules, library, None)  # importing it fails now
    assert build_backbone("resnet8", in_channels=1, width=2).num_features == 128


def test_pretrained_first_convolution_sees_equal_channels_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.models import mobilenet_v3_small

    torch.manual_seed(0)
    published = mobilenet_v3_small().eval()

    def get_model(name: str, weights: str | None) -> nn.Module:
        assert (name, weights) == ("mobilenet_v3_small", "DEFAULT")
        network = mobilenet_v3_small().eval()
        network.load_state_dict(published.state_dict())
        return network

    monkeypatch.setattr("torchvision.models.get_model", get_model)
    grey = torch.randn(1, 1, 32, 32)
    expected = build_backbone("mobilenet_v3_small", pretrained=True).eval()(grey.expand(1, 3, 32, 32))
    for in_channels in (1, 5):
        backbone = build_backbone("mobilenet_v3_small", in_channels=in_channels, pretrained=True).eval()
        torch.testing.assert_close(backbone(grey.expand(1, in_channels, 32, 32)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "near"),
    [("resnet23", "resnet32"), ("resnext50_32x4", "resnext50_32x4d"), ("timm/vit_tiny_patch16_22", "timm/vit_tiny_")],
)
def test_unknown_names_get_near_ones(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown backbone '{name}'; did you mean .*{near}"):
        build_backbone(name)


def test_wrong_settings_are_explained() -> None:
    with pytest.raises(ConfigError, match=r"unknown backbone 'qqqq'; choose from resnet14, resnet20, .* or timm"):
        build_backbone("qqqq")
    with pytest.raises(ConfigError, match="unknown library 'keras' of backbone 'keras/resnet'"):
        build_backbone("keras/resnet")
    with pytest.raises(ConfigError, match="backbone 'resnet32' has no option 'widht'; it has width, experts"):
        build_backbone("resnet32", widht=2)
    with pytest.raises(ConfigError, match="backbone 'resnet32' has no pretrained weights"):
        build_backbone("resnet32", pretrained=True)
    with pytest.raises(ConfigError, match="torchvision/squeezenet1_1 has no linear classifier"):
        build_backbone("squeezenet1_1")
    for name in ("torchvision/resnet18", "timm/resnet18"):
        with pytest.raises(ConfigError, match=f"backbone '{name}' cannot be split into experts; resnet32"):
            build_backbone(name, experts=3)
        with pytest.raises(ConfigError, match=f"backbone {name} cannot be built so: .*'colour'"):
            build_backbone(name, colour="red")


@pytest.mark.parametrize("name", ["torchvision/resnet18", "timm/resnet18"])
def test_weights_that_cannot_be_fetched_are_explained(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("Name or service not known.\nTry again.")

    monkeypatch.setattr("torchvision.models.get_model", refuse)
    monkeypatch.setattr("timm.create_model", refuse)
    message = (
        rf"weights of {name} could not be fetched \(Name or service not known. Try again\); connect to the network"
    )
    with pytest.raises(ConfigError, match=message):
        build_backbone(name, pretrained=True)


def test_features_of_another_shape_are_refused() -> None:
    backbone = ForeignBackbone(nn.Identity(), 4, "timm/odd")
    with pytest.raises(ConfigError, match=r"'timm/odd' gives features of shape \(2, 3\) instead of \(2, 4\)"):
        backbone(torch.zeros(2, 3))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("channels", [1, 4])
def test_pretrained_convolutions_see_in_equal_channels_what_they_saw(channels: int, bias: bool) -> None:
    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 5, 3, stride=2, padding=1, dilation=1, bias=bias)
    grey = torch.rand(2, 1, 9, 9)
    replaced = _with_in_channels(convolution, channels, keep_weights=True)
    torch.testing.assert_close(replaced(grey.expand(2, channels, 9, 9)), convolution(grey.expand(2, 3, 9, 9)))
    fresh = _with_in_channels(convolution, channels, keep_weights=False)
    assert fresh.weight.std() > 0
    assert not torch.equal(fresh.weight, replaced.weight)
