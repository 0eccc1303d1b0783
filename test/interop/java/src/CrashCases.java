// SPDX-License-Identifier: Apache-2.0

import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeSet;

/**
 * What nobody plans: the server or a worker is killed while work is under way. Whatever was
 * acknowledged goes on; each activity runs at least once; every result is right.
 */
final class CrashCases {
    private static final int INSTANCES_N = 50;
    private static final int STEPS_N = 3;
    private static final String HUB = "crash";

    private interface Story {
        void run(World world) throws Exception;
    }

    /** A server, a client and a worker process, all of which can be killed. */
    private static final class World implements AutoCloseable {
        final NornServer server = new NornServer();
        final Path ledger = server.directory.resolve("ledger");
        Hub hub;
        Process worker;

        World() throws Exception {
            server.start();
            hub = new Hub(server.address, HUB);
            startWorker();
        }

        /** A channel whose server was away waits before it tries again; a new one does not. */
        void reconnect() throws IOException {
            server.start();
            hub.close();
            hub = new Hub(server.address, HUB);
        }

        void crash(int awayMs) throws Exception {
            server.kill();
            Thread.sleep(awayMs);
            reconnect();
        }

        void startWorker() throws IOException {
            worker = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx128m",
                    "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"),
                    "-Djava.util.logging.config.file="
                            + System.getProperty("java.util.logging.config.file"),
                    "Suite", "--worker", server.address, HUB, ledger.toString())
                    .redirectError(ProcessBuilder.Redirect.INHERIT).start();
            Cases.expect("ready", new BufferedReader(
                    new InputStreamReader(worker.getInputStream())).readLine());
        }

        void killWorker() throws InterruptedException {
            worker.destroyForcibly().waitFor();
        }

        TreeSet<String> runs() {
            try {
                return Files.exists(ledger) ? new TreeSet<>(Files.readAllLines(ledger))
                        : new TreeSet<>();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        void startSequences() {
            for (int i = 0; i < INSTANCES_N; i++) {
                hub.start("durableSequence", "s" + i + " " + STEPS_N, "s" + i);
            }
        }

        void untilHalfWay() throws InterruptedException {
            Cases.eventually("the first steps have run", () -> runs().size() >= INSTANCES_N);
        }

        void expectSequences() throws Exception {
            for (int i = 0; i < INSTANCES_N; i++) {
                String[] expected = new String[STEPS_N];
                for (int step = 0; step < STEPS_N; step++) expected[step] = "s" + i + "/" + step;
                Cases.expect(Arrays.toString(expected),
                        Arrays.toString(hub.output("s" + i, String[].class)));
            }
            Cases.expect(INSTANCES_N * STEPS_N, runs().size());
        }

        @Override
        public void close() throws Exception {
            killWorker();
            hub.close();
            server.remove();
        }
    }

    private CrashCases() {}

    private static Cases.Case inWorld(Story story) {
        return () -> {
            try (World world = new World()) {
                story.run(world);
            }
        };
    }

    static void addTo(Map<String, Cases.Case> all) {
        all.put("fifty orchestrations survive kill -9 of the server", inWorld(world -> {
            world.startSequences();
            world.untilHalfWay();
            world.crash(300);
            world.expectSequences();
        }));
        all.put("fifty orchestrations survive kill -9 of their worker", inWorld(world -> {
            world.startSequences();
            world.untilHalfWay();
            world.killWorker();
            world.startWorker();
            world.expectSequences();
        }));
        all.put("a start that was acknowledged is there after a kill", inWorld(world -> {
            world.killWorker(); // nothing moves: what is there was written by the start alone
            world.startSequences();
            world.crash(300);
            for (int i = 0; i < INSTANCES_N; i++) {
                Cases.expect(OrchestrationRuntimeStatus.PENDING, world.hub.status("s" + i));
            }
            world.startWorker();
            world.expectSequences();
        }));
        all.put("timers, events and children survive kill -9 of the server", inWorld(world -> {
            for (int i = 0; i < 10; i++) {
                world.hub.start("durableMix", "m" + i, "m" + i);
                world.hub.client.raiseEvent("m" + i, "go", i); // before anybody waits for it
            }
            Cases.eventually("every first step has run", () -> world.runs().size() >= 10);
            world.crash(1700); // the timers fall due while there is no server
            for (int i = 0; i < 10; i++) {
                String key = "m" + i;
                Cases.expect(key + "/first " + i + " " + key + "/child/0 " + key + "/child/1",
                        world.hub.output(key, String.class));
            }
        }));
        all.put("a server that is stopped and started again goes on", inWorld(world -> {
            world.startSequences();
            world.untilHalfWay();
            world.server.stop();
            world.reconnect();
            world.expectSequences();
        }));
    }
}
