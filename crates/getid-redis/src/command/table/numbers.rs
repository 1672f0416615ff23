//! `NUMBER`: numbers without gaps, and their ledger.

use super::{
    Argument, Command, CommandFlags, KeyAccess, NONE, READ, READ_UPDATE, Verb, argument, help_row, one, row, token,
};

const SINCE: &str = "0.1.0";
const GROUP: &str = "generic";

const RESERVE: CommandFlags = CommandFlags::WRITE.and(CommandFlags::DENY_OOM);

const UPDATE: KeyAccess = KeyAccess::RW.and(KeyAccess::UPDATE);

const NAME: Argument = argument("name", "key");
const REQUEST: Argument = argument("request", "string");
const REASON: Argument = argument("reason", "string").after("REASON");
const KEY: Argument = argument("key", "string").after("KEY").optional();

pub(super) const NUMBER: Command = row(Verb::Number, "number", -2, CommandFlags::NONE, NONE)
    .docs(SINCE, GROUP, "A container for commands about numbers without gaps")
    .with(&[
        row(Verb::NumberReserve, "number|reserve", -3, RESERVE, NONE)
            .on_holder()
            .keys(&[one(2, READ_UPDATE)])
            .docs(SINCE, GROUP, "Reserve a number of a gapless generator for a request")
            .takes(&[
                NAME,
                argument("request", "string").after("REQUEST"),
                KEY,
                argument("seconds", "integer").after("DUE").optional(),
            ])
            .help(&[
                "RESERVE <name> REQUEST <request> [KEY <key>] [DUE <seconds>]",
                "    Return the number of the request: the one that it has, else the lowest released one of the",
                "    period, else the next. The ledger shows it as overdue after DUE (default: 3600).",
            ]),
        row(Verb::NumberCommit, "number|commit", -4, CommandFlags::WRITE, NONE)
            .on_holder()
            .keys(&[one(2, UPDATE)])
            .docs(SINCE, GROUP, "Commit the number of a request: it is used")
            .takes(&[NAME, REQUEST, KEY])
            .help(&["COMMIT <name> <request> [KEY <key>]", "    Commit the number of the request: it is used."]),
        row(Verb::NumberRelease, "number|release", -4, CommandFlags::WRITE, NONE)
            .on_holder()
            .keys(&[one(2, UPDATE)])
            .docs(SINCE, GROUP, "Release the number of a request, for another request")
            .takes(&[NAME, REQUEST, KEY])
            .help(&[
                "RELEASE <name> <request> [KEY <key>]",
                "    Release the number of the request, for another request.",
            ]),
        row(Verb::NumberVoid, "number|void", -6, CommandFlags::WRITE, NONE)
            .on_holder()
            .keys(&[one(2, UPDATE)])
            .docs(SINCE, GROUP, "Void the number of a request: it is never used")
            .takes(&[NAME, REQUEST, REASON, KEY])
            .help(&[
                "VOID <name> <request> REASON <reason> [KEY <key>]",
                "    Void the number of the request: it is never used, and the ledger has the reason.",
            ]),
        row(Verb::NumberSettle, "number|settle", 7, CommandFlags::WRITE.and(CommandFlags::ADMIN), NONE)
            .keys(&[one(2, UPDATE)])
            .guarded()
            .docs(SINCE, GROUP, "Commit or void a number without its request")
            .takes(&[
                NAME,
                argument("number", "string"),
                Argument { parts: &[token("COMMIT"), token("VOID")], ..argument("state", "oneof") },
                REASON,
            ])
            .help(&[
                "SETTLE <name> <number> COMMIT|VOID REASON <reason>",
                "    Commit or void a reserved, released or unclear number by its text, without its request.",
            ]),
        row(Verb::NumberLedger, "number|ledger", -3, CommandFlags::READONLY, NONE)
            .keys(&[one(2, READ)])
            .docs(SINCE, GROUP, "List the numbers of a gapless generator with their states")
            .costs("O(N) where N is the number of rows, COUNT at most.")
            .takes(&[
                NAME,
                KEY,
                argument("period", "string").after("PERIOD").optional(),
                Argument {
                    parts: &[token("RESERVED"), token("COMMITTED"), token("RELEASED"), token("VOID"), token("UNCLEAR")],
                    ..argument("state", "oneof").after("STATE").optional()
                },
                argument("cursor", "string").after("CURSOR").optional(),
                argument("count", "integer").after("COUNT").optional(),
            ])
            .help(&[
                "LEDGER <name> [KEY <key>] [PERIOD <period>] [STATE <state>] [CURSOR <cursor>] [COUNT <n>]",
                "    List numbers in pages of COUNT rows (default: 100, at most 1000): the reply begins with the",
                "    cursor of the next page, which is empty at the end.",
            ]),
        help_row(Verb::NumberHelp, "number|help", NONE, SINCE, GROUP),
    ]);
