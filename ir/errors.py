"""Errors of the language and of programs.

    TunesmithError                    anything a user can mend
      ProgramError(line, column)      the text is not a valid program
        LimitError                    it is, but larger than the limits allow
"""

from tunesmith import TunesmithError

__all__ = ["LimitError", "ProgramError", "TunesmithError"]


class ProgramError(TunesmithError):
    """The source text is not a valid program. ``line`` and ``column`` count from 1; 0 means unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
        self.column = column


class LimitError(ProgramError):
    """The program is larger than the configured limits."""
