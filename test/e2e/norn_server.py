# SPDX-License-Identifier: Apache-2.0
"""A `norn server` of a test's own, and just enough of HTTP and gRPC to talk to it.

The HTTP/2 here is made by hand on purpose: the tests want connections that are half open, that do
not read and that say wrong things, which no library offers.
"""
import http.client
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
SERVICE = "/TaskHubSidecarService/"
# The letters of "grpc-status" in HPACK's Huffman code (RFC 7541, appendix B).
HUFFMAN = {"g": "100110", "r": "101100", "p": "101011", "c": "00100", "-": "010110", "s": "01000",
           "t": "01001", "a": "00011", "u": "101101"}


def huffman(text):
    bits = "".join(HUFFMAN[c] for c in text)
    bits += "1" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


GRPC_STATUS = huffman("grpc-status")


def field(number, value):
    """A protobuf field: text, bytes (a message) or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) \
        + payload


class Http2:
    """One connection; calls by hand, one after the other or side by side."""

    def __init__(self, port, timeout=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.next_stream = 1
        self.received = b""
        self.goaway = False
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))

    def begin(self, method, message):
        """Sends a whole request; answers its stream."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        head = b""
        for name, value in ((":method", "POST"), (":scheme", "http"), (":path", SERVICE + method),
                            (":authority", "norn"), ("content-type", "application/grpc"),
                            ("te", "trailers")):
            head += b"\0" + bytes([len(name)]) + name.encode() + varint(len(value)) + value.encode()
        body = b"\0" + struct.pack(">I", len(message)) + message
        out = frame(HEADERS, END_HEADERS, stream, head)
        for at in range(0, len(body), 16384):
            last = at + 16384 >= len(body)
            out += frame(DATA, END_STREAM if last else 0, stream, body[at:at + 16384])
        self.socket.sendall(out)
        return stream

    def read_frame(self):
        """(kind, flags, stream, payload), or None at the end of the connection."""
        while len(self.received) < 9 or len(self.received) < 9 + self.length():
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self.received += more
        length = self.length()
        kind, flags, stream = struct.unpack(">BBI", self.received[3:9])
        payload, self.received = self.received[9:9 + length], self.received[9 + length:]
        if kind == SETTINGS and not flags & ACK:
            self.socket.sendall(frame(SETTINGS, ACK, 0))
        if kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        if kind == GOAWAY:
            self.goaway = True
        return kind, flags, stream, payload

    def length(self):
        return int.from_bytes(self.received[:3], "big")

    def finish(self, stream):
        """(gRPC status, bytes of all messages with their prefixes) when the stream has ended."""
        data, status = b"", None
        while True:
            got = self.read_frame()
            if got is None:
                return None, data
            kind, flags, number, payload = got
            if number != stream:
                continue
            if kind == DATA:
                data += payload
            if kind == HEADERS and GRPC_STATUS in payload:
                at = payload.index(GRPC_STATUS) + len(GRPC_STATUS)
                status = int(payload[at + 1:at + 1 + payload[at]])
            if kind == RST_STREAM or flags & END_STREAM and kind in (DATA, HEADERS):
                return status, data

    def drain(self):
        """Reads to the end of the connection."""
        while self.read_frame() is not None:
            pass

    def close(self):
        self.socket.close()


class Server:
    """The process. Everything it prints is kept in out and err."""

    def __init__(self, norn, *arguments, wait=True, listen="127.0.0.1:0", **options):
        self.norn, self.arguments, self.options = norn, arguments, options
        words = [norn, "server", *arguments]
        if listen is not None:
            words += ["--listen", listen]
        self.err_path = options.pop("err_path", None) or os.path.join(os.getcwd(), "err.log")
        self.err_file = options.pop("stderr", None) or open(self.err_path, "wb")
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.err_file,
                                        stdin=subprocess.DEVNULL, **options)
        self.port, self.out = None, b""
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds=20):
        end = time.monotonic() + seconds
        while b"\n" not in self.out:
            readable, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            more = os.read(self.process.stdout.fileno(), 4096) if readable else b""
            if not more:
                raise AssertionError(f"not ready: {self.out} {self.err()}")
            self.out += more
        found = re.search(rb" ready on \S+:(\d+),", self.out)
        assert found, self.out
        self.port = int(found.group(1))

    def err(self):
        with open(self.err_path, "rb") as file:
            return file.read().decode()

    def get(self, path, method="GET", timeout=10):
        """(status, headers, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request(method, path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    def call(self, method, message=b""):
        """(gRPC status, first message)"""
        connection = Http2(self.port)
        status, data = connection.finish(connection.begin(method, message))
        connection.close()
        return status, data[5:]

    def start(self, instance, text=""):
        """StartInstance; answers the gRPC status."""
        return self.call("StartInstance",
                         field(1, instance) + field(2, "nobody-runs-this") +
                         field(4, field(1, text)))[0]

    def exists(self, instance):
        status, message = self.call("GetInstance", field(1, instance))
        assert status == 0, status
        return message.startswith(b"\x08\x01")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=15):
        """Its exit code."""
        self.out += self.process.communicate(timeout=seconds)[0] or b""
        return self.process.returncode

    def stop(self):
        self.signal(signal.SIGTERM)
        code = self.wait()
        assert code == 0, (code, self.err())

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
