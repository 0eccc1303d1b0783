# SPDX-License-Identifier: Apache-2.0
"""What nobody plans: the server or a worker is killed while work is under way.

Whatever was acknowledged goes on; each activity runs at least once; every result is right.
"""
import contextlib
import os
import subprocess
import sys
import time

from durabletask.client import OrchestrationStatus
from durabletask.entities import EntityInstanceId

from harness import case, eventually, expect_equal, new_client, output
from norn_server import NornServer

INSTANCES_N = 50
STEPS_N = 5
HUB = "crash"


class World:
    """A server, a client and a worker process, all of which can be killed."""

    def __init__(self):
        self.server = NornServer()
        self.ledger = os.path.join(self.server.directory, "ledger")
        self.client = None
        self.worker = None

    def connect(self):
        """A channel whose server was away waits before it tries again; a new one does not."""
        if self.client is not None:
            self.client.close()
        self.client = new_client(self.server.address, HUB)

    def start_worker(self):
        program = os.path.join(os.path.dirname(__file__), "worker_process.py")
        self.worker = subprocess.Popen(
            [sys.executable, program, self.server.address, HUB, self.ledger],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        expect_equal("ready\n", self.worker.stdout.readline())

    def kill_worker(self):
        self.worker.kill()
        self.worker.wait()
        self.worker.stdout.close()

    def crash(self, away_seconds=0.3):
        self.server.kill()
        time.sleep(away_seconds)
        self.server.start()
        self.connect()

    def runs(self):
        """The activities that ran, each as often as it did."""
        if not os.path.exists(self.ledger):
            return []
        with open(self.ledger, encoding="utf-8") as ledger:
            return ledger.read().splitlines()

    def start_sequences(self):
        for n in range(INSTANCES_N):
            self.client.schedule_new_orchestration(
                "durable_sequence", input={"key": f"s{n}", "steps": STEPS_N}, instance_id=f"s{n}")

    def until_half_way(self):
        eventually(lambda: len(set(self.runs())) >= INSTANCES_N, "the first steps have run")

    def expect_sequences(self):
        for n in range(INSTANCES_N):
            expected = [f"s{n}/{step}" for step in range(STEPS_N)]
            expect_equal(expected, output(f"s{n}", self.client))
        expect_equal({f"s{n}/{step}" for n in range(INSTANCES_N) for step in range(STEPS_N)},
                     set(self.runs()))


@contextlib.contextmanager
def world():
    made = World()
    try:
        made.server.start()
        made.connect()
        made.start_worker()
        yield made
    finally:
        if made.worker is not None and made.worker.poll() is None:
            made.kill_worker()
        if made.client is not None:
            made.client.close()
        made.server.remove()


@case
def fifty_orchestrations_survive_kill_9_of_the_server():
    with world() as w:
        w.start_sequences()
        w.until_half_way()
        w.crash()
        w.expect_sequences()


@case
def fifty_orchestrations_survive_kill_9_of_their_worker():
    with world() as w:
        w.start_sequences()
        w.until_half_way()
        w.kill_worker()
        w.start_worker()
        w.expect_sequences()


@case
def a_start_that_was_acknowledged_is_there_after_a_kill():
    with world() as w:
        w.kill_worker()  # nothing moves: what is there was written by the start alone
        w.start_sequences()
        w.crash()
        for n in range(INSTANCES_N):
            expect_equal(OrchestrationStatus.PENDING,
                         w.client.get_orchestration_state(f"s{n}").runtime_status)
        w.start_worker()
        w.expect_sequences()


@case
def timers_events_children_and_entities_survive_kill_9_of_the_server():
    with world() as w:
        for n in range(10):
            w.client.schedule_new_orchestration("durable_mix", input=f"m{n}", instance_id=f"m{n}")
            w.client.raise_orchestration_event(f"m{n}", "go", data=n)  # before anybody waits
        eventually(lambda: len(set(w.runs())) >= 10, "every first step has run")
        w.crash(away_seconds=1.7)  # the timers fall due while there is no server
        for n in range(10):
            expect_equal([f"m{n}/first", n, f"m{n}/child/0", f"m{n}/child/1"],
                         output(f"m{n}", w.client))

        def tally():
            found = w.client.get_entity(EntityInstanceId("tally", "all"))
            return found is not None and found.get_state(int)

        eventually(lambda: tally() == 10, "ten signals, each once")
        w.crash()
        expect_equal(10, tally())


@case
def a_server_that_is_stopped_and_started_again_goes_on():
    with world() as w:
        w.start_sequences()
        w.until_half_way()
        w.server.stop()
        w.server.start()
        w.connect()
        w.expect_sequences()
