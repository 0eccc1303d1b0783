# SPDX-License-Identifier: Apache-2.0
"""Entities: calls, signals, locks, queries."""
import time
from datetime import datetime, timedelta, timezone

from durabletask import entities as sdk
from durabletask import task
from durabletask.client import EntityQuery, OrchestrationStatus

import programs as p
from harness import (Shared, case, entity, eventually, expect_equal, new_client, new_id, new_worker,
                     orchestrator, output, run, running, start, wait)


@entity
class Counter(sdk.DurableEntity):
    def add(self, number):
        self.set_state(self.get_state(int, 0) + number)
        return self.get_state(int, 0)

    def get(self):
        return self.get_state(int, 0)

    def refuse(self):
        raise ValueError("refused")

    def pass_on(self, to):
        self.signal_entity(sdk.EntityInstanceId("Counter", to), "add", 1)

    def begin(self, instance_id):
        self.schedule_new_orchestration("sequence", 2, instance_id=instance_id)


def counter(key):
    return sdk.EntityInstanceId("Counter", key)


@orchestrator
def signals_and_calls(ctx, key):
    ctx.signal_entity(counter(key), "add", 5)
    return (yield ctx.call_entity(counter(key), "add", 2))


@orchestrator
def calls_refusing(ctx, key):
    try:
        yield ctx.call_entity(counter(key), "refuse")
    except task.TaskFailedError as error:
        return "refused" in str(error)


@orchestrator
def adds_in_section(ctx, keys):
    """Not atomic but for the locks: reads, sleeps, and adds what makes the sum even."""
    with (yield ctx.lock_entities([counter(key) for key in keys])):
        before = yield ctx.call_entity(counter(keys[0]), "get")
        yield ctx.create_timer(timedelta(milliseconds=20))
        after = yield ctx.call_entity(counter(keys[0]), "add", 1)
    return after - before


@orchestrator
def fails_in_section(ctx, key):
    with (yield ctx.lock_entities([counter(key)])):
        raise ValueError("with the lock")


def state_of(key, c=None):
    found = (c or Shared.client).get_entity(counter(key))
    return None if found is None else found.get_state(int)


@case
def signals_of_a_client_are_applied_each_once_and_in_order():
    key = new_id()
    for _ in range(50):
        Shared.client.signal_entity(counter(key), "add", 1)
    eventually(lambda: state_of(key) == 50, "fifty signals, each once")


@case
def an_orchestration_signals_and_calls_an_entity():
    expect_equal(7, run(signals_and_calls, new_id()))


@case
def the_failure_of_an_operation_comes_back_to_the_caller():
    expect_equal(True, run(calls_refusing, new_id()))


@case
def an_entity_that_is_unknown_has_no_state():
    expect_equal(None, Shared.client.get_entity(counter("nobody")))


@case
def an_entity_signals_another_and_starts_an_orchestration():
    key, other, instance_id = new_id(), new_id(), new_id()
    Shared.client.signal_entity(counter(key), "pass_on", other)
    eventually(lambda: state_of(other) == 1, "the signal was passed on")
    Shared.client.signal_entity(counter(key), "begin", instance_id)
    eventually(lambda: Shared.client.get_orchestration_state(instance_id) is not None, "begun")
    expect_equal(2, output(instance_id))


@case
def critical_sections_exclude_each_other():
    keys = [new_id(), new_id()]
    ids = [start(adds_in_section, keys if n % 2 else keys[::-1]) for n in range(10)]
    expect_equal([1] * 10, [output(instance_id) for instance_id in ids])


@case
def an_orchestration_that_fails_gives_its_locks_back():
    key = new_id()
    expect_equal(OrchestrationStatus.FAILED, wait(start(fails_in_section, key)).runtime_status)
    expect_equal(1, run(adds_in_section, [key]))


@case
def a_signal_with_a_time_waits_for_it():
    key = new_id()
    at = datetime.now(timezone.utc) + timedelta(seconds=1)
    Shared.client.signal_entity(counter(key), "add", 1, signal_time=at)
    time.sleep(0.3)
    expect_equal(None, state_of(key))
    eventually(lambda: state_of(key) == 1, "the signal")
    assert datetime.now(timezone.utc) >= at


@case
def entities_are_listed_apart_from_orchestrations():
    c = new_client(Shared.server.address, "entity-lists")
    with running(new_worker(Shared.server.address, "entity-lists")):
        for n in range(5):
            c.signal_entity(counter(f"k{n}"), "add", n + 1)
        wait(start(p.sequence, 1, c), c)
        eventually(lambda: all(state_of(f"k{n}", c) == n + 1 for n in range(5)), "five entities")
    found = c.get_all_entities(EntityQuery(instance_id_starts_with="@counter@", page_size=2))
    expect_equal([f"k{n}" for n in range(5)], sorted(e.id.key for e in found))
    expect_equal(1, len(c.get_all_orchestration_states()))
    c.close()
