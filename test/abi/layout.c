/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints where everything is in the public structs, and the numbers of the enums: what a program
 * that was built before relies on.
 */
#include <norn.h>

#include <stdio.h>

#define STRUCT(name) printf("%s size %zu\n", #name, sizeof(struct name))
#define MEMBER(name, member)                                                                       \
    printf("    %s at %zu, %zu bytes\n", #member, offsetof(struct name, member),                   \
           sizeof(((struct name *)0)->member))
#define NUMBER(name) printf("%s %d\n", #name, (int)(name))

static void print_structs_of_clients(void)
{
    STRUCT(norn_bytes);
    MEMBER(norn_bytes, ptr);
    MEMBER(norn_bytes, len);
    STRUCT(norn_failure);
    MEMBER(norn_failure, type);
    MEMBER(norn_failure, message);
    MEMBER(norn_failure, is_final);
    STRUCT(norn_engine_options);
    MEMBER(norn_engine_options, size);
    MEMBER(norn_engine_options, directory);
    MEMBER(norn_engine_options, memory_max);
    MEMBER(norn_engine_options, partitions);
    MEMBER(norn_engine_options, policies);
    MEMBER(norn_engine_options, policies_n);
    STRUCT(norn_policy);
    MEMBER(norn_policy, size);
    MEMBER(norn_policy, activity);
    MEMBER(norn_policy, complete_by_ms);
    MEMBER(norn_policy, retries_failures);
    MEMBER(norn_policy, first_threshold);
    MEMBER(norn_policy, retry_delay_ms);
    MEMBER(norn_policy, retry_delay_max_ms);
    MEMBER(norn_policy, second_threshold);
    MEMBER(norn_policy, extended_wait_ms);
    MEMBER(norn_policy, last_resort);
    STRUCT(norn_step);
    MEMBER(norn_step, name);
    MEMBER(norn_step, process);
    MEMBER(norn_step, locked_by);
    MEMBER(norn_step, complete_by_ms);
    MEMBER(norn_step, failures);
    MEMBER(norn_step, retry_at_ms);
    STRUCT(norn_client_options);
    MEMBER(norn_client_options, size);
    MEMBER(norn_client_options, engine);
    MEMBER(norn_client_options, address);
    MEMBER(norn_client_options, hub);
    STRUCT(norn_start_options);
    MEMBER(norn_start_options, size);
    MEMBER(norn_start_options, id);
    MEMBER(norn_start_options, version);
    MEMBER(norn_start_options, start_at_ms);
    MEMBER(norn_start_options, reuse);
    MEMBER(norn_start_options, tags);
    STRUCT(norn_info);
    MEMBER(norn_info, id);
    MEMBER(norn_info, name);
    MEMBER(norn_info, version);
    MEMBER(norn_info, state);
    MEMBER(norn_info, input);
    MEMBER(norn_info, output);
    MEMBER(norn_info, custom_status);
    MEMBER(norn_info, failure);
    MEMBER(norn_info, created_ms);
    MEMBER(norn_info, updated_ms);
    STRUCT(norn_job);
    MEMBER(norn_job, name);
    MEMBER(norn_job, input);
    MEMBER(norn_job, options);
    MEMBER(norn_job, id);
    MEMBER(norn_job, status);
    STRUCT(norn_query);
    MEMBER(norn_query, size);
    MEMBER(norn_query, states);
    MEMBER(norn_query, id_prefix);
    MEMBER(norn_query, name);
    MEMBER(norn_query, limit);
}

static void print_structs_of_workers(void)
{
    STRUCT(norn_worker_options);
    MEMBER(norn_worker_options, size);
    MEMBER(norn_worker_options, threads);
    MEMBER(norn_worker_options, stack_size);
    MEMBER(norn_worker_options, hot_max);
    MEMBER(norn_worker_options, log);
    MEMBER(norn_worker_options, user);
    STRUCT(norn_retry);
    MEMBER(norn_retry, size);
    MEMBER(norn_retry, attempts);
    MEMBER(norn_retry, first_delay_ms);
    MEMBER(norn_retry, factor);
    MEMBER(norn_retry, max_delay_ms);
    MEMBER(norn_retry, jitter);
    MEMBER(norn_retry, total_ms);
    MEMBER(norn_retry, final_types);
    STRUCT(norn_call_options);
    MEMBER(norn_call_options, size);
    MEMBER(norn_call_options, retry);
    MEMBER(norn_call_options, version);
    MEMBER(norn_call_options, id);
    STRUCT(norn_here);
    MEMBER(norn_here, id);
    MEMBER(norn_here, name);
    MEMBER(norn_here, version);
    MEMBER(norn_here, attempt);
    MEMBER(norn_here, complete_by_ms);
    MEMBER(norn_here, idempotency_key);
    MEMBER(norn_here, stack_used_max);
    MEMBER(norn_here, failure);
    MEMBER(norn_here, is_replaying);
    MEMBER(norn_here, state);
}

static void print_numbers(void)
{
    NUMBER(NORN_OK);
    NUMBER(NORN_E_INVALID);
    NUMBER(NORN_E_NOT_FOUND);
    NUMBER(NORN_E_EXISTS);
    NUMBER(NORN_E_PRECONDITION);
    NUMBER(NORN_E_LIMIT);
    NUMBER(NORN_E_NOMEM);
    NUMBER(NORN_E_NOSPACE);
    NUMBER(NORN_E_IO);
    NUMBER(NORN_E_CORRUPT);
    NUMBER(NORN_E_VERSION);
    NUMBER(NORN_E_BUSY);
    NUMBER(NORN_E_CLOSED);
    NUMBER(NORN_E_UNAVAILABLE);
    NUMBER(NORN_E_TIMEOUT);
    NUMBER(NORN_E_UNSUPPORTED);
    NUMBER(NORN_E_FAILED);
    NUMBER(NORN_E_CANCELLED);
    NUMBER(NORN_REUSE_ENDED);
    NUMBER(NORN_REUSE_NEVER);
    NUMBER(NORN_REUSE_KEEP);
    NUMBER(NORN_RUNNING);
    NUMBER(NORN_COMPLETED);
    NUMBER(NORN_FAILED);
    NUMBER(NORN_CANCELED);
    NUMBER(NORN_TERMINATED);
    NUMBER(NORN_PENDING);
    NUMBER(NORN_SUSPENDED);
    NUMBER(NORN_TERMINATE);
    NUMBER(NORN_SUSPEND);
    NUMBER(NORN_RESUME);
    NUMBER(NORN_REWIND);
    NUMBER(NORN_RESTART);
    NUMBER(NORN_PURGE);
    NUMBER(NORN_RESUBMIT);
    NUMBER(NORN_RESORT_FAIL);
    NUMBER(NORN_RESORT_PARK);
    NUMBER(NORN_STEP_PENDING);
    NUMBER(NORN_STEP_PROCESSING);
    NUMBER(NORN_STEP_WAITING);
    NUMBER(NORN_STEP_ERROR);
    NUMBER(NORN_ACTIVITY);
    NUMBER(NORN_CHILD);
    NUMBER(NORN_ID_SIZE);
    NUMBER(NORN_UUID_SIZE);
}

int main(void)
{
    print_structs_of_clients();
    print_structs_of_workers();
    print_numbers();
    return 0;
}
