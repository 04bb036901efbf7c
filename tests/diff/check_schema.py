"""check_schema.py - validates JSON documents against docs/diff-report.schema.json.

    python3 check_schema.py SCHEMA PROGRAM    PROGRAM DIR writes DIR/*.json, at least five of them

Holds what that schema uses of JSON Schema, and refuses a schema that uses more. First proves that it can
fail: every required key is taken out once, and a wrong type and an unknown key put in.
"""

import copy
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

KNOWN = {"$schema", "$id", "title", "description", "$defs", "type", "required", "properties",
         "additionalProperties", "items", "minItems", "maxItems", "enum", "const", "oneOf", "$ref",
         "pattern", "minimum"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def errors(value, schema, root, path="$"):
    """errors - list of what is wrong with @value, each with its path"""
    unknown = set(schema) - KNOWN
    if unknown:
        raise SystemExit(f"the schema uses {sorted(unknown)}, which is not checked here")
    if "$ref" in schema:
        return errors(value, root["$defs"][schema["$ref"].split("/")[-1]], root, path)
    found = []
    if "oneOf" in schema:
        fits = [s for s in schema["oneOf"] if not errors(value, s, root, path)]
        if len(fits) != 1:
            found.append(f"{path}: fits {len(fits)} of oneOf")
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, n) for n in names):
            return found + [f"{path}: not {names}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is not in enum")
    if "const" in schema and value != schema["const"]:
        found.append(f"{path}: {value!r} is not {schema['const']!r}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{path}: below minimum")
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        found.append(f"{path}: {value!r} does not match {schema['pattern']}")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        found += [f"{path}: lacks {k}" for k in schema.get("required", []) if k not in value]
        for key, item in value.items():
            if key in properties:
                found += errors(item, properties[key], root, f"{path}.{key}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{path}: unknown key {key}")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{path}: {len(value)} items")
        for i, item in enumerate(value):
            found += errors(item, schema.get("items", {}), root, f"{path}[{i}]")
    return found


def must_fail(document, schema):
    """must_fail - damaged copies of @document are found out; returns how many were tried"""
    tried = 0
    for key in schema["required"]:
        bad = copy.deepcopy(document)
        del bad[key]
        assert errors(bad, schema, schema), key
        tried += 1
    for path, value in ((("verdict",), "same"), (("a", "events"), "7"), (("more",), 1),
                        (("counts", "compared"), -1)):
        bad = copy.deepcopy(document)
        at = bad
        for p in path[:-1]:
            at = at[p]
        at[path[-1]] = value
        assert errors(bad, schema, schema), path
        tried += 1
    return tried


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        schema = json.load(f)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[2], folder], check=True)
        files = sorted(glob.glob(os.path.join(folder, "*.json")))
        assert len(files) >= 5, files
        tried = 0
        for name in files:
            with open(name, encoding="utf-8") as f:
                document = json.load(f)
            wrong = errors(document, schema, schema)
            assert not wrong, (name, wrong)
            tried += must_fail(document, schema)
    print(f"{len(files)} reports fit, {tried} damaged ones do not")


if __name__ == "__main__":
    main()
