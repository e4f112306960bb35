"""Cost models: features over populations, the analytic prior, the ranker."""

from tunesmith.costmodel.features import NAMES, VERSION, Features, features
from tunesmith.costmodel.ranker import Ranker

__all__ = ["NAMES", "VERSION", "Features", "Ranker", "features"]
