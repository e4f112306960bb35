"""Texts of one line from strangers, which others will read in logs and terminals."""

from typing import Annotated

from pydantic import StringConstraints

__all__ = ["Line"]

Line = Annotated[str, StringConstraints(pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]
"""Without control characters, which forge lines of a log and command terminals, and without marks that turn
the direction of writing around, which make a text look like another."""
