"""The space of a program and how to walk it: sketch rules, populations, evolution, descent."""

from tunesmith.search.config import SearchConfig
from tunesmith.search.ports import CostModel
from tunesmith.search.search import Search
from tunesmith.search.space import Candidate, Space, derive

__all__ = ["Candidate", "CostModel", "Search", "SearchConfig", "Space", "derive"]
