// SPDX-License-Identifier: Apache-2.0

import com.microsoft.durabletask.NewOrchestrationInstanceOptions;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import com.microsoft.durabletask.OrchestrationStatusQuery;
import com.microsoft.durabletask.OrchestrationStatusQueryResult;
import com.microsoft.durabletask.PurgeInstanceCriteria;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;

/** What orchestrations, and clients with them, can do: a sentence and a test each. */
final class Cases {
    interface Case {
        void run() throws Exception;
    }

    final Map<String, Case> all = new LinkedHashMap<>();
    private final Hub hub;
    private final String address;

    Cases(Hub hub, String address) {
        this.hub = hub;
        this.address = address;
        addFlows();
        addFailing();
        addControl();
        addLists();
    }

    static void expect(Object expected, Object got) {
        if (!Objects.deepEquals(expected, got)) {
            throw new AssertionError("expected " + expected + ", got " + got);
        }
    }

    static void eventually(String what, BooleanSupplier isTrue) throws InterruptedException {
        Instant deadline = Instant.now().plus(Hub.WAIT_MAX);
        while (!isTrue.getAsBoolean()) {
            if (Instant.now().isAfter(deadline)) throw new AssertionError("never: " + what);
            Thread.sleep(20);
        }
    }

    private static String newId() {
        return "i-" + UUID.randomUUID();
    }

    private void expectNumbers(String id, int n) throws Exception {
        for (int i = 0; i < n; i++) hub.client.raiseEvent(id, "number", i);
        int[] expected = IntStream.range(0, n).toArray();
        expect(Arrays.toString(expected), Arrays.toString(hub.output(id, int[].class)));
    }

    private void addFlows() {
        all.put("activities run one after the other", () ->
                expect(10, hub.run("sequence", 10, Integer.class)));
        all.put("a hundred activities fan out and in", () ->
                expect(5050, hub.run("fanOut", 100, Integer.class)));
        all.put("inputs and outputs keep their bytes", () -> {
            for (String text : List.of("", "\u4e16\u754c\0\"\\\n", "x".repeat(1000000))) {
                expect(text, hub.run("echoing", text, String.class));
            }
        });
        all.put("a timer fires when it is due and not before", () -> {
            Instant due = Instant.now().plusMillis(990);
            expect(true, hub.run("sleeping", null, Boolean.class));
            expect(true, Instant.now().isAfter(due));
        });
        all.put("an orchestration starts at its scheduled time", () -> {
            Instant at = Instant.now().plusMillis(1500);
            String id = hub.client.scheduleNewOrchestrationInstance("sequence",
                    new NewOrchestrationInstanceOptions().setInput(1).setStartTime(at));
            expect(OrchestrationRuntimeStatus.PENDING, hub.status(id));
            expect(1, hub.output(id, Integer.class));
            expect(false, Instant.now().isBefore(at));
        });
        all.put("an event wins against a timer, and a timer against no event", () -> {
            String id = hub.start("eventOrTimer", 60000);
            hub.client.raiseEvent(id, "go", "event");
            expect("event", hub.output(id, String.class));
            expect("timer", hub.run("eventOrTimer", 100, String.class));
        });
        all.put("events of one name arrive in the order they were raised", () ->
                expectNumbers(hub.start("collectEvents", 30), 30));
        all.put("one orchestration sends an event to another", () -> {
            String receiver = hub.start("collectEvents", 1);
            hub.start("sendsEvent", receiver);
            expect("[7]", Arrays.toString(hub.output(receiver, int[].class)));
        });
        all.put("children answer their parent", () ->
                expect(55, hub.run("parent", 10, Integer.class)));
        all.put("an orchestration continues as new forty times", () ->
                expect(Programs.GENERATIONS_N, hub.run("generations", 0, Integer.class)));
        all.put("a custom status is seen while the orchestration runs", () -> {
            String id = hub.start("tellsStatus", null);
            eventually("the first status", () -> {
                OrchestrationMetadata state = hub.client.getInstanceMetadata(id, true);
                return state.isCustomStatusFetched()
                        && "waiting".equals(state.readCustomStatusAs(String.class));
            });
            hub.client.raiseEvent(id, "go");
            expect("done", hub.await(id).readCustomStatusAs(String.class));
        });
        all.put("two hundred orchestrations at once", () -> {
            List<String> ids = new ArrayList<>();
            for (int i = 0; i < 200; i++) ids.add(hub.start("sequence", 3));
            for (String id : ids) expect(3, hub.output(id, Integer.class));
        });
    }

    private void addFailing() {
        all.put("the failure of a child can be caught", () ->
                expect("no luck", hub.run("catchesChild", null, String.class)));
        all.put("a failed orchestration tells its error", () -> {
            OrchestrationMetadata state = hub.await(hub.start("failing", null));
            expect(OrchestrationRuntimeStatus.FAILED, state.getRuntimeStatus());
            expect("no luck", state.getFailureDetails().getErrorMessage());
            expect("java.lang.IllegalStateException", state.getFailureDetails().getErrorType());
        });
        all.put("a failing activity is retried by its policy", () ->
                expect(3, hub.run("retriesActivity", newId() + " 3", Integer.class)));
        all.put("a retry policy gives up after its last attempt", () -> {
            String key = newId();
            OrchestrationMetadata state = hub.await(hub.start("retriesActivity", key + " 99"));
            expect(OrchestrationRuntimeStatus.FAILED, state.getRuntimeStatus());
            expect(3, Programs.TRIES.get(key));
        });
        all.put("a failing child is retried by its policy, under the same id", () ->
                expect(3, hub.run("retriesChild", newId() + " 3", Integer.class)));
    }

