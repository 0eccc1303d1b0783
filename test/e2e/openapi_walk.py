# SPDX-License-Identifier: Apache-2.0
"""Requests made from an OpenAPI document, and what their answers must be.

For each operation: requests that are as the document says, and requests that are not. Every answer
must have a status and a type that the document names, and a body that fits its schema; 5xx is never
right, except for a 503 that is documented and says when to come again.
"""
import http.client
import json
import random
import re
import socket
import urllib.parse

import jsonschema

# For schemas with a pattern: the first of these that fits. A schema that nothing here fits needs
# `examples` of its own.
TEXTS = ["order-1", "a", "default", "0", "-", "t=1", "failed", "failed,completed", "2h", "50ms",
         "https://127.0.0.1:1/x", "2026-11-15T12:00:00Z", "first", "10s", "true", "wait=1", "x" * 32]
SHORT = "50ms"  # of what waits for something that does not come
STRANGE = ["", "ä ö", "\"", "a b", "%", "../..", "x" * 300, "null", "\u2028", "'", "<b>", "0", "-1"]


class Document:
    def __init__(self, text):
        self.root = json.loads(text)
        self.operations = []
        for path, item in self.root["paths"].items():
            shared = item.get("parameters", [])
            for method, operation in item.items():
                if method == "parameters":
                    continue
                self.operations.append(Operation(self, method.upper(), path, shared, operation))

    def follow(self, thing):
        while "$ref" in thing:
            at = self.root
            for part in thing["$ref"].removeprefix("#/").split("/"):
                at = at[part.replace("~1", "/").replace("~0", "~")]
            thing = at
        return thing

    def problem_of(self, schema, value):
        """None when the value fits the schema."""
        whole = dict(schema, components=self.root["components"])
        error = next(iter(jsonschema.Draft202012Validator(whole).iter_errors(value)), None)
        return None if error is None else f"{error.message[:300]} at {list(error.absolute_path)}"


class Operation:
    def __init__(self, document, method, path, shared, operation):
        self.document, self.method, self.path = document, method, path
        self.id = operation["operationId"]
        self.parameters = [document.follow(p) for p in shared + operation.get("parameters", [])]
        self.responses = {code: document.follow(r) for code, r in operation["responses"].items()}
        self.body, self.body_type, self.is_body_needed = None, None, False
        request = document.follow(operation.get("requestBody", {}))
        for kind, media in request.get("content", {}).items():
            if self.body_type is None or kind == "application/json":
                self.body_type, self.body = kind, media["schema"]
        self.is_body_needed = request.get("required", False)
        schema = document.follow(self.body or {})
        self.can_wait = "wait" in schema.get("properties", {})


# ---- values ----

class Maker:
    """Values from schemas; the same seed gives the same values. `known`: names of path parameters and
    fields to values that exist."""

    def __init__(self, document, seed, known):
        self.document, self.random, self.known = document, random.Random(seed), known

    def text(self, schema):
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if schema.get("format") == "date-time":
            return "2026-11-15T12:00:00Z"
        if schema.get("examples"):
            return self.random.choice(schema["examples"])
        fits = [t for t in TEXTS
                if schema.get("minLength", 0) <= len(t) <= schema.get("maxLength", 1000)
                and ("pattern" not in schema or re.search(schema["pattern"], t))]
        if not fits:
            raise AssertionError(f"the schema {schema} needs an example")
        return self.random.choice(fits)

    def anything(self, depth=0):
        r = self.random
        kind = r.randrange(8 if depth < 3 else 5)
        if kind < 5:
            return [None, True, r.randrange(-9, 9999), r.random() * 1e9, r.choice(STRANGE)][kind]
        if kind == 5:
            return [self.anything(depth + 1) for _ in range(r.randrange(4))]
        return {r.choice(STRANGE) or "k": self.anything(depth + 1) for _ in range(r.randrange(4))}

    def value(self, schema, name=None):
        schema = self.document.follow(schema)
        if name in self.known and self.random.random() < 0.8:
            return self.random.choice(self.known[name])
        for many in ("oneOf", "anyOf"):
            if many in schema:
                return self.value(self.random.choice(schema[many]))
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.random.choice(kind)
        if kind == "string":
            return self.text(schema)
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind in ("integer", "number"):
            low = schema.get("minimum", 0)
            return self.random.randint(low, min(schema.get("maximum", low + 50), low + 50))
        if kind == "array":
            return [self.value(schema.get("items", {})) for _ in range(self.random.randrange(3))]
        if kind == "object":
            return self.object(schema)
        if kind == "null":
            return None
        return self.anything()

    def object(self, schema):
        out = {}
        for name, part in schema.get("properties", {}).items():
            if name in schema.get("required", []) or self.random.random() < 0.3:
                out[name] = self.value(part, name)
        return out


# ---- requests ----

def text_of(value):
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def quote(text):
    return urllib.parse.quote(text_of(text), safe="")


