"""SimAugment: each choice against torchvision's functions, and the choices against its generators."""

import torch
from torch import Tensor
from torchvision.transforms.v2 import RandomResizedCrop
from torchvision.transforms.v2 import functional as reference

from proco.augment.sim_augment import draw, draw_boxes, sim_augment


def pictures(count: int = 40) -> Tensor:
    return torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_views_are_those_of_torchvision_with_the_same_choices() -> None:
    images = pictures()
    choices = draw(len(images), 32, 32, torch.Generator().manual_seed(0))
    found = sim_augment(images, choices)
    jitters = [
        reference.adjust_brightness,
        reference.adjust_contrast,
        reference.adjust_saturation,
        reference.adjust_hue,
    ]
    worst = []
    for i, image in enumerate(images):
        top, left, height, width = (int(part[i]) for part in choices.box)
        view = reference.resized_crop(image, top, left, height, width, [32, 32], antialias=True)
        if choices.is_flipped[i]:
            view = reference.horizontal_flip(view)
        if choices.is_jittered[i]:
            for j in choices.order[i].tolist():
                view = jitters[j](view, choices.strength[i, j].item())
        if choices.is_grey[i]:
            view = reference.rgb_to_grayscale(view, 3)
        worst.append((found[i].int() - view.int()).abs().double().mean().item())
    # One grey level after the crop can become a few after four blends; on average nothing is left of it.
    assert max(worst) < 0.1


def test_boxes_are_distributed_as_torchvisions() -> None:
    size = 20_000
    boxes = draw_boxes(size, 32, 32, torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    crop = RandomResizedCrop(32)
    image = torch.zeros(3, 32, 32)
    theirs = [crop.make_params([image]) for _ in range(size)]
    for name in ("top", "left", "height", "width"):
        ours = getattr(boxes, name).double()
        other = torch.tensor([params[name] for params in theirs]).double()
        deviation = (ours.var() / size + other.var() / size).sqrt()
        assert (ours.mean() - other.mean()).abs() < 5 * deviation
        assert abs(ours.std() / other.std() - 1) < 0.03


def test_boxes_lie_inside_and_narrow_images_get_the_largest_box() -> None:
    boxes = draw_boxes(5000, 20, 100, torch.Generator().manual_seed(1))
    assert (boxes.top >= 0).all()
    assert (boxes.left >= 0).all()
    assert (boxes.top + boxes.height <= 20).all()
    assert (boxes.left + boxes.width <= 100).all()
    whole = draw_boxes(100, 20, 100, torch.Generator().manual_seed(1), scale=(1.0, 1.0))
    assert (whole.height == 20).all()
    assert (whole.width == 27).all()
    assert (whole.left == 36).all()


def test_choices_have_their_probabilities_and_ranges() -> None:
    choices = draw(50_000, 32, 32, torch.Generator().manual_seed(2))
    for chosen, expected in ((choices.is_flipped, 0.5), (choices.is_jittered, 0.8), (choices.is_grey, 0.2)):
        assert abs(chosen.double().mean().item() - expected) < 0.01
    assert choices.strength[:, :3].min() > 0.6 - 1e-6
    assert choices.strength[:, :3].max() < 1.4 + 1e-6
    assert choices.strength[:, 3].abs().max() <= 0.1 + 1e-6
    permutations = (choices.order * torch.tensor([64, 16, 4, 1])).sum(1).unique(return_counts=True)[1]
    assert len(permutations) == 24
    assert (permutations - 50_000 / 24).abs().max() < 5 * (50_000 / 24) ** 0.5


def test_another_size_can_be_asked_for() -> None:
    choices = draw(40, 32, 32, torch.Generator().manual_seed(0))
    assert sim_augment(pictures(), choices, size=(24, 20)).shape == (40, 3, 24, 20)
