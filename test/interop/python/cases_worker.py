# SPDX-License-Identifier: Apache-2.0
"""Workers: hubs, filters, versions, and one that goes away."""
import time

from durabletask import worker
from durabletask.azuremanaged.client import DurableTaskSchedulerClient
from durabletask.azuremanaged.worker import DurableTaskSchedulerWorker
from durabletask.client import OrchestrationStatus
from durabletask.grpc_options import GrpcChannelOptions

import programs as p
from harness import (Shared, case, expect_equal, new_client, new_id, new_worker, output,
                     quiet_logger, running, start, wait)


@case
def equal_ids_in_two_hubs_are_two_instances():
    ends = []
    for hub, steps_n in (("red", 1), ("blue", 2)):
        c = new_client(Shared.server.address, hub)
        start(p.sequence, steps_n, c, instance_id="same")
        ends.append((hub, c, steps_n))
    for hub, c, steps_n in ends:
        with running(new_worker(Shared.server.address, hub)):
            expect_equal(steps_n, output("same", c))
        c.close()


@case
def the_package_for_azure_works_without_its_credentials():
    options = {"host_address": f"http://{Shared.server.address}", "secure_channel": False,
               "taskhub": "azure", "token_credential": None, "logger": quiet_logger()}
    w = DurableTaskSchedulerWorker(**options)
    w.add_orchestrator(p.sequence)
    w.add_activity(p.plus_one)
    with running(w):
        c = DurableTaskSchedulerClient(**options)
        expect_equal(3, output(start(p.sequence, 3, c, instance_id="a"), c))
        c.close()
    expect_equal(None, Shared.client.get_orchestration_state("a"))


# What is too large for a worker's channel ends its stream, again and again: in a hub of its own, so
# that nothing else waits for that.
@case
def payloads_of_four_megabytes_pass_when_the_channel_allows_them():
    hub = "large"
    options = GrpcChannelOptions(max_receive_message_length=-1)
    c = new_client(Shared.server.address, hub, channel_options=options)
    with running(new_worker(Shared.server.address, hub, channel_options=options)):
        expect_equal(4_000_000, len(output(start(p.echoing, "y" * 4_000_000, c), c)))
    c.close()


@case
def a_worker_gets_only_what_its_filters_name():
    hub = "filters"
    c = new_client(Shared.server.address, hub)
    first = new_worker(Shared.server.address, hub, [p.sequence, p.plus_one])
    first.use_work_item_filters()
    with running(first):
        foreign = start(p.echoing, "later", c)
        expect_equal(2, output(start(p.sequence, 2, c), c))
        expect_equal(OrchestrationStatus.PENDING,
                     c.get_orchestration_state(foreign).runtime_status)
        second = new_worker(Shared.server.address, hub, [p.echoing, p.echo])
        second.use_work_item_filters()
        with running(second):
            expect_equal("later", output(foreign, c))
    c.close()


@case
def a_worker_that_fails_a_version_fails_the_orchestration():
    hub = "versions"
    c = new_client(Shared.server.address, hub)
    w = new_worker(Shared.server.address, hub, [p.tells_version])
    w.use_versioning(worker.VersioningOptions(
        version="1.0.0", match_strategy=worker.VersionMatchStrategy.STRICT,
        failure_strategy=worker.VersionFailureStrategy.FAIL))
    with running(w):
        expect_equal("1.0.0", output(start(p.tells_version, c=c, version="1.0.0"), c))
        state = wait(start(p.tells_version, c=c, version="2.0.0"), c)
        expect_equal(OrchestrationStatus.FAILED, state.runtime_status)
        assert "version" in state.failure_details.error_type.lower(), state.failure_details
    c.close()


@case
def a_worker_that_rejects_a_version_leaves_the_work_to_another():
    hub = "rejects"
    c = new_client(Shared.server.address, hub)
    workers = []
    for version in ("1.0.0", "2.0.0"):
        w = new_worker(Shared.server.address, hub, [p.tells_version])
        w.use_versioning(worker.VersioningOptions(
            version=version, match_strategy=worker.VersionMatchStrategy.STRICT,
            failure_strategy=worker.VersionFailureStrategy.REJECT))
        workers.append(w)
    with running(workers[0]):
        instance_id = start(p.tells_version, c=c, version="2.0.0")
        time.sleep(0.5)
        status = c.get_orchestration_state(instance_id).runtime_status
        assert not status == OrchestrationStatus.COMPLETED
        with running(workers[1]):
            expect_equal("2.0.0", output(instance_id, c))
    c.close()


@case
def a_worker_that_goes_leaves_the_rest_to_the_next_one():
    hub = new_id("hub")
    c = new_client(Shared.server.address, hub)
    with running(new_worker(Shared.server.address, hub)):
        ids = [start(p.sequence, 5, c) for _ in range(20)]
    with running(new_worker(Shared.server.address, hub)):
        expect_equal([5] * 20, [output(instance_id, c) for instance_id in ids])
    c.close()
