#!/usr/bin/env python3
"""Checks JSON against JSON Schemas.

    schemas.py --judge

reads a line of JSON, {"schemas": {NAME: SCHEMA}, "asked": [[NAME, VALUE in base64], …]}, and prints a line with a
character for each value: 1 if the schema allows it, 0 if not, - if it is not JSON for Python, ! if the result of draft
7, which AsyncAPI uses, differs from that of draft 2020-12.

    schemas.py --against SCHEMA FILE

checks a document against a schema of draft 7, and prints the violations.
"""

import base64
import json
import sys

from jsonschema import Draft7Validator, Draft202012Validator


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


if sys.argv[1:] == ["--judge"]:
    judge()
else:
    against(*sys.argv[2:])
