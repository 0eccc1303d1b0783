# SPDX-License-Identifier: Apache-2.0
"""A worker as a process of its own, so that it can be killed:

    worker_process.py ADDRESS HUB LEDGER

Each activity appends its input to the file LEDGER before it answers: what ran is known even when the
answer, the worker or the server was lost. Prints "ready" once it is started.
"""
import sys
import time
from datetime import timedelta

import harness
from durabletask import entities as sdk

ACTIVITY_SECONDS = 0.02
ledger_path = None


@harness.activity
def durable_step(_, name):
    with open(ledger_path, "a", encoding="utf-8") as ledger:
        ledger.write(f"{name}\n")
    time.sleep(ACTIVITY_SECONDS)
    return name


@harness.orchestrator
def durable_sequence(ctx, value):
    done = []
    for step in range(value["steps"]):
        done.append((yield ctx.call_activity(durable_step, input=f"{value['key']}/{step}")))
    return done


@harness.orchestrator
def durable_mix(ctx, key):
    first = yield ctx.call_activity(durable_step, input=f"{key}/first")
    yield ctx.create_timer(timedelta(seconds=1.5))
    event = yield ctx.wait_for_external_event("go")
    child = yield ctx.call_sub_orchestrator(durable_sequence,
                                            input={"key": f"{key}/child", "steps": 2})
    ctx.signal_entity(sdk.EntityInstanceId("tally", "all"), "add", 1)
    return [first, event, *child]


@harness.entity
class tally(sdk.DurableEntity):
    def add(self, number):
        self.set_state(self.get_state(int, 0) + number)


if __name__ == "__main__":
    address, hub, ledger_path = sys.argv[1:]
    harness.new_worker(address, hub).start()
    print("ready", flush=True)
    while True:
        time.sleep(3600)
