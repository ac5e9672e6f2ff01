#!/usr/bin/env python3
"""The members of a consumer group, as the broker has them: `members.py SERVERS GROUP`, asked again for each line of the
standard input; prints its state and the members' ids, as a line of JSON each."""

import json
import os
import sys

from confluent_kafka.admin import AdminClient


def main():
    servers, group = sys.argv[1:]
    admin = AdminClient({"bootstrap.servers": servers})
    for _ in sys.stdin:
        known = admin.list_groups(group, timeout=10)
        print(json.dumps({"state": known[0].state if known else "none",
                          "members": sorted(m.id for m in known[0].members) if known else []}), flush=True)
    os._exit(0)  # see books.py


if __name__ == "__main__":
    main()
