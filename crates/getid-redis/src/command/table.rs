//! The rows of the command table. Flags and categories are those of Redis 7.0's command of the same name (tested
//! against a real `redis-server` in `tests/protocol/session.rs`).
//!
//! A new command needs a row here, a [`Verb`], and its match arm in the session.

mod benchmark;
mod cluster;
mod hashes;
mod keys;
mod numbers;
mod pubsub;
mod scripts;
mod sentinel;
mod sequences;
mod series;
mod workers;

pub(super) use cluster::absent as absent_cluster;
pub(super) use sentinel::absent as absent_sentinel;

use super::{Argument, Categories, Channels, Command, CommandFlags, KeyAccess, KeyRange, KeySpec, Secrets, Verb};

const FAST: CommandFlags = CommandFlags::FAST.and(CommandFlags::LOADING).and(CommandFlags::STALE);
const SLOW: CommandFlags = CommandFlags::LOADING.and(CommandFlags::STALE);
/// Flags of commands that concern only the client's own connection.
const OWN: CommandFlags = SLOW.and(CommandFlags::NOSCRIPT);
const ADMIN: CommandFlags = OWN.and(CommandFlags::ADMIN);
const LOGIN: CommandFlags = FAST.and(CommandFlags::NOSCRIPT).and(CommandFlags::NO_AUTH).and(CommandFlags::ALLOW_BUSY);

/// Flags of commands that count by a sequence, as in Redis.
const COUNTING: CommandFlags = CommandFlags::WRITE.and(CommandFlags::DENY_OOM).and(CommandFlags::FAST);

const NONE: Categories = Categories::NONE;
const CONNECTION: Categories = Categories::CONNECTION;
const TRANSACTION: Categories = Categories::TRANSACTION;

/// Access to the name of a generator: an ID is returned, and nothing that can be read by that name changes.
const READ: KeyAccess = KeyAccess::RO.and(KeyAccess::ACCESS);
const READ_UPDATE: KeyAccess = KeyAccess::RW.and(KeyAccess::ACCESS).and(KeyAccess::UPDATE);

