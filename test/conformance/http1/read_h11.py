# SPDX-License-Identifier: Apache-2.0
"""What h11 makes of bytes; see read_norn.c for what goes in and out."""
import json
import sys

import h11

FIELDS = ["host", "content-length", "content-type", "x-a"]


def describe(request, body):
    path, _, query = request.target.partition(b"?")
    fields = {}
    for name, value in reversed(list(request.headers)):
        if name.decode("latin1") in FIELDS and value:
            fields[name.decode("latin1")] = value.hex()
    return {"method": request.method.hex(), "path": path.hex(), "query": query.hex(),
            "fields": fields, "body": body.hex()}


def read(data):
    connection = h11.Connection(h11.SERVER)
    requests = []
    request, body = None, b""
    if data:
        connection.receive_data(data)
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return {"requests": requests, "end": "refused"}
        if event is h11.NEED_DATA:
            is_left = request is not None or connection.trailing_data[0] != b""
            return {"requests": requests, "end": "more" if is_left else "done"}
        if isinstance(event, h11.Request):
            request, body = event, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            requests.append(describe(request, body))
            request = None
            connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            if connection.our_state is h11.SWITCHED_PROTOCOL:
                return {"requests": requests, "end": "done"}
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return {"requests": requests, "end": "done"}
            connection.start_next_cycle()
        else:  # the peer, or the protocol, is over
            return {"requests": requests, "end": "done"}


for line in sys.stdin:
    print(json.dumps(read(bytes.fromhex(line.strip()))))