class Request:
    """A request of an operation, as the document says it; `broken` names what was changed."""

    def __init__(self, operation, maker):
        self.operation, self.broken = operation, None
        self.headers, self.query = {"Host": "localhost"}, {}
        path = operation.path
        for p in operation.parameters:
            needed = p.get("required", False)
            if not needed and maker.random.random() > (0.15 if p["in"] == "header" else 0.25):
                continue
            value = maker.value(p["schema"], p["name"] if p["in"] == "path" else None)
            if p["in"] == "path":
                path = path.replace("{%s}" % p["name"], quote(value))
            elif p["in"] == "query":
                self.query[p["name"]] = SHORT if p["name"] == "wait" else value
            else:
                self.headers[p["name"]] = p.get("example") or text_of(value)
        self.path, self.method, self.body = path, operation.method, None
        if operation.body is None:
            return
        if operation.is_body_needed or operation.can_wait or maker.random.random() < 0.7:
            self.headers["Content-Type"] = operation.body_type
            value = maker.value(operation.body)
            if operation.can_wait:
                value["wait"] = SHORT
            self.body = json.dumps(value, ensure_ascii=maker.random.random() < 0.5).encode()

    def url(self):
        if not self.query:
            return self.path
        return self.path + "?" + "&".join(f"{quote(k)}={quote(v)}" for k, v in self.query.items())

    def __str__(self):
        return f"{self.method} {self.url()} {self.body!r:.200} ({self.broken or 'as documented'})"


def breakages(operation, maker):
    """Ways to make a request wrong: (name, statuses that are right, change)."""
    def parameter(r):
        r.query["no-such"] = "1"

    def twice(r):
        r.path += "?hub=a&hub=b"
        r.query = {}

    def hub(r):
        r.query["hub"] = "a/b"

    def host(r):
        r.headers["Host"] = "norn.example"

    def origin(r):
        r.headers["Origin"] = "http://norn.example"

    def escape(r):
        r.path += "%"

    yield "an unknown parameter", {400}, parameter
    yield "a parameter twice", {400}, twice
    yield "a hub that is none", {400}, hub
    yield "another Host", {421}, host
    if operation.path.endswith("}"):
        yield "a bad escape", {400}, escape
    if operation.method != "GET":
        yield "another Origin", {403}, origin
    if operation.body is None:
        return

    def cut(r):
        r.body = (r.body or b"{}")[:-1] + b"\xff"
        r.headers["Content-Type"] = operation.body_type

    def garbage(r):
        r.body = bytes(maker.random.randrange(256) for _ in range(maker.random.randrange(1, 60)))
        r.headers["Content-Type"] = operation.body_type

    def another_type(r):
        r.body, r.headers["Content-Type"] = b"<a/>", "application/xml"

    def any_value(r):
        value = maker.anything()
        r.body = json.dumps([value] if operation.can_wait else value).encode()
        r.headers["Content-Type"] = operation.body_type

    yield "a cut body", None, cut
    yield "garbage as body", None, garbage
    yield "XML", None, another_type
    yield "any value as body", None, any_value
    schema = operation.document.follow(operation.body)
    if schema.get("additionalProperties") is False and operation.body_type == "application/json":
        def field(r):
            r.body = b'{"noSuchField":1}'
            r.headers["Content-Type"] = operation.body_type
        yield "an unknown field", {400, 404}, field


# ---- answers ----

def send(address, request, timeout=20):
    """(status, headers, body). Of a stream without end: what came in half a second."""
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        connection.putrequest(request.method, request.url(), skip_host=True,
                              skip_accept_encoding=True)
        for name, value in request.headers.items():
            connection.putheader(name, value.encode())
        if request.body is not None:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        answer = connection.getresponse()
        if (answer.getheader("Content-Type") or "").startswith("text/event-stream"):
            connection.sock.settimeout(0.5) if connection.sock else None
            try:
                return answer.status, answer.headers, answer.read1(65536)
            except (TimeoutError, socket.timeout):
                return answer.status, answer.headers, b""
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def check(operation, request, answer, right=None):
    """None when the answer is as the document says; else what is wrong with it."""
    status, headers, body = answer
    kind = (headers.get("Content-Type") or "").split(";")[0]
    documented = operation.responses.get(str(status))
    if right is not None and status not in right:
        return f"{status} is not one of {sorted(right)}: {body!r:.300}"
    if documented is None:
        return f"{status} is not documented: {body!r:.300}"
    if status >= 500 and status != 503:
        return f"{status}: {body!r:.300}"
    if status in (429, 503) and not (headers.get("Retry-After") or "").isdigit():
        return f"{status} without Retry-After"
    content = documented.get("content", {})
    if not content:
        return None if not body else f"{status} has a body, and none is documented"
    if kind not in content:
        return f"{status} is {kind}, which is not one of {list(content)}"
    schema = content[kind].get("schema", {})
    if kind.endswith("json") and kind != "application/x-ndjson":
        try:
            value = json.loads(body)
        except ValueError:
            return f"the body of {status} is not JSON: {body!r:.300}"
        problem = operation.document.problem_of(schema, value)
        return None if problem is None else f"the body of {status} does not fit: {problem}"
    if kind == "application/x-ndjson":
        for line in body.splitlines():
            problem = operation.document.problem_of(schema, json.loads(line))
            if problem is not None:
                return f"a line of {status} does not fit: {problem}"
    return None
