"""Settings are compared as far as what is learnt depends on them."""

from dataclasses import replace

from proco.training.likeness import settings_that_count, unlike
from proco.training.settings import EngineConfig, TrainConfig


def test_what_is_said_of_a_run_and_where_it_is_computed_do_not_count() -> None:
    config = TrainConfig()
    told = replace(config, about="Told.", published={"top1": 1.0}, made_with={"torch": "3"})
    elsewhere = replace(told, engine=EngineConfig(device="cpu", workers=3, checkpoint_seconds=1.0, compile=True))
    assert settings_that_count(elsewhere) == settings_that_count(config)


def test_rounding_and_seeds_count_and_looks_where_they_are_asked_for() -> None:
    config = TrainConfig()
    for other in (replace(config, seed=1), replace(config, engine=EngineConfig(precision="float64"))):
        assert settings_that_count(other, looks=False) != settings_that_count(config, looks=False)
    rarely = replace(config, engine=EngineConfig(evaluate_every=10))
    assert settings_that_count(rarely) != settings_that_count(config)
    assert settings_that_count(rarely, looks=False) == settings_that_count(config, looks=False)


def test_differences_are_named_within_settings_and_where_one_is_missing() -> None:
    found = {"epochs": 2, "method": {"name": "focal", "gamma": 1.0}}
    assert unlike(found, {"epochs": 2, "method": {"name": "ldam"}}) == (
        "method.name: focal there, ldam here; method.gamma: 1.0 there, None here"
    )
    assert unlike(found, found) == ""