/// Every command. Commands that give IDs or values come first among names of their length, so a look-up finds them
/// first.
pub static TABLE: &[Command] =
    &[
        GETID,
        MGETID,
        row(Verb::Incr, "incr", 2, COUNTING, Categories::STRING)
            .on_holder()
            .keys(&[one(1, READ_UPDATE)])
            .docs("1.0.0", "string", "Get the next value of a sequence, which never decreases")
            .takes(&[KEY]),
        row(Verb::IncrBy, "incrby", 3, COUNTING, Categories::STRING)
            .on_holder()
            .keys(&[one(1, READ_UPDATE)])
            .docs("1.0.0", "string", "Draw the next values of a sequence, and get the last of them")
            .takes(&[KEY, argument("increment", "integer")]),
        row(Verb::HIncrBy, "hincrby", 4, COUNTING, Categories::HASH)
            .on_holder()
            .keys(&[one(1, READ_UPDATE)])
            .docs("2.0.0", "hash", "Draw the next values of a sequence, whose field is cur, and get the last of them")
            .takes(&[KEY, argument("field", "string"), argument("increment", "integer")]),
        DECODEID,
        ENCODEID,
        row(Verb::Generators, "generators", 1, SLOW.and(CommandFlags::READONLY), NONE)
            .docs("0.1.0", "generic", "List the named generators: kinds, layouts, capacities, ends and positions")
            .costs("O(N) where N is the number of generators"),
        // Also before a login: health checks have no password, and the reply reveals nothing else.
        row(Verb::IdReady, "idready", 1, FAST.and(CommandFlags::READONLY).and(CommandFlags::NO_AUTH), NONE).docs(
            "0.1.0",
            "generic",
            "Return whether ids are available, without drawing one",
        ),
        IDSPAN,
        SEALID,
        OPENID,
        keys::GET,
        keys::MGET,
        keys::EXISTS,
        keys::TYPE,
        keys::TTL,
        keys::PTTL,
        keys::EXPIRETIME,
        keys::PEXPIRETIME,
        keys::STRLEN,
        keys::TOUCH,
        keys::KEYS,
        keys::SCAN,
        keys::DBSIZE,
        keys::RANDOMKEY,
        keys::OBJECT,
        keys::SET,
        keys::SETNX,
        keys::GETSET,
        keys::GETDEL,
        keys::DEL,
        keys::UNLINK,
        keys::PERSIST,
        keys::EXPIRE,
        keys::PEXPIRE,
        keys::EXPIREAT,
        keys::PEXPIREAT,
        keys::DECR,
        keys::DECRBY,
        keys::INCRBYFLOAT,
        keys::APPEND,
        keys::SETRANGE,
        keys::GETEX,
        keys::SETEX,
        keys::PSETEX,
        keys::MSET,
        keys::MSETNX,
        keys::RENAME,
        keys::RENAMENX,
        hashes::HGET,
        hashes::HMGET,
        hashes::HGETALL,
        hashes::HEXISTS,
        hashes::HLEN,
        hashes::HKEYS,
        hashes::HVALS,
        hashes::HSET,
        sequences::SEQUENCE,
        series::SERIES,
        numbers::NUMBER,
        workers::WORKERID,
        scripts::EVAL,
        scripts::EVALSHA,
        scripts::SCRIPT,
        benchmark::LPUSH,
        benchmark::RPUSH,
        benchmark::LPOP,
        benchmark::RPOP,
        benchmark::LRANGE,
        benchmark::SADD,
        benchmark::SPOP,
        benchmark::ZADD,
        benchmark::ZPOPMIN,
        benchmark::XADD,
        benchmark::FCALL,
        benchmark::FUNCTION,
        pubsub::SUBSCRIBE,
        pubsub::UNSUBSCRIBE,
        pubsub::PSUBSCRIBE,
        pubsub::PUNSUBSCRIBE,
        pubsub::PUBLISH,
        cluster::CLUSTER,
        cluster::READONLY,
        cluster::READWRITE,
        cluster::ASKING,
        sentinel::SENTINEL,
        row(Verb::Acl, "acl", -2, CommandFlags::NONE, NONE)
            .docs("6.0.0", "server", "A container for Access List Control commands")
            .with(ACL),
        row(Verb::Auth, "auth", -2, LOGIN, CONNECTION)
            .secrets(Secrets::From(1))
            .docs("1.0.0", "connection", "Authenticate to the server")
            .takes(&[argument("username", "string").optional(), argument("password", "string")]),
        row(Verb::Client, "client", -2, CommandFlags::NONE, NONE)
            .docs("2.4.0", "connection", "A container for client connection commands")
            .with(CLIENT),
        row(Verb::Command, "command", -1, SLOW, CONNECTION)
            .docs("2.8.13", "server", "Get array of command details")
            .with(COMMAND)
            .costs("O(N) where N is the total number of commands"),
        row(Verb::Config, "config", -2, CommandFlags::NONE, NONE)
            .docs("2.0.0", "server", "A container for server configuration commands")
            .with(&[
                row(Verb::ConfigGet, "config|get", -3, ADMIN, NONE)
                    .docs("2.0.0", "server", "Get the values of configuration parameters")
                    .costs("O(N) when N is the number of configuration parameters provided")
                    .takes(&[argument("parameter", "string").multiple()])
                    .help(&[
                        "GET <pattern>",
                        "    Return parameters matching the glob-like <pattern> and their values.",
                    ]),
                row(Verb::ConfigSet, "config|set", -4, ADMIN, NONE)
                    .secrets(Secrets::Directives)
                    .guarded()
                    .docs("2.0.0", "server", "Set configuration parameters to the given values")
                    .costs("O(N) when N is the number of configuration parameters provided")
                    .takes(&[Argument {
                        parts: &[argument("parameter", "string"), argument("value", "string")],
                        ..argument("parameter_value", "block").multiple()
                    }])
                    .help(&["SET <directive> <value>", "    Set the configuration <directive> to <value>."]),
                row(Verb::ConfigResetStat, "config|resetstat", 2, ADMIN, NONE)
                    .guarded()
                    .docs("2.0.0", "server", "Reset the stats returned by INFO")
                    .help(&["RESETSTAT", "    Reset statistics reported by the INFO command."]),
                row(Verb::ConfigRewrite, "config|rewrite", 2, ADMIN, NONE)
                    .guarded()
                    .docs("2.8.0", "server", "Rewrite the configuration file with the in memory configuration")
                    .help(&["REWRITE", "    Rewrite the configuration file."]),
                help_row(Verb::ConfigHelp, "config|help", NONE, "5.0.0", "server"),
            ]),
        row(Verb::Discard, "discard", 1, FAST.and(CommandFlags::NOSCRIPT).and(CommandFlags::ALLOW_BUSY), TRANSACTION)
            .at_once()
            .docs("2.0.0", "transactions", "Discard all commands issued after MULTI"),
        row(Verb::Echo, "echo", 2, FAST, CONNECTION)
            .sends_back()
            .docs("1.0.0", "connection", "Echo the given string")
            .takes(&[argument("message", "string")]),
        row(Verb::Exec, "exec", 1, OWN.and(CommandFlags::SKIP_SLOWLOG), TRANSACTION)
            .at_once()
            .docs("1.2.0", "transactions", "Execute all commands issued after MULTI")
            .costs("Depends on commands in the transaction"),
        row(Verb::Hello, "hello", -1, LOGIN, CONNECTION)
            .secrets(Secrets::Login)
            .docs("6.0.0", "connection", "Handshake with Redis")
            .takes(&[Argument {
                parts: &[
                    argument("protover", "integer"),
                    Argument {
                        parts: &[argument("username", "string"), argument("password", "string")],
                        ..argument("username_password", "block").after("AUTH").optional()
                    },
                    argument("clientname", "string").after("SETNAME").optional(),
                ],
                ..argument("arguments", "block").optional()
            }]),
        row(Verb::Info, "info", -1, SLOW, Categories::DANGEROUS)
            .docs("1.0.0", "server", "Get information and statistics about the server")
            .takes(&[argument("section", "string").optional().multiple()]),
        row(Verb::Latency, "latency", -2, CommandFlags::NONE, NONE)
            .docs("2.8.13", "server", "A container for latency diagnostics commands")
            .with(LATENCY),
        row(Verb::LolWut, "lolwut", -1, CommandFlags::READONLY.and(CommandFlags::FAST), NONE)
            .docs("5.0.0", "server", "Display the version")
            .costs("")
            .takes(&[argument("version", "integer").after("VERSION").optional()]),
        row(Verb::Memory, "memory", -2, CommandFlags::NONE, NONE)
            .docs("4.0.0", "server", "A container for memory diagnostics commands")
            .with(MEMORY),
        row(Verb::Monitor, "monitor", 1, ADMIN, NONE)
            .guarded()
            .docs("1.0.0", "server", "Listen for all requests received by the server in real time")
            .costs(""),
        row(Verb::Multi, "multi", 1, FAST.and(CommandFlags::NOSCRIPT).and(CommandFlags::ALLOW_BUSY), TRANSACTION)
            .at_once()
            .docs("1.2.0", "transactions", "Mark the start of a transaction block"),
        // Redis 7.0 refuses PING while it loads; getid has nothing to load.
        row(Verb::Ping, "ping", -1, CommandFlags::FAST, CONNECTION)
            .sends_back()
            .docs("1.0.0", "connection", "Ping the server")
            .takes(&[argument("message", "string").optional()]),
        row(Verb::Quit, "quit", -1, LOGIN, CONNECTION).at_once().docs("1.0.0", "connection", "Close the connection"),
        row(Verb::Reset, "reset", 1, LOGIN, CONNECTION).at_once().docs("6.2.0", "connection", "Reset the connection"),
        row(Verb::Role, "role", 1, FAST.and(CommandFlags::NOSCRIPT), Categories::ADMIN.and(Categories::DANGEROUS))
            .docs("2.8.12", "server", "Return the role of the instance in the context of replication"),
        row(Verb::Select, "select", 2, FAST, CONNECTION)
            .docs("1.0.0", "connection", "Change the selected database for the current connection")
            .takes(&[argument("index", "integer")]),
        row(Verb::Shutdown, "shutdown", -1, ADMIN.and(CommandFlags::NO_MULTI).and(CommandFlags::ALLOW_BUSY), NONE)
            .unpaused()
            .guarded()
            .docs("1.0.0", "server", "Save the state and then shut down the server")
            .takes(&[
                Argument { parts: &[token("NOSAVE"), token("SAVE")], ..argument("nosave_save", "oneof").optional() },
                token("NOW").optional(),
                token("FORCE").optional(),
                token("ABORT").optional(),
            ]),
        row(Verb::SlowLog, "slowlog", -2, CommandFlags::NONE, NONE)
            .docs("2.2.12", "server", "A container for slow log commands")
            .with(SLOWLOG),
        row(Verb::Time, "time", 1, FAST, NONE).docs("2.6.0", "server", "Return the current server time"),
        row(Verb::Unwatch, "unwatch", 1, FAST.and(CommandFlags::NOSCRIPT).and(CommandFlags::ALLOW_BUSY), TRANSACTION)
            .docs("2.2.0", "transactions", "Forget about all watched keys"),
        row(Verb::Watch, "watch", -2, FAST.and(CommandFlags::NOSCRIPT).and(CommandFlags::ALLOW_BUSY), TRANSACTION)
            .at_once()
            .docs("2.2.0", "transactions", "Refused: INCR takes values of a sequence without a transaction")
            .takes(&[argument("key", "string").multiple()]),
    ];

