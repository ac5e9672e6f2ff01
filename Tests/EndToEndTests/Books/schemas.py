#!/usr/bin/env python3
"""Checks that every record of some topics is what its JSON Schema says: values as they are, headers as objects of texts.

    schemas.py --servers HOST:PORT --worker PROGRAM value:result:apns.results headers:result-headers:apns.results …

Each argument is WHAT:SCHEMA:TOPIC; the schemas are asked of `PROGRAM schema`. Says how many records it checked, and exits
with 1 when one does not hold or a topic is empty.
"""

import argparse
import json
import subprocess
import sys

from jsonschema import Draft202012Validator

import topics


def validator(program, name):
    schema = json.loads(subprocess.run([program, "schema", name], check=True, capture_output=True).stdout)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def instance(what, message):
    """What is to be checked of a record; None: nothing."""
    if what == "value":
        return None if message.value() is None else json.loads(message.value())
    # Of a name that comes twice the last value counts.
    return {name: (value or b"").decode("utf-8", "replace") for name, value in message.headers() or []}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--worker", required=True)
    parser.add_argument("checks", nargs="+")
    options = parser.parse_args()
    is_fine = True
    for check in options.checks:
        what, name, topic = check.split(":", 2)
        schema = validator(options.worker, name)
        checked, faults = 0, 0
        for message in topics.read(options.servers, topic):
            value = instance(what, message)
            if value is None:
                continue
            checked += 1
            for error in schema.iter_errors(value):
                faults += 1
                if faults <= 5:
                    print(f"FOUND {topic}/{message.partition()}/{message.offset()}: {what} is not a {name}: "
                          f"{error.json_path}: {error.message}")
        print(f"{checked} of {what} {name} checked, {faults} faults ({topic})")
        is_fine = is_fine and checked > 0 and faults == 0
    sys.exit(0 if is_fine else 1)


main()
