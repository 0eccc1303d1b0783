// SPDX-License-Identifier: Apache-2.0

import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.DurableTaskGrpcClientBuilder;
import com.microsoft.durabletask.DurableTaskGrpcWorker;
import com.microsoft.durabletask.DurableTaskGrpcWorkerBuilder;
import com.microsoft.durabletask.FailureDetails;
import com.microsoft.durabletask.NewOrchestrationInstanceOptions;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;

/** A client of one hub and, once it works, its worker. */
final class Hub implements AutoCloseable {
    /** Far above what anything takes here: a case that reaches it hangs. */
    static final Duration WAIT_MAX = Duration.ofSeconds(60);

    final DurableTaskClient client;
    private final ManagedChannel channel;
    private DurableTaskGrpcWorker worker;

    /** The server tells hubs apart by this header; the package for Azure sets it in the same way. */
    Hub(String address, String name) {
        Metadata headers = new Metadata();
        headers.put(Metadata.Key.of("taskhub", Metadata.ASCII_STRING_MARSHALLER), name);
        channel = ManagedChannelBuilder.forTarget(address).usePlaintext()
                .intercept(MetadataUtils.newAttachHeadersInterceptor(headers)).build();
        client = new DurableTaskGrpcClientBuilder().grpcChannel(channel).build();
    }

    Hub work() {
        worker = Programs.addTo(new DurableTaskGrpcWorkerBuilder().grpcChannel(channel)).build();
        worker.start();
        return this;
    }

    String start(String name, Object input, String id) {
        return client.scheduleNewOrchestrationInstance(name,
                new NewOrchestrationInstanceOptions().setInput(input).setInstanceId(id));
    }

    String start(String name, Object input) {
        return client.scheduleNewOrchestrationInstance(name, input);
    }

    OrchestrationMetadata await(String id) throws Exception {
        return client.waitForInstanceCompletion(id, WAIT_MAX, true);
    }

    OrchestrationRuntimeStatus status(String id) {
        return client.getInstanceMetadata(id, false).getRuntimeStatus();
    }

    <T> T output(String id, Class<T> kind) throws Exception {
        OrchestrationMetadata state = await(id);
        if (state.getRuntimeStatus() != OrchestrationRuntimeStatus.COMPLETED) {
            throw new AssertionError(state + ": " + failure(state));
        }
        return state.readOutputAs(kind);
    }

    private static String failure(OrchestrationMetadata state) {
        FailureDetails details = state.getFailureDetails();
        return details == null ? "no failure" : details.getErrorMessage();
    }

    <T> T run(String name, Object input, Class<T> kind) throws Exception {
        return output(start(name, input), kind);
    }

    @Override
    public void close() {
        if (worker != null) worker.stop();
        client.close();
        channel.shutdownNow();
    }
}
