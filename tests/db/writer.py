"""A process that adds records and prints the id of each once it is committed.

python writer.py URL COUNT
"""

import sys

import db_samples as samples

from tunesmith.db import open_store

with open_store(sys.argv[1]) as store:
    for trial in range(int(sys.argv[2])):
        record = samples.record(trial=trial)
        store.add(record)
        print(record.id, flush=True)