const GETID: Command = row(Verb::GetId, "getid", 1, FAST.and(CommandFlags::READONLY), NONE).on_holder().docs(
    "0.1.0",
    "generic",
    "Get a unique 63-bit id that is larger than every one before",
);
const MGETID: Command = row(Verb::MGetId, "mgetid", 2, FAST.and(CommandFlags::READONLY), NONE)
    .on_holder()
    .docs("0.1.0", "generic", "Get several unique ids, ascending")
    .costs("O(N) where N is the number of ids")
    .takes(&[COUNT]);
const DECODEID: Command = row(Verb::DecodeId, "decodeid", 2, FAST.and(CommandFlags::READONLY), NONE)
    .docs("0.1.0", "generic", "Return the fields of an id, and its readings by kinds")
    .takes(&[argument("id", "string")]);
const ENCODEID: Command = row(Verb::EncodeId, "encodeid", -4, FAST.and(CommandFlags::READONLY), NONE)
    .docs("0.1.0", "generic", "Compose the id of a time and values of fields, without drawing one")
    .takes(&[
        argument("name", "string"),
        AT_TIME,
        FIELD_VALUES,
        token("HIGHEST").optional(),
        token("FORCE").optional(),
    ]);
const IDSPAN: Command = row(Verb::IdSpan, "idspan", 3, FAST.and(CommandFlags::READONLY), NONE)
    .docs("0.1.0", "generic", "Get the lowest and the highest id of a span of time")
    .takes(&[FROM, TO]);
const SEALID: Command = row(Verb::SealId, "sealid", 3, FAST.and(CommandFlags::READONLY), NONE)
    .keys(&[one(1, READ)])
    .guarded()
    .right_of_its_own()
    .docs("0.1.0", "generic", "Get the sealed text of an id")
    .takes(&[NAME, argument("id", "integer")]);
const OPENID: Command = row(Verb::OpenId, "openid", 3, FAST.and(CommandFlags::READONLY), NONE)
    .keys(&[one(1, READ)])
    .guarded()
    .right_of_its_own()
    .docs("0.1.0", "generic", "Get the id of a sealed text")
    .takes(&[NAME, argument("text", "string")]);

