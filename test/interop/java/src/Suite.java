// SPDX-License-Identifier: Apache-2.0

import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The suite of the Java SDK. Arguments select cases by a part of their names; "--worker ADDRESS HUB
 * LEDGER" makes it a worker process that the cases can kill.
 */
public final class Suite {
    private Suite() {}

    private static boolean runCase(int number, String name, Cases.Case test) {
        long began = System.nanoTime();
        boolean isGood = true;
        try {
            test.run();
            System.out.println("ok " + number + " - " + name);
        } catch (Exception | AssertionError error) {
            isGood = false;
            System.out.println("not ok " + number + " - " + name);
            System.out.println("# " + error.toString().replace("\n", "\n# "));
            for (StackTraceElement place : error.getStackTrace()) System.out.println("#   " + place);
        }
        System.err.printf("%6.2f s  %s%n", (System.nanoTime() - began) / 1e9, name);
        return isGood;
    }

    private static Map<String, Cases.Case> chosen(Map<String, Cases.Case> all, String[] wanted) {
        Map<String, Cases.Case> some = new LinkedHashMap<>(all);
        if (wanted.length > 0) {
            some.keySet().removeIf(name -> Arrays.stream(wanted).noneMatch(name::contains));
        }
        return some;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 4 && arguments[0].equals("--worker")) {
            Programs.ledger = Path.of(arguments[3]);
            new Hub(arguments[1], arguments[2]).work();
            System.out.println("ready");
            Thread.sleep(Long.MAX_VALUE);
        }
        NornServer server = new NornServer();
        server.start();
        int failedN = 0;
        try (Hub hub = new Hub(server.address, "main").work()) {
            Cases cases = new Cases(hub, server.address);
            CrashCases.addTo(cases.all);
            Map<String, Cases.Case> some = chosen(cases.all, arguments);
            System.out.println("1.." + some.size());
            int number = 0;
            for (Map.Entry<String, Cases.Case> one : some.entrySet()) {
                if (!runCase(++number, one.getKey(), one.getValue())) failedN++;
            }
        }
        server.remove();
        System.exit(failedN > 0 ? 1 : 0);
    }
}
