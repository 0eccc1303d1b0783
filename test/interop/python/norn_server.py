# SPDX-License-Identifier: Apache-2.0
"""A norn server of a test's own, in a temporary data directory.

The port is chosen by the system at the first start and kept afterwards, so that clients and workers
find the server again after a kill.
"""
import os
import re
import shutil
import subprocess
import tempfile


class NornServer:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="norn-interop-")
        self.address = "127.0.0.1:0"
        self.process = None

    def start(self):
        log_path = os.path.join(self.directory, "server.log")
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen(
                [os.environ["NORN"], "server", "--data", os.path.join(self.directory, "data"),
                 "--listen", self.address],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        found = re.search(r" ready on (\S+:\d+)", line)
        if found is None:
            with open(log_path, encoding="utf-8", errors="replace") as log:
                raise RuntimeError(f"the server is not ready; it printed: {line}{log.read()[-2000:]}")
        self.address = found[1]

    def kill(self):
        """As a power cut would: no warning, nothing is flushed."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def stop(self):
        self.process.terminate()
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.process = None
        if code != 0:
            raise RuntimeError(f"the server ended with {code}")

    def remove(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
