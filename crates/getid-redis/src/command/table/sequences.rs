//! `SEQUENCE`: commands for operators of sequences, and ranges of values for caches in clients.

use super::{
    Argument, Categories, Command, CommandFlags, FOR, KeyAccess, NONE, READ, READ_UPDATE, REQUEST, SLOW, Verb,
    argument, help_row, one, row, token,
};

const SINCE: &str = "0.1.0";
const GROUP: &str = "generic";

const GROW: CommandFlags = CommandFlags::WRITE.and(CommandFlags::DENY_OOM);
const DANGEROUS: Categories = Categories::DANGEROUS;

const UPDATE: KeyAccess = KeyAccess::RW.and(KeyAccess::UPDATE);
const INSERT: KeyAccess = KeyAccess::RW.and(KeyAccess::INSERT);

const KEY: Argument = argument("key", "key");
const OPTIONS: &[Argument] = &[
    argument("start", "integer").after("START").optional(),
    argument("increment", "integer").after("INCREMENT").optional(),
    argument("offset", "integer").after("OFFSET").optional(),
    argument("cache", "integer").after("CACHE").optional(),
    argument("max", "integer").after("MAX").optional(),
    Argument { parts: &[token("WAIT"), token("ERROR")], ..argument("policy", "oneof").after("POLICY").optional() },
];

