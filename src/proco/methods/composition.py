"""Methods that have another method within."""

from proco.errors import ConfigError
from proco.methods.one_branch import OneBranch


def require_no_views(part: OneBranch, setting: str) -> None:
    """Refuse views or a sampler on a method inside another: it gets those of the outer one."""
    alone = type(part)()
    if (part.views, part.sampler) != (alone.views, alone.sampler):
        raise ConfigError(f"method.{setting} has no views and no sampler of its own: set those of the method.")