    private void addControl() {
        all.put("a running id is refused, a finished one can be used again", () -> {
            String id = hub.start("collectEvents", 1);
            try {
                hub.start("sequence", 2, id);
                throw new AssertionError("it was not refused");
            } catch (StatusRuntimeException error) {
                expect(Status.Code.ALREADY_EXISTS, error.getStatus().getCode());
            }
            hub.client.raiseEvent(id, "number", 1);
            hub.await(id);
            hub.start("sequence", 2, id);
            expect(2, hub.output(id, Integer.class));
        });
        all.put("an unknown instance is not found", () ->
                expect(false, hub.client.getInstanceMetadata("nobody", true).isInstanceFound()));
        all.put("waiting for a completion that does not come ends in time", () -> {
            try {
                hub.client.waitForInstanceCompletion(hub.start("collectEvents", 1),
                        Duration.ofSeconds(1), true);
                throw new AssertionError("it has completed");
            } catch (TimeoutException error) {
                // as it must
            }
        });
        all.put("terminate ends an orchestration with the given output", () -> {
            String id = hub.start("collectEvents", 1);
            hub.client.terminate(id, "enough");
            OrchestrationMetadata state = hub.await(id);
            expect(OrchestrationRuntimeStatus.TERMINATED, state.getRuntimeStatus());
            expect("enough", state.readOutputAs(String.class));
        });
        all.put("a suspended orchestration takes its events after it is resumed", () -> {
            String id = hub.start("collectEvents", 2);
            hub.client.waitForInstanceStart(id, Hub.WAIT_MAX);
            hub.client.suspendInstance(id, "a break");
            eventually("suspended", () -> hub.status(id) == OrchestrationRuntimeStatus.SUSPENDED);
            hub.client.raiseEvent(id, "number", 0);
            hub.client.raiseEvent(id, "number", 1);
            Thread.sleep(500);
            expect(OrchestrationRuntimeStatus.SUSPENDED, hub.status(id));
            hub.client.resumeInstance(id, "on");
            expect("[0, 1]", Arrays.toString(hub.output(id, int[].class)));
        });
        all.put("purge removes what is finished and nothing else", () -> {
            String id = hub.start("sequence", 1);
            hub.await(id);
            expect(1, hub.client.purgeInstance(id).getDeletedInstanceCount());
            expect(false, hub.client.getInstanceMetadata(id, false).isInstanceFound());
            String going = hub.start("collectEvents", 1);
            expect(0, hub.client.purgeInstance(going).getDeletedInstanceCount());
            expect(true, hub.client.getInstanceMetadata(going, false).isInstanceFound());
        });
        all.put("restart runs the same input again, under the old id or a new one", () -> {
            String id = hub.start("sequence", 4);
            hub.await(id);
            expect(id, hub.client.restartInstance(id, false));
            expect(4, hub.output(id, Integer.class));
            String other = hub.client.restartInstance(id, true);
            expect(false, other.equals(id));
            expect(4, hub.output(other, Integer.class));
        });
    }

    private void addLists() {
        all.put("equal ids in two hubs are two instances", () -> {
            try (Hub red = new Hub(address, "red").work(); Hub blue = new Hub(address, "blue").work()) {
                red.start("sequence", 1, "same");
                blue.start("sequence", 2, "same");
                expect(1, red.output("same", Integer.class));
                expect(2, blue.output("same", Integer.class));
            }
        });
        all.put("instances are listed by status, prefix, time and page", () -> {
            Instant began = Instant.now().minusSeconds(1);
            try (Hub lists = new Hub(address, "lists").work()) {
                for (int i = 0; i < 7; i++) lists.start("sequence", 1, "good-" + i);
                for (int i = 0; i < 3; i++) lists.start("failing", 1, "bad-" + i);
                for (int i = 0; i < 7; i++) lists.await("good-" + i);
                for (int i = 0; i < 3; i++) lists.await("bad-" + i);
                List<OrchestrationRuntimeStatus> failed = List.of(OrchestrationRuntimeStatus.FAILED);
                expect(10, ids(lists, new OrchestrationStatusQuery()).size());
                expect(List.of("bad-0", "bad-1", "bad-2"),
                        ids(lists, new OrchestrationStatusQuery().setRuntimeStatusList(failed)));
                expect(7, ids(lists, new OrchestrationStatusQuery().setInstanceIdPrefix("good-")
                        .setMaxInstanceCount(2)).size());
                expect(0, ids(lists, new OrchestrationStatusQuery().setCreatedTimeTo(began)).size());
                expect(3, lists.client.purgeInstances(new PurgeInstanceCriteria()
                        .setCreatedTimeFrom(began).setRuntimeStatusList(failed))
                        .getDeletedInstanceCount());
                expect(7, ids(lists, new OrchestrationStatusQuery()).size());
            }
        });
    }

    /** Of all pages, sorted. */
    private static List<String> ids(Hub lists, OrchestrationStatusQuery query) {
        List<String> found = new ArrayList<>();
        String token = null;
        do {
            OrchestrationStatusQueryResult page =
                    lists.client.queryInstances(query.setContinuationToken(token));
            page.getOrchestrationState().forEach(state -> found.add(state.getInstanceId()));
            token = page.getContinuationToken();
        } while (token != null && !token.isEmpty());
        Collections.sort(found);
        return found;
    }
}
