//! `WORKERID`: worker ids for programs that make IDs themselves.

use super::{
    Argument, Categories, Command, CommandFlags, KeyAccess, NONE, READ, Secrets, Verb, argument, help_row, one, row,
    token,
};

const SINCE: &str = "0.1.0";
const GROUP: &str = "generic";

const DANGEROUS: Categories = Categories::DANGEROUS;

const UPDATE: KeyAccess = KeyAccess::RW.and(KeyAccess::UPDATE);
const INSERT: KeyAccess = KeyAccess::RW.and(KeyAccess::INSERT);

const POOL: Argument = argument("pool", "key");
const ID: Argument = argument("id", "integer");
const TOKEN: Argument = argument("token", "string");
const LAST: Argument = argument("unix-time-milliseconds", "unix-time").after("LAST").optional();

pub(super) const WORKERID: Command = row(Verb::WorkerId, "workerid", -2, CommandFlags::NONE, NONE)
    .docs(SINCE, GROUP, "A container for commands about worker ids")
    .with(&[
        row(Verb::WorkerIdLease, "workerid|lease", -3, CommandFlags::WRITE.and(CommandFlags::DENY_OOM), NONE)
            .on_holder()
            .keys(&[one(2, INSERT)])
            .docs(SINCE, GROUP, "Lease a worker id")
            .costs("O(N) where N is the number of ids of the pool.")
            .takes(&[
                POOL,
                argument("instance", "string").after("NAME").optional(),
                argument("seconds", "integer").after("TTL").optional(),
            ])
            .help(&[
                "LEASE <pool> [NAME <instance>] [TTL <seconds>]",
                "    Lease a worker id. Returns the id, a token, the first ms for IDs with it, the end, exclusive, and",
                "    the length of the lease in ms.",
            ]),
        row(Verb::WorkerIdRenew, "workerid|renew", -5, CommandFlags::WRITE, NONE)
            .on_holder()
            .keys(&[one(2, UPDATE)])
            .secrets(Secrets::From(4))
            .docs(SINCE, GROUP, "Renew the lease of a worker id")
            .takes(&[POOL, ID, TOKEN, LAST])
            .help(&[
                "RENEW <pool> <id> <token> [LAST <unix-time-milliseconds>]",
                "    Renew a lease. Returns its new end in ms, exclusive. LAST is the time of the newest ID.",
            ]),
        row(Verb::WorkerIdRelease, "workerid|release", -5, CommandFlags::WRITE, NONE)
            .on_holder()
            .keys(&[one(2, UPDATE)])
            .secrets(Secrets::From(4))
            .docs(SINCE, GROUP, "Release the lease of a worker id")
            .takes(&[POOL, ID, TOKEN, LAST])
            .help(&[
                "RELEASE <pool> <id> <token> [LAST <unix-time-milliseconds>]",
                "    Release a lease. With LAST, the time of the newest ID, the next lease begins after it.",
            ]),
        row(Verb::WorkerIdList, "workerid|list", -3, CommandFlags::READONLY, NONE)
            .on_holder()
            .keys(&[one(2, READ)])
            .docs(SINCE, GROUP, "List the leases of a pool of worker ids")
            .costs("O(N) where N is the number of leases.")
            .takes(&[
                POOL,
                argument("cursor", "integer").after("CURSOR").optional(),
                argument("count", "integer").after("COUNT").optional(),
            ])
            .help(&[
                "LIST <pool> [CURSOR <id>] [COUNT <n>]",
                "    List leases by id. Returns the cursor of the next page, empty at the end, and a map for each.",
            ]),
        row(Verb::WorkerIdInfo, "workerid|info", 3, CommandFlags::READONLY, NONE)
            .on_holder()
            .keys(&[one(2, READ)])
            .docs(SINCE, GROUP, "Return the state of a pool of worker ids")
            .takes(&[POOL])
            .help(&["INFO <pool>", "    Return the numbers of leased and free ids, and the counters of this server."]),
        row(Verb::WorkerIdInit, "workerid|init", 4, CommandFlags::WRITE, DANGEROUS)
            .on_holder()
            .keys(&[one(2, UPDATE)])
            .guarded()
            .docs(SINCE, GROUP, "Open a new pool of worker ids at once")
            .costs("O(N) where N is the number of ids of the pool.")
            .takes(&[POOL, token("NEW")])
            .help(&[
                "INIT <pool> NEW",
                "    Declare that no id of a pool of this name was ever leased: it leases at once. Never after a \
                 restore.",
            ]),
        row(Verb::WorkerIdRevoke, "workerid|revoke", 4, CommandFlags::WRITE, DANGEROUS)
            .on_holder()
            .keys(&[one(2, UPDATE)])
            .guarded()
            .docs(SINCE, GROUP, "End the lease of a worker id")
            .takes(&[POOL, ID])
            .help(&[
                "REVOKE <pool> <id>",
                "    Refuse renewals of a lease. Returns the ms at which it ends and the id is free.",
            ]),
        help_row(Verb::WorkerIdHelp, "workerid|help", NONE, SINCE, GROUP),
    ]);
