#!/usr/bin/env python3
"""Checks that every record of some topics is what its JSON Schema says: values as they are, headers as objects of
texts.

    schemas.py --servers HOST:PORT --worker PROGRAM value:result:apns.results headers:result-headers:apns.results …

Each argument is WHAT:SCHEMA:TOPIC; the schemas are asked of `PROGRAM schema`. Says how many records it checked, and
exits with 1 when one does not hold or a topic is empty.

    schemas.py --judge

reads a line of JSON, {"schemas": {NAME: SCHEMA}, "asked": [[NAME, VALUE in base64], …]}, and prints a line with a
character for each: 1 where the schema allows the value, 0 where not, - where Python reads no JSON of it, ! where draft
7, which AsyncAPI has, says something else than draft 2020-12.

    schemas.py --against SCHEMA FILE

checks a document against a schema of draft 7, and says what does not hold.
"""

import argparse
import base64
import json
import subprocess
import sys

from jsonschema import Draft7Validator, Draft202012Validator


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


def judge():
    question = json.loads(sys.stdin.readline())
    drafts = {}
    for name, schema in question["schemas"].items():
        Draft202012Validator.check_schema(schema)
        older = {member: value for member, value in schema.items() if member != "$schema"}
        Draft7Validator.check_schema(older)
        drafts[name] = (Draft202012Validator(schema), Draft7Validator(older))
    verdicts = []
    for name, value in question["asked"]:
        try:
            read = json.loads(base64.b64decode(value))
        except ValueError:
            verdicts.append("-")
            continue
        newer, older = (draft.is_valid(read) for draft in drafts[name])
        verdicts.append("!" if newer != older else "1" if newer else "0")
    print("".join(verdicts))


def against(schema, document):
    with open(schema) as file:
        schema = json.load(file)
    with open(document) as file:
        document = json.load(file)
    errors = list(Draft7Validator(schema).iter_errors(document))
    for error in errors[:20]:
        print(f"FOUND {error.json_path}: {error.message[:300]}")
    print(f"{len(errors)} faults")
    sys.exit(1 if errors else 0)


def check(servers, worker, checks):
    import topics

    is_fine = True
    for what, name, topic in (check.split(":", 2) for check in checks):
        schema = validator(worker, name)
        checked, faults = 0, []
        for message in topics.read(servers, topic):
            value = instance(what, message)
            if value is not None:
                checked += 1
                faults += [f"{message.partition()}/{message.offset()}: {error.json_path}: {error.message}"
                           for error in schema.iter_errors(value)]
        print(f"{checked} of {what} {name} checked, {len(faults)} faults ({topic})", *faults[:5], sep="\nFOUND ")
        is_fine = is_fine and checked > 0 and not faults
    return is_fine


def main():
    if sys.argv[1:] == ["--judge"]:
        return judge()
    if sys.argv[1:2] == ["--against"]:
        return against(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--worker", required=True)
    parser.add_argument("checks", nargs="+")
    options = parser.parse_args()
    sys.exit(not check(options.servers, options.worker, options.checks))


main()