/// Rows of commands that accept a generator's name, for servers with named generators.
pub static NAMING: &[Command] = &[
    GETID.naming(&[one(1, READ)]).takes(&[NAME_AND_FIELDS, REQUEST, FOR]),
    MGETID.naming(&[one(2, READ)]).takes(&[COUNT, NAME_AND_FIELDS, REQUEST, FOR]),
    DECODEID.naming(&[one(2, READ)]).takes(&[argument("id", "string"), NAME.optional()]),
    ENCODEID.keys(&[one(1, READ)]).takes(&[
        NAME,
        AT_TIME,
        FIELD_VALUES,
        token("HIGHEST").optional(),
        token("FORCE").optional(),
    ]),
    IDSPAN.naming(&[one(3, READ)]).takes(&[FROM, TO, NAME.optional()]),
];

const KEY: Argument = argument("key", "key");
const COUNT: Argument = argument("count", "integer");
const FROM: Argument = argument("from", "string");
const TO: Argument = argument("to", "string");
const NAME: Argument = argument("name", "key");
/// A generator, and values of the fields that come with each request to it.
const NAME_AND_FIELDS: Argument =
    Argument { parts: &[NAME, FIELD_VALUES], ..argument("generator", "block").optional() };
const FIELD_VALUES: Argument = Argument {
    parts: &[argument("field", "string"), argument("value", "integer")],
    ..argument("field_value", "block").optional().multiple()
};
const AT_TIME: Argument = argument("time", "string").after("TIME");
/// The name of a request, whose repetition gets the same reply.
const REQUEST: Argument = argument("request", "string").after("REQUEST").optional();
/// Time for which a request is kept at least.
const FOR: Argument = argument("seconds", "integer").after("FOR").optional();

const ACL: &[Command] = &[
    row(Verb::AclCat, "acl|cat", -2, OWN, NONE)
        .docs("6.0.0", "server", "List the ACL categories or the commands inside a category")
        .costs("O(1) since the categories and commands are a fixed set.")
        .takes(&[argument("categoryname", "string").optional()])
        .help(&[
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
        ]),
    row(Verb::AclDelUser, "acl|deluser", -3, ADMIN, NONE)
        .guarded()
        .docs("6.0.0", "server", "Remove the specified ACL users and the associated rules")
        .costs("O(1) amortized time considering the typical user.")
        .takes(&[argument("username", "string").multiple()])
        .help(&["DELUSER <username> [<username> ...]", "    Delete a list of users."]),
    row(Verb::AclDryRun, "acl|dryrun", -4, ADMIN, NONE)
        .secrets(Secrets::Tried)
        .guarded()
        .docs("7.0.0", "server", "Returns whether the user can execute the given command without executing the command")
        .costs("O(1).")
        .takes(&[
            argument("username", "string"),
            argument("command", "string"),
            argument("arg", "string").optional().multiple(),
        ])
        .help(&[
            "DRYRUN <username> <command> [<arg> ...]",
            "    Returns whether the user can execute the given command without executing the command.",
        ]),
    row(Verb::AclGetUser, "acl|getuser", 3, ADMIN, NONE)
        .guarded()
        .docs("6.0.0", "server", "Get the rules for a specific ACL user")
        .costs("O(N). Where N is the number of password, command and pattern rules that the user has.")
        .takes(&[argument("username", "string")])
        .help(&["GETUSER <username>", "    Get the user's details."]),
    row(Verb::AclGenPass, "acl|genpass", -2, OWN, NONE)
        .guarded()
        .docs("6.0.0", "server", "Generate a pseudorandom secure password to use for ACL users")
        .takes(&[argument("bits", "integer").optional()])
        .help(&[
            "GENPASS [<bits>]",
            "    Generate a secure 256-bit user password. The optional `bits` argument can",
            "    be used to specify a different size.",
        ]),
    help_row(Verb::AclHelp, "acl|help", NONE, "6.0.0", "server").guarded(),
    row(Verb::AclList, "acl|list", 2, ADMIN, NONE)
        .guarded()
        .docs("6.0.0", "server", "List the current ACL rules in ACL config file format")
        .costs("O(N). Where N is the number of configured users.")
        .help(&["LIST", "    Show users details in config file format."]),
    row(Verb::AclLoad, "acl|load", 2, ADMIN, NONE)
        .guarded()
        .docs("6.0.0", "server", "Reload the ACLs from the configured ACL file")
        .costs("O(N). Where N is the number of configured users.")
        .help(&["LOAD", "    Reload users from the ACL file."]),
    row(Verb::AclLog, "acl|log", -2, ADMIN, NONE)
        .guarded()
        .docs("6.0.0", "server", "List latest events denied because of ACLs in place")
        .costs("O(N) with N being the number of entries shown.")
        .takes(&[Argument {
            parts: &[argument("count", "integer"), token("RESET")],
            ..argument("operation", "oneof").optional()
        }])
        .help(&["LOG [<count> | RESET]", "    Show the ACL log entries."]),
    row(Verb::AclSave, "acl|save", 2, ADMIN, NONE)
        .guarded()
        .docs("6.0.0", "server", "Save the current ACL rules in the configured ACL file")
        .costs("O(N). Where N is the number of configured users.")
        .help(&["SAVE", "    Save the current config to the ACL file."]),
    row(Verb::AclSetUser, "acl|setuser", -3, ADMIN, NONE)
        .secrets(Secrets::From(2))
        .guarded()
        .docs("6.0.0", "server", "Modify or create the rules for a specific ACL user")
        .costs("O(N). Where N is the number of rules provided.")
        .takes(&[argument("username", "string"), argument("rule", "string").optional().multiple()])
        .help(&[
            "SETUSER <username> <attribute> [<attribute> ...]",
            "    Create or modify a user with the specified attributes.",
        ]),
    row(Verb::AclUsers, "acl|users", 2, ADMIN, NONE)
        .guarded()
        .docs("6.0.0", "server", "List the username of all the configured ACL rules")
        .costs("O(N). Where N is the number of configured users.")
        .help(&["USERS", "    List all the registered usernames."]),
    row(Verb::AclWhoAmI, "acl|whoami", 2, OWN, NONE)
        .docs("6.0.0", "server", "Return the name of the user associated to the current connection")
        .help(&["WHOAMI", "    Return the current connection username."]),
];