pub(super) const SEQUENCE: Command = row(Verb::Sequence, "sequence", -2, CommandFlags::NONE, NONE)
    .docs(SINCE, GROUP, "A container for commands about sequences")
    .with(&[
        row(Verb::SequenceCreate, "sequence|create", -3, GROW, NONE)
            .keys(&[one(2, INSERT)])
            .guarded()
            .docs(SINCE, GROUP, "Create a sequence")
            .takes(&[
                KEY,
                Argument { parts: OPTIONS, ..argument("options", "block").optional() },
                token("FRESH").optional(),
            ])
            .help(&[
                "CREATE <name> [START <n>] [INCREMENT <n>] [OFFSET <n>] [CACHE <n>] [MAX <n>]",
                "       [POLICY WAIT|ERROR] [FRESH]",
                "    Create a sequence. A dropped one continues above its last value, unless FRESH is given.",
            ]),
        row(Verb::SequenceInfo, "sequence|info", 3, CommandFlags::READONLY, NONE)
            .keys(&[one(2, READ)])
            .docs(SINCE, GROUP, "Return the position and the rate of a sequence")
            .takes(&[KEY])
            .help(&["INFO <name>", "    Return its options, its last value, its reserved values, and its rates."]),
        row(Verb::SequenceList, "sequence|list", -2, CommandFlags::READONLY, Categories::KEYSPACE)
            .docs(SINCE, GROUP, "List sequences")
            .costs("O(N) where N is the number of sequences that are looked at, COUNT at most.")
            .takes(&[
                argument("pattern", "pattern").optional(),
                argument("cursor", "string").after("CURSOR").optional(),
                argument("count", "integer").after("COUNT").optional(),
            ])
            .help(&[
                "LIST [<pattern>] [CURSOR <cursor>] [COUNT <n>]",
                "    List sequences by name, in pages: the reply begins with the cursor of the next page, which is",
                "    empty at the end.",
            ]),
        row(Verb::SequenceAlter, "sequence|alter", -5, GROW, DANGEROUS)
            .keys(&[one(2, UPDATE)])
            .guarded()
            .docs(SINCE, GROUP, "Change the options of a sequence")
            .takes(&[KEY, Argument { parts: OPTIONS, ..argument("options", "block") }])
            .help(&[
                "ALTER <name> [INCREMENT <n>] [OFFSET <n>] [CACHE <n>] [MAX <n>] [POLICY WAIT|ERROR]",
                "    Change the options of a sequence. Its values continue above the earlier ones.",
            ]),
        row(Verb::SequenceRaise, "sequence|raise", 4, GROW, DANGEROUS)
            .keys(&[one(2, UPDATE)])
            .guarded()
            .docs(SINCE, GROUP, "Raise a sequence: its next value is above the given one")
            .takes(&[KEY, argument("last", "integer")])
            .help(&[
                "RAISE <name> <last>",
                "    Raise a sequence above <last>. This clears the mark of a store that went back.",
            ]),
        row(Verb::SequenceConfirm, "sequence|confirm", 3, GROW, DANGEROUS)
            .keys(&[one(2, UPDATE)])
            .guarded()
            .docs(SINCE, GROUP, "Resume a sequence that was found lower than before")
            .takes(&[KEY])
            .help(&["CONFIRM <name>", "    Resume a sequence from its row's value, after its store went back."]),
        row(Verb::SequenceDeclare, "sequence|declare", 3, GROW, DANGEROUS)
            .keys(&[one(2, UPDATE)])
            .guarded()
            .docs(SINCE, GROUP, "Store this server's declaration of a generator")
            .takes(&[KEY])
            .help(&[
                "DECLARE <name>",
                "    Make this server's declaration of a sequence or serial generator valid for all servers.",
            ]),
        row(Verb::SequenceDrop, "sequence|drop", 3, CommandFlags::WRITE, DANGEROUS)
            .keys(&[one(2, KeyAccess::RM.and(KeyAccess::DELETE))])
            .guarded()
            .docs(SINCE, GROUP, "Drop a sequence; its last value is kept")
            .takes(&[KEY])
            .help(&["DROP <name>", "    Drop a sequence. Its last value is kept, for a later sequence of this name."]),
        row(Verb::SequenceAdopt, "sequence|adopt", -3, GROW, DANGEROUS)
            .keys(&[one(2, INSERT)])
            .guarded()
            .docs(SINCE, GROUP, "Create a sequence that continues above the maximum in a row of id_generator")
            .takes(&[
                KEY,
                argument("table", "string").after("TABLE").optional(),
                argument("id", "integer").after("ID").optional(),
            ])
            .help(&[
                "ADOPT <name> [TABLE <table>] [ID <n>]",
                "    Create a sequence from the maximum of a row of id_generator, whose job is stopped.",
            ]),
        row(Verb::SequenceNext, "sequence|next", -3, GROW.and(CommandFlags::FAST), NONE)
            .on_holder()
            .keys(&[one(2, READ_UPDATE)])
            .docs(SINCE, GROUP, "Get a range of values for a client's own cache")
            .takes(&[
                KEY,
                argument("count", "integer").after("COUNT").optional(),
                argument("value", "integer").after("ABOVE").optional(),
                REQUEST,
                FOR,
            ])
            .help(&[
                "NEXT <name> [COUNT <n>] [ABOVE <value>] [REQUEST <r> [FOR <seconds>]]",
                "    Get <n> values (default: 1) at most: the first, the last, the increment.",
                "    All are above <value>. Repeated with the same <r>, it returns the same values.",
            ]),
        row(Verb::SequenceStores, "sequence|stores", -2, SLOW.and(CommandFlags::ADMIN), NONE)
            .docs(SINCE, GROUP, "Show the stores of sequences, or release a server that a store waits for")
            .takes(&[
                argument("nonce", "string").after("CONFIRM").optional(),
                argument("margin", "integer").after("RAISE-ALL").optional(),
            ])
            .help(&[
                "STORES [CONFIRM <nonce> [RAISE-ALL <n>]]",
                "    Show the address, the state and the statements of each store. With CONFIRM, release a",
                "    server that has stopped permanently; RAISE-ALL raises all sequences by <n> values first.",
            ]),
        row(Verb::SequenceBackup, "sequence|backup", 3, SLOW.and(CommandFlags::ADMIN), NONE)
            .guarded()
            .docs(SINCE, GROUP, "Write a copy of the file of sequences")
            .costs("O(N) where N is the number of sequences")
            .takes(&[argument("file", "string")])
            .help(&[
                "BACKUP <file>",
                "    Write a copy of this server's own store into a new file in its dir: a plain name that ends in \
                 .backup.",
            ]),
        help_row(Verb::SequenceHelp, "sequence|help", NONE, SINCE, GROUP),
    ]);
