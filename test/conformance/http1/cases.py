# SPDX-License-Identifier: Apache-2.0
"""Requests in bytes, good and hostile. A case is (name, bytes); names of a kind share their start."""

HOST = b"Host: x\r\n"
GET = b"GET /a?b=c HTTP/1.1\r\n" + HOST + b"X-A: v\r\n\r\n"
CHUNKED = b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n"

# Every byte in every place: what may stand there, and what a reader makes of what may not.
PLACES = {
    "method start": b"@GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "method": b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
    "before target": b"GET @/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "target": b"GET /a@b HTTP/1.1\r\nHost: x\r\n\r\n",
    "query": b"GET /a?b@c HTTP/1.1\r\nHost: x\r\n\r\n",
    "after target": b"GET /@ HTTP/1.1\r\nHost: x\r\n\r\n",
    "protocol": b"GET / HTTP@1.1\r\nHost: x\r\n\r\n",
    "major": b"GET / HTTP/@.1\r\nHost: x\r\n\r\n",
    "minor": b"GET / HTTP/1.@\r\nHost: x\r\n\r\n",
    "after version": b"GET / HTTP/1.1@\r\nHost: x\r\n\r\n",
    "first line end": b"GET / HTTP/1.1@\nHost: x\r\n\r\n",
    "name start": b"GET / HTTP/1.1\r\nHost: x\r\n@X-A: v\r\n\r\n",
    "name": b"GET / HTTP/1.1\r\nHost: x\r\nX@A: v\r\n\r\n",
    "name end": b"GET / HTTP/1.1\r\nHost: x\r\nX-A@: v\r\n\r\n",
    "value start": b"GET / HTTP/1.1\r\nHost: x\r\nX-A:@v\r\n\r\n",
    "value": b"GET / HTTP/1.1\r\nHost: x\r\nX-A: v@w\r\n\r\n",
    "value end": b"GET / HTTP/1.1\r\nHost: x\r\nX-A: v@\r\n\r\n",
    "field line end": b"GET / HTTP/1.1\r\nHost: x\r\nX-A: v@\n\r\n",
    "head end": b"GET / HTTP/1.1\r\nHost: x\r\n@\n",
    "host": b"GET / HTTP/1.1\r\nHost: x@y\r\n\r\n",
    "between requests": GET + b"@" + GET,
    "length start": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:@5\r\n\r\nhello",
    "length end": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5@\r\n\r\nhello",
    "length name": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length@: 5\r\n\r\nhello",
    "coding start": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:@chunked\r\n\r\n0\r\n\r\n",
    "coding end": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked@\r\n\r\n0\r\n\r\n",
    "coding name": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding@: chunked\r\n\r\n0\r\n\r\n",
    "chunk size start": CHUNKED + b"\r\n@5\r\nhello\r\n0\r\n\r\n",
    "chunk size end": CHUNKED + b"\r\n5@\r\nhello\r\n0\r\n\r\n",
    "chunk line end": CHUNKED + b"\r\n5@\nhello\r\n0\r\n\r\n",
    "chunk extension": CHUNKED + b"\r\n5;a@b\r\nhello\r\n0\r\n\r\n",
    "chunk data end": CHUNKED + b"\r\n5\r\nhello@\n0\r\n\r\n",
    "chunk data over": CHUNKED + b"\r\n5\r\nhello@\r\n0\r\n\r\n",
    "last chunk end": CHUNKED + b"\r\n5\r\nhello\r\n0@\n\r\n",
    "trailer start": CHUNKED + b"\r\n0\r\n@A: b\r\n\r\n",
    "trailer name": CHUNKED + b"\r\n0\r\nA@B: c\r\n\r\n",
    "trailer value": CHUNKED + b"\r\n0\r\nA: b@c\r\n\r\n",
    "trailer end": CHUNKED + b"\r\n0\r\nA: b\r\n@\n",
}


