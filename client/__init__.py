"""The Python client of the HTTP service: the same verbs as local tuning, carried out elsewhere.

    client = tunesmith.connect("http://tuner:8700", key=secret)
    job = client.tune(program, trials=64)       waits, shows events to who wants them
    best = client.best(program)

It needs the standard library, and the expression language when it is given a program: no database, no
compiler and no HTTP package. Importing it takes a few hundredths of a second.
"""

from tunesmith.client.client import Client, Source, connect
from tunesmith.client.errors import ClientError, JobEnded, ServiceError, Unreachable
from tunesmith.client.watching import JobEvent

__all__ = [
    "Client",
    "ClientError",
    "JobEnded",
    "JobEvent",
    "ServiceError",
    "Source",
    "Unreachable",
    "connect",
]