const CLIENT: &[Command] = &[
    client_row(Verb::ClientCaching, "client|caching", 3, OWN, CONNECTION)
        .docs("6.0.0", "connection", "Instruct the server about tracking or not keys in the next request")
        .takes(&[Argument { parts: &[token("YES"), token("NO")], ..argument("mode", "oneof") }])
        .help(&["CACHING (YES|NO)", "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes."]),
    client_row(Verb::ClientGetName, "client|getname", 2, OWN, CONNECTION)
        .docs("2.6.9", "connection", "Get the current connection name")
        .help(&["GETNAME", "    Return the name of the current connection."]),
    client_row(Verb::ClientGetRedir, "client|getredir", 2, OWN, CONNECTION)
        .docs("6.0.0", "connection", "Get tracking notifications redirection client ID if any")
        .help(&["GETREDIR", "    Return the client ID we are redirecting to when tracking is enabled."]),
    help_row(Verb::ClientHelp, "client|help", CONNECTION, "5.0.0", "connection").unpaused(),
    client_row(Verb::ClientId, "client|id", 2, OWN, CONNECTION)
        .docs("5.0.0", "connection", "Returns the client ID for the current connection")
        .help(&["ID", "    Return the ID of the current connection."]),
    client_row(Verb::ClientInfo, "client|info", 2, OWN, CONNECTION)
        .docs("6.2.0", "connection", "Returns information about the current client connection")
        .help(&["INFO", "    Return information about the current client connection."]),
    client_row(Verb::ClientKill, "client|kill", -3, ADMIN, CONNECTION)
        .guarded()
        .docs("2.4.0", "connection", "Kill the connection of a client")
        .costs("O(N) where N is the number of client connections")
        .takes(&[Argument {
            parts: &[
                argument("ip:port", "string"),
                Argument {
                    parts: &[
                        argument("client-id", "integer").after("ID").optional(),
                        Argument { parts: CLIENT_KINDS, ..argument("type", "oneof").after("TYPE").optional() },
                        argument("username", "string").after("USER").optional(),
                        argument("ip:port", "string").after("ADDR").optional(),
                        argument("ip:port", "string").after("LADDR").optional(),
                        argument("yes/no", "string").after("SKIPME").optional(),
                    ],
                    ..argument("new-format", "oneof").multiple()
                },
            ],
            ..argument("filter", "oneof")
        }])
        .help(&[
            "KILL <ip:port>",
            "    Kill connection made from <ip:port>.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Kill connections. Options are:",
            "    * ADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made from the specified address",
            "    * LADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made to specified local address",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Kill connections by type.",
            "    * USER <username>",
            "      Kill connections authenticated by <username>.",
            "    * ID <client-id>",
            "      Kill connections by client id.",
            "    * SKIPME (YES|NO)",
            "      Skip killing current connection (default: yes).",
        ]),
    client_row(Verb::ClientList, "client|list", -2, ADMIN, CONNECTION)
        .guarded()
        .docs("2.4.0", "connection", "Get the list of client connections")
        .costs("O(N) where N is the number of client connections")
        .takes(&[
            Argument {
                parts: CLIENT_KINDS,
                ..argument("normal_master_replica_pubsub", "oneof").after("TYPE").optional()
            },
            Argument {
                parts: &[argument("client-id", "integer").multiple()],
                ..argument("id", "block").after("ID").optional()
            },
        ])
        .help(&[
            "LIST [options ...]",
            "    Return information about client connections. Options:",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Return clients of specified type.",
            "    * ID <client-id> [<client-id> ...]",
            "      Return clients of specified ids.",
        ]),
    client_row(Verb::ClientNoEvict, "client|no-evict", 3, ADMIN, CONNECTION)
        .guarded()
        .docs("7.0.0", "connection", "Set client eviction mode for the current connection")
        .takes(&[ON_OFF])
        .help(&["NO-EVICT (ON|OFF)", "    Protect current client connection from eviction."]),
    client_row(Verb::ClientNoTouch, "client|no-touch", 3, OWN, CONNECTION)
        .docs("7.2.0", "connection", "Set client no-touch mode for the current connection")
        .takes(&[ON_OFF])
        .help(&["NO-TOUCH (ON|OFF)", "    Will not touch LRU/LFU stats when this mode is on."]),
    client_row(Verb::ClientPause, "client|pause", -3, ADMIN, CONNECTION)
        .guarded()
        .docs("2.9.50", "connection", "Stop processing commands from clients for some time")
        .takes(&[
            argument("timeout", "integer"),
            Argument { parts: &[token("WRITE"), token("ALL")], ..argument("mode", "oneof").optional() },
        ])
        .help(&[
            "PAUSE <timeout> [WRITE|ALL]",
            "    Suspend all, or just those that request ids, clients for <timeout> milliseconds.",
        ]),
    client_row(Verb::ClientReply, "client|reply", 3, OWN, CONNECTION)
        .docs("3.2.0", "connection", "Instruct the server whether to reply to commands")
        .takes(&[Argument { parts: &[token("ON"), token("OFF"), token("SKIP")], ..argument("on_off_skip", "oneof") }])
        .help(&["REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection."]),
    client_row(Verb::ClientSetInfo, "client|setinfo", 4, OWN, CONNECTION)
        .docs("7.2.0", "connection", "Set information specific to the client or connection")
        .takes(&[Argument {
            parts: &[argument("libname", "string").after("LIB-NAME"), argument("libver", "string").after("LIB-VER")],
            ..argument("attr", "oneof")
        }])
        .help(&[
            "SETINFO <option> <value>",
            "    Set client meta attr. Options are:",
            "    * LIB-NAME: the client lib name.",
            "    * LIB-VER: the client lib version.",
        ]),
    client_row(Verb::ClientSetName, "client|setname", 3, OWN, CONNECTION)
        .docs("2.6.9", "connection", "Set the current connection name")
        .takes(&[argument("connection-name", "string")])
        .help(&["SETNAME <name>", "    Assign the name <name> to the current connection."]),
    client_row(Verb::ClientTracking, "client|tracking", -3, OWN, CONNECTION)
        .docs(
            "6.0.0",
            "connection",
            "Enable or disable server assisted client side caching support, which getid does not have",
        )
        .takes(&[ON_OFF])
        .help(&["TRACKING OFF", "    Turn tracking off. It is always off, since there are no keys to track."]),
    client_row(Verb::ClientTrackingInfo, "client|trackinginfo", 2, OWN, CONNECTION)
        .docs(
            "6.2.0",
            "connection",
            "Return information about server assisted client side caching for the current connection",
        )
        .help(&["TRACKINGINFO", "    Report tracking status for the current connection."]),
    client_row(Verb::ClientUnblock, "client|unblock", -3, ADMIN, CONNECTION)
        .guarded()
        .docs("5.0.0", "connection", "Unblock a client that waits for ids from a different connection")
        .costs("O(log N) where N is the number of client connections")
        .takes(&[
            argument("client-id", "integer"),
            Argument { parts: &[token("TIMEOUT"), token("ERROR")], ..argument("timeout_error", "oneof").optional() },
        ])
        .help(&["UNBLOCK <clientid> [TIMEOUT|ERROR]", "    Unblock the specified blocked client."]),
    client_row(Verb::ClientUnpause, "client|unpause", 2, ADMIN, CONNECTION)
        .guarded()
        .docs("6.2.0", "connection", "Resume processing of clients that were paused")
        .costs("O(N) Where N is the number of paused clients")
        .help(&["UNPAUSE", "    Stop the current client pause, resuming traffic."]),
];

