//! Directives of Redis that have no meaning here.
//!
//! A team's redis.conf must start getid unchanged, so each of these is accepted, with one warning that states why it
//! has no effect. `CONFIG GET` replies with Redis's defaults, whatever the file sets. That is the value in force, so a
//! monitoring agent that reads `save` or `maxmemory` gets a true answer.
//!
//! The names are those of Redis 2.8.21 to 8: all that its config.c reads, including aliases and names that were
//! dropped.

use self::IgnoredReason::{Cluster, Keys, Modules, Other, Persistence, Replication, Scripts, Tls};

/// A directive of Redis without a meaning here.
#[derive(Clone, Copy, Debug)]
pub struct IgnoredDirective {
    /// Name of the directive.
    pub name: &'static str,
    /// Value in `CONFIG GET`; `None` for a name that only files have.
    pub default: Option<&'static str>,
    /// Why the directive has no meaning.
    pub reason: IgnoredReason,
    /// Whether the value is a secret, as Redis marks it (`SENSITIVE_CONFIG`).
    pub is_secret: bool,
}

/// Why a directive has no meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredReason {
    /// About snapshots and append-only files.
    Persistence,
    /// About replicas.
    Replication,
    /// About the keyspace, its memory and its types.
    Keys,
    /// About Redis Cluster.
    Cluster,
    /// About Lua.
    Scripts,
    /// About modules.
    Modules,
    /// About TLS settings of OpenSSL.
    Tls,
    /// About details of Redis's process.
    Other,
}

impl IgnoredReason {
    /// Returns the reason, for a warning.
    pub const fn text(self) -> &'static str {
        match self {
            Persistence => "getid writes no snapshots and no append-only file",
            Replication => "getid has no replicas",
            Keys => "getid keeps no keys",
            Cluster => "getid is no node of a Redis Cluster",
            Scripts => "getid runs no scripts",
            Modules => "getid loads no modules",
            Tls => "getid's TLS has no such setting",
            Other => "getid has no such setting",
        }
    }
}

/// Returns the Redis directive of this name, in lower case.
pub fn find(name: &str) -> Option<IgnoredDirective> {
    let listed = IGNORED_DIRECTIVES.iter().find(|row| row.name == name).copied();
    listed.or_else(|| MODULE_PREFIXES.iter().find(|module| name.starts_with(module.name)).copied())
}

