"""The page of methods is what the registry says."""

from pathlib import Path

from tools.make_methods import write_page

from proco.methods import Method
from proco.training.recipes import load_recipe, recipe_names

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "methods.md").read_text() == write_page(), "run make methods"


def test_every_method_has_a_section_and_a_recipe() -> None:
    page = write_page()
    for name in Method.registry:
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert "Source: " in section
        assert f"`quickstart/{name}`" in section


def test_every_method_has_a_common_recipe() -> None:
    """With ProCo's data, network and course of training, and the first of its views or all of them."""
    reference = load_recipe("cifar100_lt/proco_100")
    for name in Method.registry:
        names = (f"cifar100_lt/{name}_100", f"cifar100_lt/ablations/{name}")
        found = [recipe for recipe in names if recipe in recipe_names()]
        assert found, name
        if name == "proco_plus":  # it has a course of its own
            continue
        config = load_recipe(found[0])
        for part in ("epochs", "batch_size", "optim", "data", "network"):
            assert getattr(config, part) == getattr(reference, part), (name, part)
        assert config.method.views == reference.method.views[: len(config.method.views)], name