const COMMAND: &[Command] = &[
    row(Verb::CommandCount, "command|count", 2, SLOW, CONNECTION)
        .docs("2.8.13", "server", "Get total number of commands")
        .help(&["COUNT", "    Return the total number of commands in this server."]),
    row(Verb::CommandDocs, "command|docs", -2, SLOW, CONNECTION)
        .docs("7.0.0", "server", "Get array of specific command documentation")
        .costs("O(N) where N is the number of commands to look up")
        .takes(COMMAND_NAMES)
        .help(&[
            "DOCS [<command-name> ...]",
            "    Return documentation details about multiple commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
        ]),
    row(Verb::CommandGetKeys, "command|getkeys", -3, SLOW, CONNECTION)
        .docs("2.8.13", "server", "Extract keys given a full command")
        .help(&["GETKEYS <full-command>", "    Return the keys from a full command."]),
    row(Verb::CommandGetKeysAndFlags, "command|getkeysandflags", -3, SLOW, CONNECTION)
        .docs("7.0.0", "server", "Extract keys and access flags given a full command")
        .help(&["GETKEYSANDFLAGS <full-command>", "    Return the keys and the access flags from a full command."]),
    help_row(Verb::CommandHelp, "command|help", CONNECTION, "5.0.0", "server"),
    row(Verb::CommandInfo, "command|info", -2, SLOW, CONNECTION)
        .docs("2.8.13", "server", "Get array of specific command details, or all when no argument is given")
        .costs("O(N) where N is the number of commands to look up")
        .takes(COMMAND_NAMES)
        .help(&[
            "INFO [<command-name> ...]",
            "    Return details about multiple commands.",
            "    If no command names are given, details for all commands are returned.",
        ]),
    row(Verb::CommandList, "command|list", -2, SLOW, CONNECTION)
        .docs("7.0.0", "server", "Get an array of command names")
        .costs("O(N) where N is the total number of commands")
        .takes(&[Argument {
            parts: &[
                argument("module-name", "string").after("MODULE"),
                argument("category", "string").after("ACLCAT"),
                argument("pattern", "pattern").after("PATTERN"),
            ],
            ..argument("filterby", "oneof").after("FILTERBY").optional()
        }])
        .help(&[
            "LIST [FILTERBY (MODULE <module-name>|ACLCAT <category>|PATTERN <pattern>)]",
            "    Return a list of all commands in this server.",
        ]),
];

