"""Augmentation of whole batches on the device they are on: each image has its own random parameters.

Importing the package registers all views.
"""

from proco.augment.auto import Auto
from proco.augment.blend import Blend
from proco.augment.choices import select, to_device
from proco.augment.mixup import Mixup
from proco.augment.paste import Paste
from proco.augment.plain import Plain
from proco.augment.rand import Rand
from proco.augment.sim import Sim
from proco.augment.strong import Strong
from proco.augment.view import View
from proco.augment.weak import Weak
from proco.augment.window import Box, CentreWindow, RandomWindow, Window

__all__ = [
    "Auto",
    "Blend",
    "Box",
    "CentreWindow",
    "Mixup",
    "Paste",
    "Plain",
    "Rand",
    "RandomWindow",
    "Sim",
    "Strong",
    "View",
    "Weak",
    "Window",
    "select",
    "to_device",
]
