# SPDX-License-Identifier: Apache-2.0
"""What the cases share: the list of cases, their report, and one server with a client and a worker.

A case is a function with @case; its name with spaces is its sentence. A case that needs a hub, a
worker or a server of its own makes one.
"""
import contextlib
import logging
import sys
import time
import traceback
import uuid

from durabletask import client, worker

from norn_server import NornServer

# Far above what anything takes here, also on a busy machine: a case that reaches it hangs.
WAIT_SECONDS = 60

cases = []
orchestrators = []
activities = []
entities = []


def case(function):
    cases.append(function)
    return function


def orchestrator(function):
    orchestrators.append(function)
    return function


def activity(function):
    activities.append(function)
    return function


def entity(function):
    entities.append(function)
    return function


class Shared:
    """The server that most cases use."""
    server = None
    client = None


def quiet_logger():
    """The SDK tells each lost connection with its stack; the report is read by people."""
    logger = logging.getLogger("interop")
    logger.setLevel(logging.CRITICAL)
    return logger


def new_client(address, hub="main", **options):
    return client.TaskHubGrpcClient(host_address=address, metadata=[("taskhub", hub)],
                                    logger=quiet_logger(), **options)


def new_worker(address, hub="main", programs=None, **options):
    """Knows every program unless some are named; not started."""
    made = worker.TaskHubGrpcWorker(host_address=address, metadata=[("taskhub", hub)],
                                    logger=quiet_logger(), **options)
    for add, functions in ((made.add_orchestrator, orchestrators),
                           (made.add_activity, activities), (made.add_entity, entities)):
        for function in functions:
            if programs is None or function in programs:
                add(function)
    return made


@contextlib.contextmanager
def running(made):
    made.start()
    try:
        yield made
    finally:
        made.stop()


def new_id(prefix="i"):
    return f"{prefix}-{uuid.uuid4().hex}"


def start(function, value=None, c=None, **options):
    return (c or Shared.client).schedule_new_orchestration(function, input=value, **options)


def wait(instance_id, c=None):
    state = (c or Shared.client).wait_for_orchestration_completion(instance_id, timeout=WAIT_SECONDS)
    assert state is not None, f"{instance_id} is not there"
    return state


def output(instance_id, c=None):
    state = wait(instance_id, c)
    assert state.runtime_status == client.OrchestrationStatus.COMPLETED, state
    return state.get_output()


def run(function, value=None):
    return output(start(function, value))


def eventually(is_true, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def expect_equal(expected, got):
    assert expected == got, f"expected {expected!r}, got {got!r}"


def expect_raises(kind, function):
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def report(wanted):
    """Runs the cases that contain a wanted word, or all; the number of failures."""
    chosen = [c for c in cases if not wanted or any(word in c.__name__ for word in wanted)]
    failed_n = 0
    Shared.server = NornServer()
    Shared.server.start()
    Shared.client = new_client(Shared.server.address)
    print(f"1..{len(chosen)}")
    with running(new_worker(Shared.server.address)):
        for number, function in enumerate(chosen, 1):
            name = function.__name__.replace("_", " ")
            began = time.monotonic()
            try:
                function()
                print(f"ok {number} - {name}")
            except Exception:  # a case may fail in any way
                failed_n += 1
                print(f"not ok {number} - {name}")
                print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"{time.monotonic() - began:6.2f} s  {name}", file=sys.stderr, flush=True)
            sys.stdout.flush()
    Shared.client.close()
    Shared.server.remove()
    return failed_n
