"""Spans of time as words of the command line: 90d, 12h."""

import argparse
import datetime as dt
import re

__all__ = ["span"]

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def span(text: str) -> dt.timedelta:
    """For argparse: a positive number of minutes, hours, days or weeks."""
    found = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90d, 12h, 30m or 4w")
    return dt.timedelta(seconds=int(found[1]) * _UNITS[found[2]])
