"""Directional statistics in torch: Bessel functions, von Mises-Fisher distributions and their estimation."""

from proco.sphere.bessel import bessel_ratio, log_iv, log_ive
from proco.sphere.concentration import concentration_from_mean_length
from proco.sphere.mixture import VonMisesFisherMixture
from proco.sphere.moment_generating import log_mgf
from proco.sphere.moments import ClassMoments
from proco.sphere.vmf import VonMisesFisher

__all__ = [
    "ClassMoments",
    "VonMisesFisher",
    "VonMisesFisherMixture",
    "bessel_ratio",
    "concentration_from_mean_length",
    "log_iv",
    "log_ive",
    "log_mgf",
]