/// Every Redis directive without a meaning here. None is in [`Directive::ALL`](super::directive::Directive::ALL), which
/// a test checks.
pub const IGNORED_DIRECTIVES: &[IgnoredDirective] = &[
    row("aof-disable-auto-gc", Some("no"), Persistence),
    row("aof-load-corrupt-tail-max-size", None, Persistence),
    row("aof-load-truncated", Some("yes"), Persistence),
    row("aof-rewrite-cpulist", Some(""), Persistence),
    row("aof-rewrite-incremental-fsync", Some("yes"), Persistence),
    row("aof-timestamp-enabled", Some("no"), Persistence),
    row("aof-use-rdb-preamble", Some("yes"), Persistence),
    row("aof_rewrite_cpulist", Some(""), Persistence),
    row("appenddirname", Some("appendonlydir"), Persistence),
    row("appendfilename", Some("appendonly.aof"), Persistence),
    row("appendfsync", Some("everysec"), Persistence),
    row("appendonly", Some("no"), Persistence),
    row("auto-aof-rewrite-min-size", Some("67108864"), Persistence),
    row("auto-aof-rewrite-percentage", Some("100"), Persistence),
    row("bgsave-cpulist", Some(""), Persistence),
    row("bgsave_cpulist", Some(""), Persistence),
    row("dbfilename", Some("dump.rdb"), Persistence),
    row("key-load-delay", None, Persistence),
    row("loading-process-events-interval-bytes", None, Persistence),
    row("no-appendfsync-on-rewrite", Some("no"), Persistence),
    row("rdb-del-sync-files", Some("no"), Persistence),
    row("rdb-key-save-delay", None, Persistence),
    row("rdb-save-incremental-fsync", Some("yes"), Persistence),
    row("rdbchecksum", Some("yes"), Persistence),
    row("rdbcompression", Some("yes"), Persistence),
    row("sanitize-dump-payload", Some("no"), Persistence),
    row("save", Some(""), Persistence),
    row("stop-writes-on-bgsave-error", Some("yes"), Persistence),
    row("bind-source-addr", Some(""), Replication),
    row("masterauth", Some(""), Replication).secret(),
    row("masteruser", Some(""), Replication).secret(),
    row("min-replicas-max-lag", Some("10"), Replication),
    row("min-replicas-to-write", Some("0"), Replication),
    row("min-slaves-max-lag", Some("10"), Replication),
    row("min-slaves-to-write", Some("0"), Replication),
    row("propagation-error-behavior", Some("ignore"), Replication),
    row("repl-backlog-size", Some("1048576"), Replication),
    row("repl-backlog-ttl", Some("3600"), Replication),
    row("repl-disable-tcp-nodelay", Some("no"), Replication),
    row("repl-diskless-load", Some("disabled"), Replication),
    row("repl-diskless-sync", Some("yes"), Replication),
    row("repl-diskless-sync-delay", Some("5"), Replication),
    row("repl-diskless-sync-max-replicas", Some("0"), Replication),
    row("repl-ping-replica-period", Some("10"), Replication),
    row("repl-ping-slave-period", Some("10"), Replication),
    row("repl-timeout", Some("60"), Replication),
    row("replica-announce-ip", Some(""), Replication),
    row("replica-announce-port", Some("0"), Replication),
    row("replica-announced", Some("yes"), Replication),
    row("replica-full-sync-buffer-limit", None, Replication),
    row("replica-ignore-disk-write-errors", Some("no"), Replication),
    row("replica-ignore-maxmemory", Some("yes"), Replication),
    row("replica-lazy-flush", Some("no"), Replication),
    row("replica-priority", Some("100"), Replication),
    row("replica-read-only", Some("yes"), Replication),
    row("replica-serve-stale-data", Some("yes"), Replication),
    row("replicaof", Some(""), Replication),
    row("slave-announce-ip", Some(""), Replication),
    row("slave-announce-port", Some("0"), Replication),
    row("slave-ignore-maxmemory", Some("yes"), Replication),
    row("slave-lazy-flush", Some("no"), Replication),
    row("slave-priority", Some("100"), Replication),
    row("slave-read-only", Some("yes"), Replication),
    row("slave-serve-stale-data", Some("yes"), Replication),
    row("slaveof", Some(""), Replication),
    row("active-defrag-cycle-max", Some("25"), Keys),
    row("active-defrag-cycle-min", Some("1"), Keys),
    row("active-defrag-ignore-bytes", Some("104857600"), Keys),
    row("active-defrag-max-scan-fields", Some("1000"), Keys),
    row("active-defrag-threshold-lower", Some("10"), Keys),
    row("active-defrag-threshold-upper", Some("100"), Keys),
    row("active-expire-effort", Some("1"), Keys),
    row("activedefrag", Some("no"), Keys),
    row("activerehashing", Some("yes"), Keys),
    row("hash-max-listpack-entries", Some("512"), Keys),
    row("hash-max-listpack-value", Some("64"), Keys),
    row("hash-max-ziplist-entries", Some("512"), Keys),
    row("hash-max-ziplist-value", Some("64"), Keys),
    row("hll-sparse-max-bytes", Some("3000"), Keys),
    row("key-memory-histograms", None, Keys),
    row("lazyfree-lazy-eviction", Some("no"), Keys),
    row("lazyfree-lazy-expire", Some("no"), Keys),
    row("lazyfree-lazy-server-del", Some("no"), Keys),
    row("lazyfree-lazy-user-del", Some("no"), Keys),
    row("lazyfree-lazy-user-flush", Some("no"), Keys),
    row("lfu-decay-time", Some("1"), Keys),
    row("lfu-log-factor", Some("10"), Keys),
    row("list-compress-depth", Some("0"), Keys),
    row("list-max-listpack-size", Some("-2"), Keys),
    row("list-max-ziplist-entries", None, Keys),
    row("list-max-ziplist-size", Some("-2"), Keys),
    row("list-max-ziplist-value", None, Keys),
    row("maxmemory", Some("0"), Keys),
    row("maxmemory-eviction-tenacity", Some("10"), Keys),
    row("maxmemory-policy", Some("noeviction"), Keys),
    row("maxmemory-samples", Some("5"), Keys),
    row("notify-keyspace-events", Some(""), Keys),
    row("set-max-intset-entries", Some("512"), Keys),
    row("set-max-listpack-entries", Some("128"), Keys),
    row("set-max-listpack-value", Some("64"), Keys),
    row("stream-idmp-duration", None, Keys),
    row("stream-idmp-maxsize", None, Keys),
    row("stream-node-max-bytes", Some("4096"), Keys),
    row("stream-node-max-entries", Some("100"), Keys),
    row("tracking-table-max-keys", Some("1000000"), Keys),
    row("vset-force-single-threaded-execution", None, Keys),
    row("zset-max-listpack-entries", Some("128"), Keys),
    row("zset-max-listpack-value", Some("64"), Keys),
    row("zset-max-ziplist-entries", Some("128"), Keys),
    row("zset-max-ziplist-value", Some("64"), Keys),
    row("cluster-allow-pubsubshard-when-down", Some("yes"), Cluster),
    row("cluster-allow-reads-when-down", Some("no"), Cluster),
    row("cluster-allow-replica-migration", Some("yes"), Cluster),
    row("cluster-announce-bus-port", Some("0"), Cluster),
    row("cluster-announce-hostname", Some(""), Cluster),
    row("cluster-announce-human-nodename", Some(""), Cluster),
    row("cluster-announce-ip", Some(""), Cluster),
    row("cluster-announce-port", Some("0"), Cluster),
    row("cluster-announce-tls-port", Some("0"), Cluster),
    row("cluster-compatibility-sample-ratio", None, Cluster),
    row("cluster-config-file", Some("nodes.conf"), Cluster),
    row("cluster-enabled", Some("no"), Cluster),
    row("cluster-link-sendbuf-limit", Some("0"), Cluster),
    row("cluster-migration-barrier", Some("1"), Cluster),
    row("cluster-node-timeout", Some("15000"), Cluster),
    row("cluster-ping-interval", None, Cluster),
    row("cluster-port", Some("0"), Cluster),
    row("cluster-preferred-endpoint-type", Some("ip"), Cluster),
    row("cluster-replica-no-failover", Some("no"), Cluster),
    row("cluster-replica-validity-factor", Some("10"), Cluster),
    row("cluster-require-full-coverage", Some("yes"), Cluster),
    row("cluster-slave-no-failover", Some("no"), Cluster),
    row("cluster-slave-validity-factor", Some("10"), Cluster),
    row("cluster-slot-migration-handoff-max-lag-bytes", None, Cluster),
    row("cluster-slot-migration-max-archived-tasks", None, Cluster),
    row("cluster-slot-migration-sync-buffer-drain-timeout", None, Cluster),
    row("cluster-slot-migration-write-pause-timeout", None, Cluster),
    row("cluster-slot-stats-enabled", None, Cluster),
    row("busy-reply-threshold", Some("5000"), Scripts),
    row("lua-replicate-commands", None, Scripts),
    row("lua-time-limit", Some("5000"), Scripts),
    row("enable-module-command", Some("no"), Modules),
    row("loadmodule", None, Modules),
    row("tls-client-cert-file", Some(""), Tls),
    row("tls-client-key-file", Some(""), Tls),
    row("tls-client-key-file-pass", Some(""), Tls).secret(),
    row("tls-cluster", Some("no"), Tls),
    row("tls-dh-params-file", Some(""), Tls),
    row("tls-key-file-pass", Some(""), Tls).secret(),
    row("tls-replication", Some("no"), Tls),
    row("acl-pubsub-default", Some("resetchannels"), Other),
    row("always-show-logo", Some("no"), Other),
    row("bio-cpulist", Some(""), Other),
    row("bio_cpulist", Some(""), Other),
    row("client-default-resp", None, Other),
    row("crash-log-enabled", Some("yes"), Other),
    row("crash-memcheck-enabled", Some("yes"), Other),
    row("disable-thp", Some("yes"), Other),
    row("dynamic-hz", Some("yes"), Other),
    row("enable-debug-command", Some("no"), Other),
    row("enable-protected-configs", Some("no"), Other),
    row("gopher-enabled", None, Other),
    row("hide-user-data-from-log", Some("no"), Other),
    row("ignore-warnings", Some(""), Other),
    row("io-threads-do-reads", Some("no"), Other),
    row("jemalloc-bg-thread", Some("yes"), Other),
    row("latency-tracking", Some("yes"), Other),
    row("latency-tracking-info-percentiles", Some("50 99 99.9"), Other),
    row("locale-collate", Some(""), Other),
    row("lookahead", None, Other),
    row("max-new-connections-per-cycle", Some("10"), Other),
    row("max-new-tls-connections-per-cycle", Some("1"), Other),
    row("oom-score-adj", Some("no"), Other),
    row("oom-score-adj-values", Some("0 200 800"), Other),
    row("proc-title-template", Some("{title} {listen-addr} {server-mode}"), Other),
    row("req-res-logfile", None, Other),
    row("server-cpulist", Some(""), Other),
    row("server_cpulist", Some(""), Other),
    row("set-proc-title", Some("yes"), Other),
    row("shutdown-on-sigint", Some("default"), Other),
    row("shutdown-on-sigterm", Some("default"), Other),
    row("socket-mark-id", Some("0"), Other),
    row("use-exit-on-panic", None, Other),
    row("watchdog-period", None, Other),
];

/// Prefixes of the modules of Redis 8, each with a few dozen directives.
const MODULE_PREFIXES: &[IgnoredDirective] =
    &[row("search-", None, Modules), row("ts-", None, Modules), row("bf-", None, Modules), row("cf-", None, Modules)];

const fn row(name: &'static str, default: Option<&'static str>, reason: IgnoredReason) -> IgnoredDirective {
    IgnoredDirective { name, default, reason, is_secret: false }
}

impl IgnoredDirective {
    const fn secret(self) -> IgnoredDirective {
        IgnoredDirective { is_secret: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::directive::Directive;
    use super::*;

    #[test]
    fn no_name_stands_twice_or_in_both_tables() {
        let mut names: Vec<_> = IGNORED_DIRECTIVES.iter().map(|row| row.name).collect();
        names.extend(Directive::ALL.iter().map(|row| row.name));
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    /// Functions that are always off here are reported as off, whatever Redis's own default.
    #[test]
    fn what_is_never_done_reads_as_off() {
        for name in ["appendonly", "cluster-enabled", "tls-replication", "activedefrag"] {
            assert_eq!(find(name).expect("Redis has it").default, Some("no"), "{name}");
        }
    }
}