const LATENCY: &[Command] = &[
    row(Verb::LatencyDoctor, "latency|doctor", 2, ADMIN, NONE)
        .docs("2.8.13", "server", "Return a human readable latency analysis report")
        .help(&["DOCTOR", "    Return a human readable latency analysis report."]),
    row(Verb::LatencyGraph, "latency|graph", 3, ADMIN, NONE)
        .docs("2.8.13", "server", "Return a latency graph for the event")
        .takes(&[argument("event", "string")])
        .help(&["GRAPH <event>", "    Return an ASCII latency graph for the <event> class."]),
    row(Verb::LatencyHistory, "latency|history", 3, ADMIN, NONE)
        .docs("2.8.13", "server", "Return timestamp-latency samples for the event")
        .takes(&[argument("event", "string")])
        .help(&["HISTORY <event>", "    Return time-latency samples for the <event> class."]),
    row(Verb::LatencyLatest, "latency|latest", 2, ADMIN, NONE)
        .docs("2.8.13", "server", "Return the latest latency samples for all events")
        .help(&["LATEST", "    Return the latest latency samples for all events."]),
    row(Verb::LatencyReset, "latency|reset", -2, ADMIN, NONE)
        .guarded()
        .docs("2.8.13", "server", "Reset latency data for one or more events")
        .takes(&[argument("event", "string").optional().multiple()])
        .help(&[
            "RESET [<event> ...]",
            "    Reset latency data of one or more <event> classes.",
            "    (default: reset all data for all event classes)",
        ]),
    row(Verb::LatencyHistogram, "latency|histogram", -2, ADMIN, NONE)
        .docs("7.0.0", "server", "Return the cumulative distribution of latencies of a subset of commands or all")
        .costs("O(N) where N is the number of commands with latency information being retrieved")
        .takes(&[argument("command", "string").optional().multiple()])
        .help(&[
            "HISTOGRAM [COMMAND ...]",
            "    Return a cumulative distribution of latencies in the format of a histogram for the specified command \
             names.",
            "    If no commands are specified then all histograms are replied.",
        ]),
    help_row(Verb::LatencyHelp, "latency|help", NONE, "2.8.13", "server"),
];

const MEMORY: &[Command] = &[
    row(Verb::MemoryDoctor, "memory|doctor", 2, CommandFlags::NONE, NONE)
        .docs("4.0.0", "server", "Outputs memory problems report")
        .help(&["DOCTOR", "    Return memory problems reports."]),
    row(Verb::MemoryMallocStats, "memory|malloc-stats", 2, CommandFlags::NONE, NONE)
        .docs("4.0.0", "server", "Show allocator internal stats, which this allocator does not have")
        .help(&["MALLOC-STATS", "    Return internal statistics report from the memory allocator."]),
    row(Verb::MemoryPurge, "memory|purge", 2, CommandFlags::NONE, NONE)
        .docs("4.0.0", "server", "Ask the allocator to release memory, which it does automatically")
        .help(&["PURGE", "    Attempt to purge dirty pages for reclamation by the allocator."]),
    row(Verb::MemoryStats, "memory|stats", 2, CommandFlags::NONE, NONE)
        .docs("4.0.0", "server", "Show memory usage details")
        .help(&["STATS", "    Return information about the memory usage of the server."]),
    row(Verb::MemoryUsage, "memory|usage", -3, CommandFlags::READONLY, NONE)
        .docs("4.0.0", "server", "Estimate the memory usage of a key; there are no keys")
        .takes(&[argument("key", "key"), argument("count", "integer").after("SAMPLES").optional()])
        .help(&[
            "USAGE <key> [SAMPLES <count>]",
            "    Return memory in bytes used by <key> and its value. Nested values are",
            "    sampled up to <count> times (default: 5, 0 means sample all).",
        ]),
    help_row(Verb::MemoryHelp, "memory|help", NONE, "4.0.0", "server"),
];

/// Redis permits them in scripts.
const SLOWLOG_FLAGS: CommandFlags = SLOW.and(CommandFlags::ADMIN);

const SLOWLOG: &[Command] = &[
    row(Verb::SlowLogGet, "slowlog|get", -2, SLOWLOG_FLAGS, NONE)
        .docs("2.2.12", "server", "Get the slow log's entries")
        .costs("O(N) where N is the number of entries returned")
        .takes(&[argument("count", "integer").optional()])
        .help(&[
            "GET [<count>]",
            "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "    Entries are made of:",
            "    id, timestamp, time in microseconds, arguments array, client IP and port,",
            "    client name",
        ]),
    row(Verb::SlowLogLen, "slowlog|len", 2, SLOWLOG_FLAGS, NONE)
        .docs("2.2.12", "server", "Get the slow log's length")
        .help(&["LEN", "    Return the length of the slowlog."]),
    row(Verb::SlowLogReset, "slowlog|reset", 2, SLOWLOG_FLAGS, NONE)
        .guarded()
        .docs("2.2.12", "server", "Clear all entries from the slow log")
        .costs("O(N) where N is the number of entries in the slowlog")
        .help(&["RESET", "    Reset the slowlog."]),
    help_row(Verb::SlowLogHelp, "slowlog|help", NONE, "6.2.0", "server"),
];

