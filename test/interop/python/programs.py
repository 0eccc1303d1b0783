# SPDX-License-Identifier: Apache-2.0
"""The orchestrations and activities that the cases and the worker processes run."""
import threading
from datetime import timedelta

from durabletask import task

from harness import activity, orchestrator

RETRY = task.RetryPolicy(first_retry_interval=timedelta(milliseconds=50), max_number_of_attempts=3)

tries = {}
tries_lock = threading.Lock()
mended = set()


def count_try(key):
    with tries_lock:
        tries[key] = tries.get(key, 0) + 1
        return tries[key]


@activity
def plus_one(_, number):
    return number + 1


@activity
def echo(_, value):
    return value


@activity
def fail_until(_, wanted):
    """Fails until it was called wanted["n"] times for wanted["key"]."""
    tried_n = count_try(wanted["key"])
    if tried_n < wanted["n"]:
        raise ValueError(f"try {tried_n}")
    return tried_n


@activity
def fail_until_mended(_, key):
    if key not in mended:
        raise ValueError("not mended")
    return count_try(key)


@orchestrator
def sequence(ctx, steps_n):
    number = 0
    for _ in range(steps_n):
        number = yield ctx.call_activity(plus_one, input=number)
    return number


@orchestrator
def fan_out(ctx, width):
    results = yield task.when_all([ctx.call_activity(plus_one, input=n) for n in range(width)])
    return sum(results)


@orchestrator
def echoing(ctx, value):
    return (yield ctx.call_activity(echo, input=value))


@orchestrator
def empty(_ctx, _):
    return None


@orchestrator
def sleeping(ctx, seconds):
    due = ctx.current_utc_datetime + timedelta(seconds=seconds)
    yield ctx.create_timer(due)
    return (ctx.current_utc_datetime - due).total_seconds()


@orchestrator
def event_or_timer(ctx, seconds):
    event = ctx.wait_for_external_event("go")
    timer = ctx.create_timer(timedelta(seconds=seconds))
    winner = yield task.when_any([event, timer])
    return event.get_result() if winner == event else "timer"


@orchestrator
def collect_events(ctx, wanted_n):
    got = []
    for _ in range(wanted_n):
        got.append((yield ctx.wait_for_external_event("number")))
    return got


@orchestrator
def sends_event(ctx, to):
    ctx.send_event(to, "number", data=7)


@orchestrator
def parent(ctx, children_n):
    children = [ctx.call_sub_orchestrator(sequence, input=n) for n in range(1, children_n + 1)]
    return sum((yield task.when_all(children)))


@orchestrator
def parent_of_waiting(ctx, child_id):
    return (yield ctx.call_sub_orchestrator(collect_events, input=1, instance_id=child_id))


@orchestrator
def failing(_ctx, message):
    raise ValueError(message)


@orchestrator
def catches_child(ctx, _):
    try:
        yield ctx.call_sub_orchestrator(failing, input="of the child")
    except task.TaskFailedError as error:
        return f"caught {error.details.error_type}"


@orchestrator
def retries_activity(ctx, wanted):
    return (yield ctx.call_activity(fail_until, input=wanted, retry_policy=RETRY))


@orchestrator
def fails_until(ctx, wanted):
    return (yield ctx.call_activity(fail_until, input=wanted))


@orchestrator
def retries_child(ctx, wanted):
    return (yield ctx.call_sub_orchestrator(fails_until, input=wanted, retry_policy=RETRY))


@orchestrator
def generations(ctx, state):
    state["got"] += [(yield ctx.wait_for_external_event("number"))]
    if len(state["got"]) == state["n"]:
        return state["got"]
    ctx.continue_as_new(state, save_events=True)


@orchestrator
def tells_status(ctx, _):
    ctx.set_custom_status({"phase": "waiting"})
    yield ctx.wait_for_external_event("go")
    ctx.set_custom_status("done")


@orchestrator
def needs_mending(ctx, key):
    first = yield ctx.call_activity(plus_one, input=0)
    second = yield ctx.call_activity(fail_until_mended, input=key)
    return [first, second]


@orchestrator
def parent_of_mending(ctx, key):
    return (yield ctx.call_sub_orchestrator(needs_mending, input=key))


@orchestrator
def tells_version(ctx, _):
    return ctx.version
