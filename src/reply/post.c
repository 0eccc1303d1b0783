/* SPDX-License-Identifier: Apache-2.0
 *
 * See post.h. The allow list is asked where the socket is made, with the very address that will be
 * connected to: there is no second look at the name between the check and its use. Redirects,
 * proxies, other protocols and passwords in URLs are off. With https the receiver must have a
 * certificate for its name from an authority that is trusted: there is no switch against it. What
 * the receiver says beside its status is not kept.
 */
#include "reply/post.h"

#include "base/assert.h"

#include <curl/curl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 5000L
#define ANSWER_SIZE_MAX ((size_t)64 << 10)
#define IDLE_CONNECTIONS_MAX 64L

struct posts {
    struct mem mem;
    CURLM *multi;
    const struct reply_options *options;
    long timeout_ms;
};

enum status posts_open(const struct reply_options *options, struct posts **out)
{
    struct mem mem;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return E_NOMEM;
    mem_init(&mem, SIZE_MAX);
    struct posts *p = mem_take_zero(&mem, sizeof *p);
    if (p == NULL) return E_NOMEM;
    *p = (struct posts){.mem = mem, .options = options, .timeout_ms = (long)options->timeout_ms};
    p->multi = curl_multi_init();
    if (p->multi == NULL) {
        posts_close(p);
        return E_NOMEM;
    }
    (void)curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS_MAX);
    *out = p;
    return OK;
}

void posts_close(struct posts *p)
{
    struct mem mem = p->mem;
    if (p->multi != NULL) (void)curl_multi_cleanup(p->multi);
    mem_give(&mem, p, sizeof *p);
    mem_release(&mem);
}

/* ---- URLs ---- */

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

static bool read_url(CURLU *url, struct reply_job *job, char *name, size_t size)
{
    char *scheme = NULL;
    char *host = NULL;
    char *port = NULL;
    const char *problem = NULL;
    if (job->url == NULL || curl_url_set(url, CURLUPART_URL, job->url, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
        problem = "is not a URL";
    else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        problem = "is neither http nor https";
    else if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
        problem = "has a user or password in it";
    if (problem == NULL)
        (void)snprintf(name, size, "%s:%s", host, port);
    else
        (void)snprintf(job->text, sizeof job->text, "%.100s %s",
                       job->url == NULL ? "(none)" : job->url, problem);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return problem == NULL;
}

bool post_receiver(struct reply_job *job, char *name, size_t size)
{
    CURLU *url = curl_url();
    if (url == NULL) return false;
    bool is_good = read_url(url, job, name, size);
    curl_url_cleanup(url);
    return is_good;
}

/* ---- one request ---- */

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct reply_job *job = user;
    (void)purpose;
    if (!reply_is_allowed(&job->posts->options->allow, &address->addr)) {
        job->is_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t take_answer(char *bytes, size_t size, size_t n, void *user)
{
    struct reply_job *job = user;
    (void)bytes;
    job->answer_size += size * n;
    return job->answer_size > ANSWER_SIZE_MAX ? 0 : size * n; /* 0 ends it: the status is known */
}

static bool set_headers(struct reply_job *job)
{
    char key[320];
    (void)snprintf(key, sizeof key, "Idempotency-Key: %s", job->id);
    const char *lines[] = {"Content-Type: application/json", "Expect:", key};
    struct curl_slist *headers = NULL;
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++) {
        struct curl_slist *longer = curl_slist_append(headers, lines[n]);
        if (longer == NULL) {
            curl_slist_free_all(headers);
            return false;
        }
        headers = longer;
    }
    job->headers = headers;
    return true;
}

static bool set_options(const struct posts *p, struct reply_job *job)
{
    CURL *h = job->handle;
    CURLcode code = CURLE_OK;
#define SET(option, value)                                                                         \
    if (code == CURLE_OK) code = curl_easy_setopt(h, option, value)
    SET(CURLOPT_URL, job->url);
    SET(CURLOPT_PRIVATE, job);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, p->timeout_ms < CONNECT_MS ? p->timeout_ms : CONNECT_MS);
    SET(CURLOPT_TIMEOUT_MS, p->timeout_ms);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDS, job->body.len == 0 ? "" : (const char *)job->body.ptr);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)job->body.len);
    SET(CURLOPT_HTTPHEADER, (struct curl_slist *)job->headers);
    SET(CURLOPT_USERAGENT, "norn/" NORN_VERSION);
    SET(CURLOPT_WRITEFUNCTION, take_answer);
    SET(CURLOPT_WRITEDATA, job);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, job);
    SET(CURLOPT_ERRORBUFFER, job->reason);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    if (strcmp(p->options->ca_file, REPLY_CA_SYSTEM) != 0) {
        SET(CURLOPT_CAINFO, p->options->ca_file);
        SET(CURLOPT_CAPATH, NULL); /* in place of the system's, not beside them */
    }
#undef SET
    return code == CURLE_OK;
}

void posts_drop(struct posts *p, struct reply_job *job)
{
    if (job->handle != NULL) {
        (void)curl_multi_remove_handle(p->multi, job->handle);
        curl_easy_cleanup(job->handle);
    }
    curl_slist_free_all(job->headers);
    job->handle = NULL;
    job->headers = NULL;
}

enum status posts_begin(struct posts *p, struct reply_job *job)
{
    assert(job->handle == NULL);
    _Static_assert(JOB_REASON_SIZE >= CURL_ERROR_SIZE, "libcurl writes so much");
    job->posts = p;
    job->reason[0] = '\0';
    job->handle = curl_easy_init();
    if (job->handle != NULL && set_headers(job) && set_options(p, job) &&
        curl_multi_add_handle(p->multi, job->handle) == CURLM_OK)
        return OK;
    if (job->handle != NULL) curl_easy_cleanup(job->handle);
    job->handle = NULL;
    curl_slist_free_all(job->headers);
    job->headers = NULL;
    return E_NOMEM;
}

/* ---- news ---- */

static bool is_heard(struct reply_job *job, CURLcode code)
{
    long status = 0;
    (void)curl_easy_getinfo(job->handle, CURLINFO_RESPONSE_CODE, &status);
    bool is_answered = code == CURLE_OK || (code == CURLE_WRITE_ERROR && status > 0);
    if (is_answered && status >= 200 && status < 300) return true;
    if (is_answered)
        (void)snprintf(job->text, sizeof job->text, "%.120s answered %ld", job->url, status);
    else
        (void)snprintf(job->text, sizeof job->text, "%.120s: %s", job->url,
                       job->is_refused          ? "its address is not in reply.allow"
                       : job->reason[0] != '\0' ? job->reason
                                                : curl_easy_strerror(code));
    return false;
}

struct reply_job *posts_next(struct posts *p, bool *is_good)
{
    int left_n = 0;
    for (CURLMsg *m = curl_multi_info_read(p->multi, &left_n); m != NULL;
         m = curl_multi_info_read(p->multi, &left_n)) {
        char *user = NULL;
        if (m->msg != CURLMSG_DONE) continue;
        CURLcode code = m->data.result;
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &user);
        struct reply_job *job = (struct reply_job *)(void *)user;
        *is_good = is_heard(job, code);
        posts_drop(p, job);
        return job;
    }
    return NULL;
}

void posts_wait(struct posts *p, int timeout_ms)
{
    int running_n = 0;
    (void)curl_multi_poll(p->multi, NULL, 0, timeout_ms, NULL);
    (void)curl_multi_perform(p->multi, &running_n);
}

void posts_wake(struct posts *p) { (void)curl_multi_wakeup(p->multi); }
