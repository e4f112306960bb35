"""Cost models: features over populations, the analytic prior, pretrained models, the ranker."""

from tunesmith.costmodel.explain import Explanation, explain
from tunesmith.costmodel.features import NAMES, VERSION, Features, features
from tunesmith.costmodel.model import Found, Model, ModelError, find_model, load_model, save_model
from tunesmith.costmodel.ranker import Ranker
from tunesmith.costmodel.training import Objective, Recipe, Samples

__all__ = [
    "NAMES",
    "VERSION",
    "Explanation",
    "Features",
    "Found",
    "Model",
    "ModelError",
    "Objective",
    "Ranker",
    "Recipe",
    "Samples",
    "explain",
    "features",
    "find_model",
    "load_model",
    "save_model",
]
