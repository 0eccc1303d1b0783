// SPDX-License-Identifier: Apache-2.0

import com.microsoft.durabletask.DurableTaskGrpcWorkerBuilder;
import com.microsoft.durabletask.RetryPolicy;
import com.microsoft.durabletask.Task;
import com.microsoft.durabletask.TaskActivity;
import com.microsoft.durabletask.TaskActivityFactory;
import com.microsoft.durabletask.TaskCanceledException;
import com.microsoft.durabletask.TaskFailedException;
import com.microsoft.durabletask.TaskOptions;
import com.microsoft.durabletask.TaskOrchestration;
import com.microsoft.durabletask.TaskOrchestrationFactory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The orchestrations and activities that the cases and the worker process run. */
final class Programs {
    static final int GENERATIONS_N = 40;
    static final Map<String, Integer> TRIES = new ConcurrentHashMap<>();
    /** Where steps are noted before they answer; what ran is known whatever is lost later. */
    static Path ledger;

    private static final Map<String, TaskActivity> ACTIVITIES = new LinkedHashMap<>();
    private static final Map<String, TaskOrchestration> ORCHESTRATIONS = new LinkedHashMap<>();
    private static final TaskOptions RETRY =
            new TaskOptions(new RetryPolicy(3, Duration.ofMillis(50)));

    private Programs() {}

    static {
        addActivities();
        addFlows();
        addFailing();
        addDurable();
    }

    private static void addActivities() {
        ACTIVITIES.put("plusOne", ctx -> ctx.getInput(Integer.class) + 1);
        // "KEY N": fails until it was called N times for KEY
        ACTIVITIES.put("failUntil", ctx -> {
            String[] wanted = ctx.getInput(String.class).split(" ");
            int tried = TRIES.merge(wanted[0], 1, Integer::sum);
            if (tried < Integer.parseInt(wanted[1])) throw new IllegalStateException("try " + tried);
            return tried;
        });
        ACTIVITIES.put("durableStep", ctx -> {
            String name = ctx.getInput(String.class);
            try {
                Files.writeString(ledger, name + "\n", StandardOpenOption.CREATE,
                        StandardOpenOption.APPEND);
                Thread.sleep(5); // this SDK runs one activity at a time
            } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
            return name;
        });
    }

    private static void addFlows() {
        ORCHESTRATIONS.put("sequence", ctx -> {
            int number = 0;
            int steps = ctx.getInput(Integer.class);
            for (int i = 0; i < steps; i++) {
                number = ctx.callActivity("plusOne", number, Integer.class).await();
            }
            ctx.complete(number);
        });
        ORCHESTRATIONS.put("fanOut", ctx -> {
            List<Task<Integer>> calls = new ArrayList<>();
            int width = ctx.getInput(Integer.class);
            for (int i = 0; i < width; i++) calls.add(ctx.callActivity("plusOne", i, Integer.class));
            ctx.complete(ctx.allOf(calls).await().stream().mapToInt(n -> n).sum());
        });
        ORCHESTRATIONS.put("echoing", ctx -> ctx.complete(ctx.getInput(String.class)));
        ORCHESTRATIONS.put("sleeping", ctx -> {
            Instant due = ctx.getCurrentInstant().plusSeconds(1);
            ctx.createTimer(Duration.ofSeconds(1)).await();
            ctx.complete(!ctx.getCurrentInstant().isBefore(due));
        });
        ORCHESTRATIONS.put("eventOrTimer", ctx -> {
            Duration timeout = Duration.ofMillis(ctx.getInput(Integer.class));
            try {
                ctx.complete(ctx.waitForExternalEvent("go", timeout, String.class).await());
            } catch (TaskCanceledException error) {
                ctx.complete("timer");
            }
        });
        ORCHESTRATIONS.put("collectEvents", ctx -> {
            int[] got = new int[ctx.getInput(Integer.class)];
            for (int i = 0; i < got.length; i++) {
                got[i] = ctx.waitForExternalEvent("number", Integer.class).await();
            }
            ctx.complete(got);
        });
        ORCHESTRATIONS.put("sendsEvent", ctx -> {
            ctx.sendEvent(ctx.getInput(String.class), "number", 7);
            ctx.complete(null);
        });
        ORCHESTRATIONS.put("parent", ctx -> {
            List<Task<Integer>> calls = new ArrayList<>();
            int children = ctx.getInput(Integer.class);
            for (int i = 1; i <= children; i++) {
                calls.add(ctx.callSubOrchestrator("sequence", i, Integer.class));
            }
            ctx.complete(ctx.allOf(calls).await().stream().mapToInt(n -> n).sum());
        });
        // This SDK carries events over in no order, and some twice: no test can rely on them.
        ORCHESTRATIONS.put("generations", ctx -> {
            int number = ctx.callActivity("plusOne", ctx.getInput(Integer.class), Integer.class)
                    .await();
            if (number == GENERATIONS_N) {
                ctx.complete(number);
            } else {
                ctx.continueAsNew(number, false);
            }
        });
        ORCHESTRATIONS.put("tellsStatus", ctx -> {
            ctx.setCustomStatus("waiting");
            ctx.waitForExternalEvent("go").await();
            ctx.setCustomStatus("done");
        });
    }

