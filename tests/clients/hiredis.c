/* hiredis, unchanged, against a running getid: `hiredis [check ...]`. See tests/client_matrix.rs.
 * Debian 12's hiredis is older than 1.0, which added TLS, so TLS is not checked. */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(holds) \
    do { \
        if (!(holds)) { fprintf(stderr, "hiredis.c:%d: %s\n", __LINE__, #holds); exit(1); } \
    } while (0)

static int port(const char *name) {
    const char *text = getenv(name);
    CHECK(text != NULL);
    return atoi(text);
}

static redisContext *open_at(const char *name) {
    redisContext *client = redisConnect("127.0.0.1", port(name));
    CHECK(client != NULL && client->err == 0);
    struct timeval patience = {10, 0};
    CHECK(redisSetTimeout(client, patience) == REDIS_OK);
    return client;
}

static redisContext *open_plain(void) { return open_at("MATRIX_PORT"); }

/* Returns an integer reply, which is a long long and so exact. */
static long long integer(redisReply *reply) {
    CHECK(reply != NULL && reply->type == REDIS_REPLY_INTEGER);
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}

static long long id(redisContext *client) { return integer(redisCommand(client, "GETID")); }

static void text_has(redisReply *reply, const char *part) {
    CHECK(reply != NULL && reply->str != NULL && strstr(reply->str, part) != NULL);
    freeReplyObject(reply);
}

static void refused(redisContext *client, const char *text, const char *command) {
    redisReply *reply = redisCommand(client, command);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ERROR && client->err == 0);
    text_has(reply, text);
}

static void connects(void) {
    redisContext *client = open_plain();
    text_has(redisCommand(client, "PING"), "PONG");
    text_has(redisCommand(client, "ECHO %s", "x"), "x");
    text_has(redisCommand(client, "SELECT 3"), "OK");
    text_has(redisCommand(client, "CLIENT SETNAME %s", "matrix"), "OK");
    text_has(redisCommand(client, "CLIENT LIST"), "name=matrix");
    text_has(redisCommand(client, "INFO generator"), "ids_issued:");
    redisReply *reply = redisCommand(client, "CONFIG GET port");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2);
    CHECK(atoi(reply->element[1]->str) == port("MATRIX_PORT"));
    freeReplyObject(reply);
    redisFree(client);
}

/* Any 1024 consecutive IDs differ in their last ten bits, so a lost digit shows. */
static void getid(void) {
    redisContext *client = open_plain();
    char seen[1024] = {0};
    long long last = -1;
    for (int i = 0; i < 1024; i++) {
        long long now = id(client);
        CHECK(now > last && !seen[now % 1024]);
        seen[now % 1024] = 1;
        last = now;
    }
    redisFree(client);
}

static void mgetid(void) {
    redisContext *client = open_plain();
    long long last = id(client);
    redisReply *reply = redisCommand(client, "MGETID %d", 100);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 100);
    for (size_t i = 0; i < 100; i++) {
        CHECK(reply->element[i]->type == REDIS_REPLY_STRING);
        long long now = strtoll(reply->element[i]->str, NULL, 10);
        CHECK(now > last);
        last = now;
    }
    freeReplyObject(reply);
    redisFree(client);
}

static void error(void) {
    redisContext *client = open_plain();
    long long before = integer(redisCommand(client, "CLIENT ID"));
    refused(client, "ERR parameters error! argv[1] = 101", "MGETID 101");
    refused(client, "ERR value is not an integer or out of range", "MGETID x");
    refused(client, "ERR unknown command 'NOSUCH'", "NOSUCH");
    CHECK(id(client) > 0);
    CHECK(integer(redisCommand(client, "CLIENT ID")) == before);
    redisFree(client);
}

static redisReply *next(redisContext *client) {
    void *reply = NULL;
    CHECK(redisGetReply(client, &reply) == REDIS_OK);
    return reply;
}

static void pipeline(void) {
    redisContext *client = open_plain();
    long long last = -1;
    for (int i = 0; i < 1000; i++) {
        CHECK(redisAppendCommand(client, "GETID") == REDIS_OK);
        /* A failed command has an error in its place. */
        if (i == 499) CHECK(redisAppendCommand(client, "MGETID 0") == REDIS_OK);
    }
    for (int i = 0; i < 1000; i++) {
        long long now = integer(next(client));
        CHECK(now > last);
        last = now;
        if (i == 499) text_has(next(client), "ERR parameters error! argv[1] = 0");
    }
    redisFree(client);
}

