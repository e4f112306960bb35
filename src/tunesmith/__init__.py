"""Tunesmith: tensor expressions in, the fastest verified kernel for this machine out."""

__version__ = "0.1.0"
