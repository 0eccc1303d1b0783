# SPDX-License-Identifier: Apache-2.0
"""What a client can do with orchestrations."""
from datetime import datetime, timedelta, timezone

import grpc
from durabletask.client import OrchestrationQuery, OrchestrationStatus

import programs as p
from harness import (Shared, case, eventually, expect_equal, expect_raises, new_client, new_id,
                     new_worker, output, running, start, wait)


def status_of(instance_id):
    return Shared.client.get_orchestration_state(instance_id).runtime_status


@case
def a_running_id_is_refused_and_a_finished_one_can_be_used_again():
    instance_id = start(p.collect_events, 1)
    error = expect_raises(grpc.RpcError, lambda: start(p.sequence, 1, instance_id=instance_id))
    expect_equal(grpc.StatusCode.ALREADY_EXISTS, error.code())
    Shared.client.raise_orchestration_event(instance_id, "number", data=1)
    wait(instance_id)
    start(p.sequence, 2, instance_id=instance_id)
    expect_equal(2, output(instance_id))


@case
def an_unknown_instance_has_no_state():
    expect_equal(None, Shared.client.get_orchestration_state("nobody"))


@case
def waiting_for_a_completion_that_does_not_come_ends_in_time():
    instance_id = start(p.collect_events, 1)
    expect_raises(TimeoutError, lambda: Shared.client.wait_for_orchestration_completion(
        instance_id, timeout=1))


@case
def terminate_ends_an_orchestration_with_the_given_output():
    instance_id = start(p.collect_events, 1)
    Shared.client.terminate_orchestration(instance_id, output="enough")
    state = wait(instance_id)
    expect_equal(OrchestrationStatus.TERMINATED, state.runtime_status)
    expect_equal("enough", state.get_output())


@case
def terminate_reaches_the_children_only_when_it_is_recursive():
    for recursive in (True, False):
        child = new_id("child")
        instance_id = start(p.parent_of_waiting, child)
        eventually(lambda: Shared.client.get_orchestration_state(child) is not None, "a child")
        Shared.client.terminate_orchestration(instance_id, recursive=recursive)
        wait(instance_id)
        if recursive:
            expect_equal(OrchestrationStatus.TERMINATED, wait(child).runtime_status)
        else:
            Shared.client.raise_orchestration_event(child, "number", data=1)
            expect_equal([1], output(child))


@case
def a_suspended_orchestration_takes_its_events_after_it_is_resumed():
    instance_id = start(p.collect_events, 2)
    Shared.client.wait_for_orchestration_start(instance_id, timeout=30)
    Shared.client.suspend_orchestration(instance_id)
    eventually(lambda: status_of(instance_id) == OrchestrationStatus.SUSPENDED, "suspended")
    for number in (1, 2):
        Shared.client.raise_orchestration_event(instance_id, "number", data=number)
    expect_raises(TimeoutError, lambda: Shared.client.wait_for_orchestration_completion(
        instance_id, timeout=1))
    Shared.client.resume_orchestration(instance_id)
    expect_equal([1, 2], output(instance_id))


@case
def purge_removes_what_is_finished_and_nothing_else():
    finished = start(p.sequence, 1)
    wait(finished)
    going = start(p.collect_events, 1)
    expect_equal(1, Shared.client.purge_orchestration(finished).deleted_instance_count)
    expect_equal(None, Shared.client.get_orchestration_state(finished))
    expect_equal(0, Shared.client.purge_orchestration(finished).deleted_instance_count)
    expect_equal(0, Shared.client.purge_orchestration(going).deleted_instance_count)
    assert not status_of(going) == OrchestrationStatus.COMPLETED


@case
def restart_runs_the_same_input_again_under_the_old_id_or_a_new_one():
    instance_id = start(p.sequence, 4)
    wait(instance_id)
    expect_equal(instance_id, Shared.client.restart_orchestration(instance_id))
    expect_equal(4, output(instance_id))
    other = Shared.client.restart_orchestration(instance_id, restart_with_new_instance_id=True)
    assert other != instance_id
    expect_equal(4, output(other))


@case
def rewind_runs_again_only_what_failed():
    for function in (p.needs_mending, p.parent_of_mending):
        key = new_id()
        instance_id = start(function, key)
        expect_equal(OrchestrationStatus.FAILED, wait(instance_id).runtime_status)
        p.mended.add(key)
        Shared.client.rewind_orchestration(instance_id, reason="mended")
        expect_equal([1, 1], output(instance_id))


@case
def only_a_failed_orchestration_can_be_rewound():
    instance_id = start(p.sequence, 1)
    wait(instance_id)
    error = expect_raises((grpc.RpcError, ValueError),
                          lambda: Shared.client.rewind_orchestration(instance_id))
    assert not isinstance(error, grpc.RpcError) or \
        error.code() == grpc.StatusCode.FAILED_PRECONDITION, error


@case
def instances_are_listed_by_status_prefix_time_and_page():
    c = new_client(Shared.server.address, "lists")
    began = datetime.now(timezone.utc) - timedelta(seconds=1)
    with running(new_worker(Shared.server.address, "lists")):
        good = [start(p.sequence, 1, c, instance_id=f"good-{n}") for n in range(7)]
        bad = [start(p.failing, "x", c, instance_id=f"bad-{n}") for n in range(3)]
        for instance_id in good + bad:
            wait(instance_id, c)

    def ids(**criteria):
        return sorted(s.instance_id for s in c.get_all_orchestration_states(
            OrchestrationQuery(**criteria)))

    expect_equal(sorted(good + bad), ids())
    expect_equal(bad, ids(runtime_status=[OrchestrationStatus.FAILED]))
    expect_equal(good, ids(instance_id_prefix="good-"))
    expect_equal(sorted(good + bad), ids(created_time_from=began, max_instance_count=2))
    expect_equal([], ids(created_time_to=began))
    first = c.list_instance_ids(page_size=6)
    rest = c.list_instance_ids(page_size=6, continuation_token=first.continuation_token)
    expect_equal((6, 4), (len(first.items), len(rest.items)))
    expect_equal(sorted(good + bad), sorted(first.items + rest.items))
    purged = c.purge_orchestrations_by(created_time_from=began,
                                       runtime_status=[OrchestrationStatus.FAILED])
    expect_equal(3, purged.deleted_instance_count)
    expect_equal(good, ids())
    c.close()


@case
def a_history_tells_every_step_in_order():
    instance_id = start(p.sequence, 2)
    wait(instance_id)
    events = Shared.client.get_orchestration_history(instance_id)
    kinds = [type(event).__name__.removesuffix("Event") for event in events]
    expect_equal(["OrchestratorStarted", "ExecutionStarted", "TaskScheduled",
                  "OrchestratorStarted", "TaskCompleted", "TaskScheduled",
                  "OrchestratorStarted", "TaskCompleted", "ExecutionCompleted"], kinds)


@case
def tags_stay_with_the_orchestration():
    instance_id = start(p.sequence, 1, tags={"team": "blue", "\u4e16": ""})
    wait(instance_id)
    events = Shared.client.get_orchestration_history(instance_id)
    started = [e for e in events if type(e).__name__ == "ExecutionStartedEvent"][0]
    expect_equal({"team": "blue", "\u4e16": ""}, dict(started.tags))
