"""Methods: how a network is trained on uneven classes. Importing the package files all of them in `Method.registry`."""

from importlib import import_module
from pkgutil import iter_modules

from proco.methods.method import Method, Task

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Method", "Task"]