def head(*lines):
    return b"\r\n".join(lines) + b"\r\n\r\n"


def post(*fields, body=b""):
    return head(b"POST /a HTTP/1.1", b"Host: x", *fields) + body


def good():
    yield "good get", GET
    yield "good root", head(b"GET / HTTP/1.1", b"Host: x")
    yield "good http/1.0", head(b"GET / HTTP/1.0")
    yield "good http/1.0 with host", head(b"GET / HTTP/1.0", b"Host: x")
    yield "good options", head(b"OPTIONS * HTTP/1.1", b"Host: x")
    yield "good body", post(b"Content-Length: 5", body=b"hello")
    yield "good empty body", post(b"Content-Length: 0")
    yield "good leading zeros", post(b"Content-Length: 005", body=b"hello")
    yield "good body of crlf", post(b"Content-Length: 4", body=b"\r\n\r\n")
    yield "good body of a request", post(b"Content-Length: %d" % len(GET), body=GET) + GET
    yield "good chunked", post(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n")
    yield "good chunked upper case", post(b"TRANSFER-ENCODING: Chunked", body=b"0\r\n\r\n") + GET
    yield "good chunk sizes", post(b"Transfer-Encoding: chunked",
                                   body=b"A\r\n0123456789\r\n0a\r\n0123456789\r\n00\r\n\r\n") + GET
    yield "good chunk of crlf", post(b"Transfer-Encoding: chunked",
                                     body=b"2\r\n\r\n\r\n0\r\n\r\n") + GET
    yield "good trailers", post(b"Transfer-Encoding: chunked",
                                body=b"1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n") + GET
    yield "good extensions", post(b"Transfer-Encoding: chunked",
                                  body=b"1;a=b;c=\"d\"\r\nx\r\n0;e\r\n\r\n") + GET
    yield "good pipeline", GET * 5
    yield "good close", head(b"GET / HTTP/1.1", b"Host: x", b"Connection: close") + GET
    yield "good keep-alive", head(b"GET / HTTP/1.1", b"Host: x", b"Connection: keep-alive") + GET
    yield "good continue", post(b"Expect: 100-continue", b"Content-Length: 5", body=b"hello")
    yield "good empty line before", b"\r\n" + GET
    yield "good spaces around value", head(b"GET / HTTP/1.1", b"Host: x", b"X-A: \t v w \t")
    yield "good no space before value", head(b"GET / HTTP/1.1", b"Host:x", b"X-A:v")
    yield "good empty value", head(b"GET / HTTP/1.1", b"Host: x", b"X-A:")
    yield "good many fields", head(b"GET / HTTP/1.1", b"Host: x", *[b"F%d: v" % i for i in range(60)])
    yield "good long value", head(b"GET / HTTP/1.1", b"Host: x", b"X-A: " + b"v" * 4000)
    yield "good long target", head(b"GET /" + b"a" * 4000 + b" HTTP/1.1", b"Host: x")
    yield "good repeated field", head(b"GET / HTTP/1.1", b"Host: x", b"X-A: 1", b"X-A: 2")
    for method in b"GET HEAD PUT DELETE PATCH OPTIONS TRACE REPORT MKCOL".split():
        yield f"good method {method.decode()}", head(method + b" /a HTTP/1.1", b"Host: x") + GET
    for at in range(1, len(GET)):
        yield f"cut head {at}", GET[:at]
    chunked = post(b"Transfer-Encoding: chunked", body=b"5;a\r\nhello\r\n0\r\nA: b\r\n\r\n")
    for at in range(len(chunked) - 26, len(chunked)):
        yield f"cut chunks {at}", chunked[:at]
    yield "cut body", post(b"Content-Length: 5", body=b"hell")


def hostile():
    both = [b"Content-Length: 5", b"Transfer-Encoding: chunked"]
    yield "both lengths 1", post(*both, body=b"0\r\n\r\n")
    yield "both lengths 2", post(*reversed(both), body=b"0\r\n\r\n")
    yield "both lengths, http/1.0", head(b"POST / HTTP/1.0", *both) + b"0\r\n\r\n"
    yield "length twice equal", post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello")
    yield "length twice unequal", post(b"Content-Length: 5", b"Content-Length: 6", body=b"hello!")
    yield "length list equal", post(b"Content-Length: 5, 5", body=b"hello")
    yield "length list unequal", post(b"Content-Length: 5, 6", body=b"hello!")
    for value in [b"", b"+5", b"-5", b"5.0", b"0x5", b"5 5", b"five", b"5,", b"1e1",
                  b"18446744073709551621", b"99999999999999999999999999"]:
        yield f"length {value.decode() or 'empty'}", post(b"Content-Length: " + value, body=b"hello")
    for value in [b"", b"identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked",
                  b"chunked;q=1", b"xchunked", b"chunkedx", b"\"chunked\"", b"chunked,", b",chunked",
                  b"identity, chunked", b"chunked, identity"]:
        yield f"coding {value.decode() or 'empty'}", post(b"Transfer-Encoding: " + value,
                                                          body=b"0\r\n\r\n")
    yield "coding twice", post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked",
                               body=b"0\r\n\r\n")
    yield "coding twice, one unknown", post(b"Transfer-Encoding: chunked",
                                            b"Transfer-Encoding: identity", body=b"0\r\n\r\n")
    yield "coding in http/1.0", head(b"POST / HTTP/1.0", b"Transfer-Encoding: chunked") + b"0\r\n\r\n"
    yield "coding folded", post(b"Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n")
    yield "folded value", head(b"GET / HTTP/1.1", b"Host: x", b"X-A: v\r\n w")
    yield "folded value, tab", head(b"GET / HTTP/1.1", b"Host: x", b"X-A: v\r\n\tw")
    yield "folded first field", head(b"GET / HTTP/1.1", b" X-A: v", b"Host: x")
    yield "space before colon", head(b"GET / HTTP/1.1", b"Host : x")
    yield "no colon", head(b"GET / HTTP/1.1", b"Host: x", b"X-A")
    yield "no name", head(b"GET / HTTP/1.1", b"Host: x", b": v")
    yield "lf only", GET.replace(b"\r\n", b"\n")
    yield "lf only, chunks", CHUNKED + b"\r\n5\nhello\n0\n\n"
    yield "cr only", GET.replace(b"\r\n", b"\r")
    yield "lf cr", GET.replace(b"\r\n", b"\n\r")
    yield "head ends lf", GET[:-2] + b"\n"
    yield "nul in value", head(b"GET / HTTP/1.1", b"Host: x", b"X-A: v\0w")
    yield "no host", head(b"GET / HTTP/1.1")
    yield "host twice", head(b"GET / HTTP/1.1", b"Host: x", b"Host: x")
    yield "host twice unequal", head(b"GET / HTTP/1.1", b"Host: x", b"Host: y")
    yield "no version", b"GET /\r\n\r\n"
    yield "version 0.9", head(b"GET / HTTP/0.9", b"Host: x")
    yield "version 1.2", head(b"GET / HTTP/1.2", b"Host: x")
    yield "version 2.0", head(b"GET / HTTP/2.0", b"Host: x")
    yield "version 1.10", head(b"GET / HTTP/1.10", b"Host: x")
    yield "version 01.1", head(b"GET / HTTP/01.1", b"Host: x")
    yield "version lower case", head(b"GET / http/1.1", b"Host: x")
    yield "version of another", head(b"GET / ICY/1.1", b"Host: x")
    yield "version of rtsp", head(b"GET / RTSP/1.0", b"Host: x")
    yield "two spaces 1", head(b"GET  / HTTP/1.1", b"Host: x")
    yield "two spaces 2", head(b"GET /  HTTP/1.1", b"Host: x")
    yield "tab between", head(b"GET\t/\tHTTP/1.1", b"Host: x")
    yield "four words", head(b"GET / x HTTP/1.1", b"Host: x")
    yield "no target", head(b"GET HTTP/1.1", b"Host: x")
    yield "no method", head(b"/ HTTP/1.1", b"Host: x")
    yield "method lower case", head(b"get / HTTP/1.1", b"Host: x")
    yield "method unknown", head(b"NORN / HTTP/1.1", b"Host: x")
    yield "connect", head(b"CONNECT x:1 HTTP/1.1", b"Host: x")
    yield "target absolute", head(b"GET http://x/y?z HTTP/1.1", b"Host: x")
    yield "target absolute, no path", head(b"GET http://x HTTP/1.1", b"Host: x")
    yield "target absolute, https", head(b"GET https://x/y HTTP/1.1", b"Host: x")
    yield "target relative", head(b"GET a HTTP/1.1", b"Host: x")
    yield "target with fragment", head(b"GET /a#b HTTP/1.1", b"Host: x")
    yield "target not ascii", head("GET /ä HTTP/1.1".encode(), b"Host: x")
    yield "target star", head(b"GET * HTTP/1.1", b"Host: x")
    yield "expect unknown", post(b"Expect: tea", b"Content-Length: 0")
    yield "two empty lines before", b"\r\n\r\n" + GET
    yield "lf before", b"\n" + GET
    yield "space before", b" " + GET
    yield "tls", b"\x16\x03\x01\x02\x00\x01\x00"
    yield "binary", bytes(range(256))
    yield "http/2 upgrade", head(b"GET / HTTP/1.1", b"Host: x", b"Connection: Upgrade, HTTP2-Settings",
                                 b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")
    yield "long head", head(b"GET / HTTP/1.1", b"Host: x", b"X-A: " + b"v" * 70000)
    yield "many fields", head(b"GET / HTTP/1.1", b"Host: x", *[b"F%d: v" % i for i in range(70)])
    for size in [b"", b"0x5", b"+5", b"-5", b" 5", b"5 ", b"5\t", b"g", b"5g", b"5;", b"5 ;a", b"5; a",
                 b"5;a=\"b\"", b"00000000000000005", b"10000000000000005", b"fffffffffffffffff",
                 b"5\r"]:
        yield f"chunk size {size!r}", CHUNKED + b"\r\n" + size + b"\r\nhello\r\n0\r\n\r\n"
    yield "chunk too short", CHUNKED + b"\r\n4\r\nhello\r\n0\r\n\r\n"
    yield "chunk too long", CHUNKED + b"\r\n6\r\nhello\r\n0\r\n\r\n"
    yield "chunk without crlf", CHUNKED + b"\r\n5\r\nhello0\r\n\r\n"
    yield "chunk extension of lf", CHUNKED + b"\r\n5;a\nhello\r\n0\r\n\r\n"
    yield "chunk extension long", CHUNKED + b"\r\n5;" + b"a" * 20000 + b"\r\nhello\r\n0\r\n\r\n"
    yield "trailer folded", CHUNKED + b"\r\n0\r\nA: b\r\n c\r\n\r\n"
    yield "trailer without colon", CHUNKED + b"\r\n0\r\nA\r\n\r\n"
    yield "trailer of a length", CHUNKED + b"\r\n0\r\nContent-Length: 5\r\n\r\n" + GET
    yield "trailers long", CHUNKED + b"\r\n0\r\n" + b"A: b\r\n" * 4000 + b"\r\n"
    yield "smuggled by chunks", CHUNKED + b"Content-Length: 4\r\n\r\n5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n"


def all_cases():
    yield from good()
    yield from hostile()
    for place, template in PLACES.items():
        for byte in range(256):
            yield f"{place} 0x{byte:02x}", template.replace(b"@", bytes([byte]))
