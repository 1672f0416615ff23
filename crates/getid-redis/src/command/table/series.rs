//! `SERIES`: the keys of generators that have a series of numbers for each key.

use super::{Argument, Categories, Command, CommandFlags, KeyAccess, NONE, Verb, argument, help_row, one, row};

const SINCE: &str = "0.1.0";
const GROUP: &str = "generic";

const GENERATOR: Argument = argument("name", "key");

pub(super) const SERIES: Command = row(Verb::Series, "series", -2, CommandFlags::NONE, NONE)
    .docs(SINCE, GROUP, "A container for commands about the series of generators")
    .with(&[
        row(Verb::SeriesCreate, "series|create", 4, CommandFlags::WRITE.and(CommandFlags::DENY_OOM), NONE)
            .keys(&[one(2, KeyAccess::RW.and(KeyAccess::INSERT))])
            .guarded()
            .docs(SINCE, GROUP, "Create the series of a key")
            .takes(&[GENERATOR, argument("series-key", "string")])
            .help(&[
                "CREATE <name> <key>",
                "    Create the series of a key, where the generator's keys are declared. An existing one stays.",
            ]),
        // Each user sees the keys that it may read.
        row(Verb::SeriesList, "series|list", -3, CommandFlags::READONLY, Categories::KEYSPACE)
            .docs(SINCE, GROUP, "List the keys of a generator's series")
            .costs("O(N) where N is the number of keys that are looked at, COUNT at most.")
            .takes(&[
                argument("name", "string"),
                argument("cursor", "string").after("CURSOR").optional(),
                argument("count", "integer").after("COUNT").optional(),
            ])
            .help(&[
                "LIST <name> [CURSOR <cursor>] [COUNT <n>]",
                "    List keys in pages: the reply is the cursor of the next page, empty at the end, and the keys.",
            ]),
        help_row(Verb::SeriesHelp, "series|help", NONE, SINCE, GROUP),
    ]);