    private static void addFailing() {
        ORCHESTRATIONS.put("failing", ctx -> {
            throw new IllegalStateException("no luck");
        });
        ORCHESTRATIONS.put("catchesChild", ctx -> {
            try {
                ctx.callSubOrchestrator("failing", null, String.class).await();
            } catch (TaskFailedException error) {
                ctx.complete(error.getErrorDetails().getErrorMessage());
            }
        });
        ORCHESTRATIONS.put("retriesActivity", ctx -> ctx.complete(ctx.callActivity("failUntil",
                ctx.getInput(String.class), RETRY, Integer.class).await()));
        ORCHESTRATIONS.put("failsUntil", ctx -> ctx.complete(ctx.callActivity("failUntil",
                ctx.getInput(String.class), Integer.class).await()));
        ORCHESTRATIONS.put("retriesChild", ctx -> ctx.complete(ctx.callSubOrchestrator("failsUntil",
                ctx.getInput(String.class), ctx.getInstanceId() + "-child", RETRY, Integer.class)
                .await()));
    }

    private static void addDurable() {
        // "KEY STEPS"
        ORCHESTRATIONS.put("durableSequence", ctx -> {
            String[] input = ctx.getInput(String.class).split(" ");
            String[] done = new String[Integer.parseInt(input[1])];
            for (int i = 0; i < done.length; i++) {
                done[i] = ctx.callActivity("durableStep", input[0] + "/" + i, String.class).await();
            }
            ctx.complete(done);
        });
        // a timer, an event and a child, for a server that is killed between them
        ORCHESTRATIONS.put("durableMix", ctx -> {
            String key = ctx.getInput(String.class);
            String first = ctx.callActivity("durableStep", key + "/first", String.class).await();
            ctx.createTimer(Duration.ofMillis(1500)).await();
            int event = ctx.waitForExternalEvent("go", Integer.class).await();
            String[] child = ctx.callSubOrchestrator("durableSequence", key + "/child 2",
                    String[].class).await();
            ctx.complete(first + " " + event + " " + String.join(" ", child));
        });
    }

    static DurableTaskGrpcWorkerBuilder addTo(DurableTaskGrpcWorkerBuilder builder) {
        ACTIVITIES.forEach((name, activity) -> builder.addActivity(new TaskActivityFactory() {
            @Override
            public String getName() {
                return name;
            }

            @Override
            public TaskActivity create() {
                return activity;
            }
        }));
        ORCHESTRATIONS.forEach((name, program) -> builder.addOrchestration(
                new TaskOrchestrationFactory() {
                    @Override
                    public String getName() {
                        return name;
                    }

                    @Override
                    public TaskOrchestration create() {
                        return program;
                    }
                }));
        return builder;
    }
}
