"""Texts of one line from strangers, which others will read in logs and terminals."""

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

__all__ = ["Line"]

_DOCUMENTED = r"^[^\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*$"
"""What every language's expressions can say of it: the characters that matter, not those yet unassigned."""


def _one_line(text: str) -> str:
    kinds = map(unicodedata.category, text)
    if any(kind[0] == "C" or kind in ("Zl", "Zp") for kind in kinds):
        raise ValueError("it must be one line without control characters")
    return text


Line = Annotated[str, AfterValidator(_one_line), Field(json_schema_extra={"pattern": _DOCUMENTED})]
"""Without control characters, which forge lines of a log and command terminals, and without marks that turn
the direction of writing around, which make a text look like another."""
