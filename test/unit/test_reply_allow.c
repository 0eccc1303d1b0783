/* SPDX-License-Identifier: Apache-2.0
 *
 * Where replies may go: the table of addresses that attackers name.
 */
#include "reply/allow.h"
#include "test/lib/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static struct reply_allow allow_of(const char *text)
{
    struct reply_allow allow;
    const char *problem = NULL;
    EXPECT(reply_allow_read(&allow, text, &problem));
    return allow;
}

static bool is_allowed(const char *list, const char *address)
{
    struct reply_allow allow = allow_of(list);
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    test_note("%s in %s", address, list);
    if (inet_pton(AF_INET, address, &four.sin_addr) == 1)
        return reply_is_allowed(&allow, (const struct sockaddr *)(const void *)&four);
    EXPECT(inet_pton(AF_INET6, address, &six.sin6_addr) == 1);
    return reply_is_allowed(&allow, (const struct sockaddr *)(const void *)&six);
}

/* What everybody can reach is public; nothing else is, however it is written. */
TEST(only_what_everybody_can_reach_is_public)
{
    static const char *const public[] = {
        "8.8.8.8",        "1.1.1.1",     "172.15.255.255",
        "172.32.0.1",     "192.167.1.1", "11.0.0.1",
        "100.63.255.255", "100.128.0.1", "223.255.255.1",
        "126.1.1.1",      "128.0.0.1",   "169.253.0.1",
        "198.17.0.1",     "2600::1",     "2a00:1450:4001::200e",
        "::ffff:8.8.8.8",
    };
    static const char *const others[] = {
        "127.0.0.1",
        "127.255.255.254",
        "::1",
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:db8::1",
        "3fff::1",
        "fc00::1",
        "fd12:3456::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "100::1",
        "4000::1",
    };
    for (size_t n = 0; n < sizeof public / sizeof *public; n++)
        EXPECT(is_allowed("public", public[n]));
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        EXPECT(!is_allowed("public", others[n]));
}

TEST(each_word_allows_its_own)
{
    EXPECT(is_allowed("loopback", "127.0.0.1"));
    EXPECT(is_allowed("loopback", "127.9.9.9"));
    EXPECT(is_allowed("loopback", "::1"));
    EXPECT(is_allowed("loopback", "::ffff:127.0.0.1"));
    EXPECT(!is_allowed("loopback", "10.0.0.1"));
    EXPECT(!is_allowed("loopback", "8.8.8.8"));
    EXPECT(is_allowed("private", "10.1.2.3"));
    EXPECT(is_allowed("private", "192.168.1.1"));
    EXPECT(is_allowed("private", "fd12::1"));
    EXPECT(!is_allowed("private", "127.0.0.1"));
    EXPECT(!is_allowed("private", "169.254.169.254"));
    EXPECT(!is_allowed("private", "100.100.100.200"));
    EXPECT(!is_allowed("private", "fd00:ec2::254"));
    EXPECT(is_allowed("public, private,loopback", "10.1.2.3"));
    EXPECT(!is_allowed("none", "8.8.8.8"));
}

/* Whoever names a range means it, whatever is in it. */
TEST(a_range_allows_what_is_in_it)
{
    EXPECT(is_allowed("10.1.0.0/16", "10.1.255.1"));
    EXPECT(!is_allowed("10.1.0.0/16", "10.2.0.1"));
    EXPECT(is_allowed("10.1.2.3", "10.1.2.3"));
    EXPECT(!is_allowed("10.1.2.3", "10.1.2.4"));
    EXPECT(is_allowed("169.254.169.254/32", "169.254.169.254"));
    EXPECT(is_allowed("fe80::/10", "febf::1"));
    EXPECT(!is_allowed("fe80::/10", "fec0::1"));
    EXPECT(is_allowed("10.128.0.0/9", "10.255.0.1"));
    EXPECT(!is_allowed("10.128.0.0/9", "10.127.0.1"));
    EXPECT(is_allowed("0.0.0.0/0", "127.0.0.1"));
    EXPECT(!is_allowed("0.0.0.0/0", "::1"));
    EXPECT(is_allowed("10.0.0.0/8", "::ffff:10.0.0.1"));
}

TEST(what_is_not_understood_is_pointed_at)
{
    static const struct {
        const char *text;
        size_t at;
    } cases[] = {
        {"", 0},
        {"pubic", 0},
        {"public,", 7},
        {"public,,private", 7},
        {"10.0.0.0/33", 0},
        {"10.0.0/8", 0},
        {"public, 1.2.3.4/", 8},
        {"example.com", 0},
        {"public private", 7},
        {"::/129", 0},
        {"10.0.0.0/8x", 0},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct reply_allow allow;
        const char *problem = NULL;
        test_note("\"%s\"", cases[n].text);
        EXPECT(!reply_allow_read(&allow, cases[n].text, &problem));
        EXPECT_EQ(cases[n].at, problem - cases[n].text);
    }
}