static void multi(void) {
    redisContext *client = open_plain();
    redisAppendCommand(client, "MULTI");
    for (int i = 0; i < 1000; i++) redisAppendCommand(client, "GETID");
    redisAppendCommand(client, "EXEC");
    text_has(next(client), "OK");
    for (int i = 0; i < 1000; i++) text_has(next(client), "QUEUED");
    redisReply *reply = next(client);
    CHECK(reply->type == REDIS_REPLY_ARRAY && reply->elements == 1000);
    for (size_t i = 1; i < 1000; i++) CHECK(reply->element[i]->integer > reply->element[i - 1]->integer);
    freeReplyObject(reply);
    /* A command that cannot be queued aborts the transaction. */
    text_has(redisCommand(client, "MULTI"), "OK");
    text_has(redisCommand(client, "GETID"), "QUEUED");
    refused(client, "wrong number of arguments", "MGETID");
    refused(client, "EXECABORT", "EXEC");
    CHECK(id(client) > 0);
    redisFree(client);
}

/* Fifty threads with one connection each. No thread starts before all are connected. */
enum { THREADS = 50, EACH = 400 };
static long long drawn[THREADS * EACH];
static pthread_barrier_t all_connected;

static void *draw(void *mine) {
    long long *ids = mine;
    redisContext *client = open_plain();
    pthread_barrier_wait(&all_connected);
    for (int i = 0; i < EACH; i++) {
        ids[i] = id(client);
        CHECK(i == 0 || ids[i] > ids[i - 1]);
    }
    redisFree(client);
    return NULL;
}

static int compare(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

static void pool(void) {
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&all_connected, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, draw, drawn + i * EACH) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    qsort(drawn, THREADS * EACH, sizeof drawn[0], compare);
    for (int i = 1; i < THREADS * EACH; i++) CHECK(drawn[i] != drawn[i - 1]);
}

/* The library reports a lost connection, and reconnects on request. */
static void reconnect(void) {
    redisContext *client = open_plain(), *killer = open_plain();
    long long before = integer(redisCommand(client, "CLIENT ID"));
    long long last = id(client);
    CHECK(integer(redisCommand(killer, "CLIENT KILL ID %lld", before)) == 1);
    CHECK(redisCommand(client, "GETID") == NULL && (client->err == REDIS_ERR_EOF || client->err == REDIS_ERR_IO));
    CHECK(redisReconnect(client) == REDIS_OK);
    CHECK(id(client) > last);
    CHECK(integer(redisCommand(client, "CLIENT ID")) != before);
    redisFree(client);
    redisFree(killer);
}

static void password(void) {
    redisContext *client = open_at("MATRIX_PASSWORD_PORT");
    refused(client, "NOAUTH", "GETID");
    refused(client, "WRONGPASS", "AUTH wrong");
    refused(client, "WRONGPASS", "AUTH default wrong");
    text_has(redisCommand(client, "AUTH %s", getenv("MATRIX_PASSWORD")), "OK");
    CHECK(id(client) > 0);
    text_has(redisCommand(client, "AUTH default %s", getenv("MATRIX_PASSWORD")), "OK");
    CHECK(id(client) > 0);
    redisFree(client);
}

static const struct {
    const char *name;
    void (*run)(void);
} CHECKS[] = {
    {"connect", connects}, {"getid", getid}, {"mgetid", mgetid},       {"error", error},       {"pipeline", pipeline},
    {"multi", multi},      {"pool", pool},   {"reconnect", reconnect}, {"password", password},
};

int main(int argc, char **argv) {
    printf("version hiredis %d.%d.%d\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    for (size_t i = 0; i < sizeof CHECKS / sizeof CHECKS[0]; i++) {
        int is_selected = argc == 1;
        for (int word = 1; word < argc; word++) is_selected |= strcmp(argv[word], CHECKS[i].name) == 0;
        if (!is_selected) continue;
        CHECKS[i].run();
        printf("ok %s\n", CHECKS[i].name);
        fflush(stdout);
    }
    return 0;
}
