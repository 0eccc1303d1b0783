// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A norn server of a test's own, in a temporary data directory. The port is chosen by the system at
 * the first start and kept afterwards, so that clients and workers find the server again.
 */
final class NornServer {
    private static final Pattern READY = Pattern.compile(" ready on (\\S+:\\d+)");

    final Path directory;
    String address = "127.0.0.1:0";
    private Process process;

    NornServer() throws IOException {
        directory = Files.createTempDirectory("norn-interop-");
    }

    void start() throws IOException {
        File log = directory.resolve("server.log").toFile();
        process = new ProcessBuilder(System.getenv("NORN"), "server", "--data",
                directory.resolve("data").toString(), "--listen", address)
                .redirectError(ProcessBuilder.Redirect.appendTo(log)).start();
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        Matcher found = READY.matcher(line == null ? "" : line);
        if (!found.find()) {
            String text = Files.readString(log.toPath());
            throw new IOException("the server is not ready; it printed: " + line + text);
        }
        address = found.group(1);
    }

    /** As a power cut would: no warning, nothing is flushed. */
    void kill() throws InterruptedException {
        if (process == null) return;
        process.destroyForcibly().waitFor();
        process = null;
    }

    void stop() throws InterruptedException {
        process.destroy();
        process.waitFor();
        process = null;
    }

    void remove() throws IOException, InterruptedException {
        kill();
        try (Stream<Path> paths = Files.walk(directory)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        }
    }
}
