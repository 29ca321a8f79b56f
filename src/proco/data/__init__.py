"""Data: where images and labels come from, long-tailed subsets of them, and the order they are drawn in.

Every module of the folder is imported, so that each source has announced itself by the time one is asked for. None of
them loads torchvision or Pillow before it reads an image.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
