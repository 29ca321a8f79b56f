"""A run that comes first, and whose network then teaches another (knowledge distillation)."""

from collections.abc import Sequence
from dataclasses import replace

from proco.config import as_settings, merge
from proco.methods.agreement import Distillation
from proco.methods.method import EachExpert, Stage, Term, WeightedTerm
from proco.training.settings import TeacherConfig, TrainConfig

_OWN = ("about", "published", "teacher", "made_with")  # of the run that is taught


def teaching_run(config: TrainConfig) -> TrainConfig:
    """Return the settings of the run that teaches the one with these settings."""
    assert config.teacher is not None
    settings = {name: value for name, value in as_settings(config).items() if name not in _OWN}
    return merge(TrainConfig, settings, config.teacher.run)


def taught_stages(stages: Sequence[Stage], teacher: TeacherConfig, num_experts: int) -> tuple[Stage, ...]:
    """Return the stages with what the teacher says as one more term, of each expert where there are several."""

    def distillation() -> Term:
        terms = [Distillation(temperature=teacher.temperature) for _ in range(num_experts)]
        return terms[0] if num_experts == 1 else EachExpert(terms)

    return tuple(
        replace(stage, terms={**stage.terms, "distillation": WeightedTerm(teacher.weight, distillation())})
        for stage in stages
    )
