"""Which schema revisions this version knows."""

__all__ = ["HEAD", "REVISIONS"]

REVISIONS = ("0001", "0002", "0003", "0004", "0005")
"""All schema revisions, oldest first; a test holds this equal to the migration scripts."""

HEAD = REVISIONS[-1]
