/* SPDX-License-Identifier: Apache-2.0
 *
 * From the settings to the options of the parts: the one place that knows both. What has no setting
 * keeps its part's own default.
 */
#include "server/config.h"
#include "server/policy_rules.h"
#include "server/server.h"

void server_options_set(struct server_options *o, const struct config *c)
{
    struct host_options *host = &o->engine.host;

    engine_options_init(&o->engine);
    o->engine.directory = config_text(c, CONFIG_server_data);
    o->engine.journal_segment_size = config_number(c, CONFIG_store_journal_segment_size);
    o->engine.archive_segment_size = config_number(c, CONFIG_store_archive_segment_size);
    host->partitions_n = (uint32_t)config_number(c, CONFIG_store_partitions);
    host->shards_n = (uint32_t)config_number(c, CONFIG_store_shards);
    host->hot_bytes_max = config_number(c, CONFIG_store_hot_memory_max);
    host->idle_evict_ms = (int64_t)config_number(c, CONFIG_store_idle_evict);
    host->horizon_ms = (int64_t)config_number(c, CONFIG_store_timer_horizon);
    host->archive_lag_max = config_number(c, CONFIG_store_archive_lag_max);
    host->archive_every_ms = (int64_t)config_number(c, CONFIG_store_archive_every);
    host->archive_batch_n = config_number(c, CONFIG_store_archive_batch);
    host->disk_free_min = config_number(c, CONFIG_store_disk_free_min);
    host->active_max = (uint32_t)config_number(c, CONFIG_ingest_active_max);
    host->active_max_by_name = (uint32_t)config_number(c, CONFIG_ingest_active_max_by_name);
    host->rate_by_name = (uint32_t)config_number(c, CONFIG_ingest_rate_by_name);
    host->backlog_rules = c->rules; /* they live as long as the settings, as the policies do */
    host->backlog_rules_n = c->rules_n;
    if (config_text(c, CONFIG_work_policies)[0] != '\0') { /* who has none does not ask for them */
        host->policy = policy_rules_find;
        host->policy_user = c->policies;
    }
    host->backlog_n_max = config_number(c, CONFIG_ingest_backlog_max);
    host->backlog_size_max = config_number(c, CONFIG_ingest_backlog_size_max);

    service_options_init(&o->service);
    o->service.message_size_max = config_number(c, CONFIG_server_message_size_max);
    o->service.history_size_max = config_number(c, CONFIG_work_history_size_max);
    o->service.ping_ms = (int64_t)config_number(c, CONFIG_work_ping);
    o->service.grace_ms = (int64_t)config_number(c, CONFIG_work_grace);
    o->service.workers_n_max = (uint32_t)config_number(c, CONFIG_work_workers_max);
    o->service.in_flight_n_max = (uint32_t)config_number(c, CONFIG_work_in_flight_max);

    const char *problem = NULL;
    reply_options_init(&o->reply);
    (void)reply_allow_read(&o->reply.allow, config_text(c, CONFIG_reply_allow), &problem);
    o->reply.ca_file = config_text(c, CONFIG_reply_ca_file);
    o->reply.timeout_ms = (int64_t)config_number(c, CONFIG_reply_timeout);
    o->reply.delay_ms = (int64_t)config_number(c, CONFIG_reply_delay);
    o->reply.delay_ms_max = (int64_t)config_number(c, CONFIG_reply_delay_max);
    o->reply.give_up_ms = (int64_t)config_number(c, CONFIG_reply_give_up);

    conn_limits_init(&o->limits);
    o->limits.message_size_max = config_number(c, CONFIG_server_message_size_max);
    o->limits.calls_n_max = (uint32_t)config_number(c, CONFIG_server_calls_max);

    o->listen = config_text(c, CONFIG_server_listen);
    o->is_insecure = config_number(c, CONFIG_server_insecure) == 1;
    o->connections_n_max = (uint32_t)config_number(c, CONFIG_server_connections_max);
    o->drain_ms = (int64_t)config_number(c, CONFIG_server_drain_timeout);
}
