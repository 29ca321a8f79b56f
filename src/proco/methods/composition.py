"""Methods that have another method within."""

from proco.errors import ConfigError
from proco.methods.one_branch import OneBranch


def require_no_views(part: OneBranch, setting: str) -> None:
    """Refuse a part with views or a sampler of its own: it is shown what the method is shown that has it."""
    alone = type(part)()
    if (part.views, part.sampler) != (alone.views, alone.sampler):
        raise ConfigError(f"method.{setting} has no views and no sampler of its own: set those of the method.")
