# SPDX-License-Identifier: Apache-2.0
"""What an orchestration can do."""
import time
from datetime import datetime, timedelta, timezone

from durabletask.client import OrchestrationStatus

import programs as p
from harness import Shared, case, eventually, expect_equal, new_id, output, run, start, wait


@case
def activities_run_one_after_the_other():
    expect_equal(10, run(p.sequence, 10))


@case
def a_hundred_activities_fan_out_and_in():
    expect_equal(5050, run(p.fan_out, 100))


@case
def inputs_and_outputs_keep_their_bytes():
    for value in ({"a": [1, None, "\u4e16\u754c\U0001f600\n\0\"\\"]}, "", 0, False, [], "x" * 1_000_000):
        expect_equal(value, run(p.echoing, value))


@case
def an_orchestration_without_input_and_output_completes():
    state = wait(start(p.empty))
    expect_equal(OrchestrationStatus.COMPLETED, state.runtime_status)
    expect_equal((None, None), (state.serialized_input, state.serialized_output))


@case
def a_timer_fires_when_it_is_due_and_not_before():
    began = time.monotonic()
    late_seconds = run(p.sleeping, 1)
    assert late_seconds >= 0, late_seconds
    assert time.monotonic() - began >= 0.99


@case
def an_orchestration_starts_at_its_scheduled_time():
    at = datetime.now(timezone.utc) + timedelta(seconds=1.5)
    instance_id = start(p.sequence, 1, start_at=at)
    state = Shared.client.get_orchestration_state(instance_id)
    expect_equal(OrchestrationStatus.PENDING, state.runtime_status)
    expect_equal(1, output(instance_id))
    assert datetime.now(timezone.utc) >= at


@case
def an_event_wins_against_a_timer_and_a_timer_against_no_event():
    instance_id = start(p.event_or_timer, 60)
    Shared.client.raise_orchestration_event(instance_id, "GO", data="event")
    expect_equal("event", output(instance_id))
    expect_equal("timer", run(p.event_or_timer, 0.1))


@case
def events_of_one_name_arrive_in_the_order_they_were_raised():
    instance_id = start(p.collect_events, 30)
    for number in range(30):
        Shared.client.raise_orchestration_event(instance_id, "number", data=number)
    expect_equal(list(range(30)), output(instance_id))


@case
def one_orchestration_sends_an_event_to_another():
    receiver = start(p.collect_events, 1)
    start(p.sends_event, receiver)
    expect_equal([7], output(receiver))


@case
def children_answer_their_parent():
    expect_equal(55, run(p.parent, 10))


@case
def the_failure_of_a_child_can_be_caught():
    expect_equal("caught ValueError", run(p.catches_child).replace("builtins.", ""))


@case
def a_failed_orchestration_tells_its_error():
    state = wait(start(p.failing, "no luck"))
    expect_equal(OrchestrationStatus.FAILED, state.runtime_status)
    assert "no luck" in state.failure_details.message, state.failure_details
    assert "ValueError" in state.failure_details.error_type, state.failure_details


# This SDK schedules a step and a child again under the id it had.
@case
def a_failing_activity_is_retried_by_its_policy():
    expect_equal(3, run(p.retries_activity, {"key": new_id(), "n": 3}))


@case
def a_retry_policy_gives_up_after_its_last_attempt():
    key = new_id()
    state = wait(start(p.retries_activity, {"key": key, "n": 99}))
    expect_equal(OrchestrationStatus.FAILED, state.runtime_status)
    expect_equal(3, p.tries[key])


@case
def a_failing_child_is_retried_by_its_policy():
    expect_equal(3, run(p.retries_child, {"key": new_id(), "n": 3}))


@case
def events_that_are_not_read_yet_live_through_continue_as_new():
    instance_id = start(p.generations, {"got": [], "n": 40})
    for number in range(40):
        Shared.client.raise_orchestration_event(instance_id, "number", data=number)
    expect_equal(list(range(40)), output(instance_id))


@case
def a_custom_status_is_seen_while_the_orchestration_runs():
    instance_id = start(p.tells_status)
    eventually(lambda: Shared.client.get_orchestration_state(instance_id).get_custom_status()
               == {"phase": "waiting"}, "the first status")
    Shared.client.raise_orchestration_event(instance_id, "go")
    expect_equal("done", wait(instance_id).get_custom_status())


@case
def three_hundred_orchestrations_at_once():
    ids = [start(p.sequence, 3) for _ in range(300)]
    expect_equal([3] * 300, [output(instance_id) for instance_id in ids])