const COMMAND_NAMES: &[Argument] = &[argument("command-name", "string").optional().multiple()];
const CLIENT_KINDS: &[Argument] = &[token("NORMAL"), token("MASTER"), token("REPLICA"), token("PUBSUB")];
const ON_OFF: Argument = Argument { parts: &[token("ON"), token("OFF")], ..argument("enabled", "oneof") };

const fn row(verb: Verb, full_name: &'static str, arity: i32, flags: CommandFlags, categories: Categories) -> Command {
    Command {
        verb,
        name: behind_bar(full_name),
        full_name,
        arity,
        flags,
        categories: categories.and(Categories::implied_by(flags)),
        since: "",
        group: "",
        summary: "",
        complexity: "O(1)",
        arguments: &[],
        keys: &[],
        channels: Channels::None,
        subcommands: &[],
        help: &[],
        is_guarded: false,
        is_unpaused: false,
        runs_at_once: false,
        sends_back: false,
        needs_claim: false,
        secrets: Secrets::None,
    }
}

/// Returns a row that works during a pause: the commands that end a pause, and those that an operator's connection
/// needs first.
const fn client_row(
    verb: Verb,
    full_name: &'static str,
    arity: i32,
    flags: CommandFlags,
    categories: Categories,
) -> Command {
    row(verb, full_name, arity, flags, categories).unpaused()
}

const fn help_row(
    verb: Verb,
    full_name: &'static str,
    categories: Categories,
    since: &'static str,
    group: &'static str,
) -> Command {
    row(verb, full_name, 2, SLOW, categories)
        .docs(since, group, "Show helpful text about the different subcommands")
        .help(&["HELP", "    Prints this help."])
}

impl Command {
    const fn guarded(self) -> Command {
        Command { is_guarded: true, ..self }
    }

    /// Makes `@dangerous` the only category, so that no right to read or to use what is fast includes the command.
    const fn right_of_its_own(self) -> Command {
        Command { categories: Categories::DANGEROUS, ..self }
    }

    /// Adds a generator's name as an argument after all others.
    const fn naming(self, keys: &'static [KeySpec]) -> Command {
        let flags = self.flags.and(CommandFlags::NO_MANDATORY_KEYS);
        Command { keys, arity: -self.arity, flags, ..self }
    }

    const fn keys(self, keys: &'static [KeySpec]) -> Command {
        Command { keys, ..self }
    }

    const fn on_channels(self, channels: Channels) -> Command {
        Command { channels, ..self }
    }

    const fn unpaused(self) -> Command {
        Command { is_unpaused: true, ..self }
    }

    const fn at_once(self) -> Command {
        Command { runs_at_once: true, ..self }
    }

    const fn on_holder(self) -> Command {
        Command { needs_claim: true, ..self }
    }

    const fn sends_back(self) -> Command {
        Command { sends_back: true, ..self }
    }

    const fn secrets(self, secrets: Secrets) -> Command {
        Command { secrets, ..self }
    }

    const fn docs(self, since: &'static str, group: &'static str, summary: &'static str) -> Command {
        Command { since, group, summary, ..self }
    }

    const fn costs(self, complexity: &'static str) -> Command {
        Command { complexity, ..self }
    }

    const fn takes(self, arguments: &'static [Argument]) -> Command {
        Command { arguments, ..self }
    }

    const fn with(self, subcommands: &'static [Command]) -> Command {
        Command { subcommands, complexity: "Depends on subcommand.", ..self }
    }

    const fn help(self, help: &'static [&'static str]) -> Command {
        Command { help, ..self }
    }
}

/// Returns the specification of a key at `first`.
const fn one(first: u8, access: KeyAccess) -> KeySpec {
    KeySpec { first, range: KeyRange::One, access }
}

/// Returns the specification of keys at `first` and at every `step`-th argument after it.
const fn rest(first: u8, step: u8, access: KeyAccess) -> KeySpec {
    KeySpec { first, range: KeyRange::Rest { step }, access }
}

const fn argument(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, token: None, optional: false, multiple: false, parts: &[] }
}

/// Returns a literal word as an argument. Redis's hints show the word; its name is that word in lower case there.
const fn token(word: &'static str) -> Argument {
    argument(word, "pure-token").after(word)
}

impl Argument {
    const fn after(self, token: &'static str) -> Argument {
        Argument { token: Some(token), ..self }
    }

    const fn optional(self) -> Argument {
        Argument { optional: true, ..self }
    }

    const fn multiple(self) -> Argument {
        Argument { multiple: true, ..self }
    }
}

/// Returns `list` of `client|list`, and a name without a bar unchanged.
const fn behind_bar(full_name: &'static str) -> &'static str {
    let bytes = full_name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'|' {
            return full_name.split_at(at + 1).1;
        }
        at += 1;
    }
    full_name
}
