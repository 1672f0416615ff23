//! Values that are one word of a few.

/// An enum whose variants are words of a configuration file.
macro_rules! word_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl $name {
            /// Every word, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word of this variant.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The variant of a word, in any letter case.
            pub fn from_word(word: &str) -> Option<$name> {
                $(if word.eq_ignore_ascii_case($word) { return Some($name::$variant); })+
                None
            }
        }
    };
}

word_enum! {
    /// What happens to requests at the borrow limit (`id-borrow-policy`).
    BorrowPolicy {
        /// They wait, in order, until time catches up.
        #[default]
        Wait = "wait",
        /// They get `-BUSY`.
        Error = "error",
    }
}

word_enum! {
    /// Which tables the stores of sequences have (`sequence-table`).
    SequenceTable {
        /// getid's own.
        #[default]
        Native = "native",
        /// `leaf_alloc`, as Leaf has it.
        Leaf = "leaf",
        /// `tiny_id_info`, as Tinyid has it.
        Tinyid = "tinyid",
    }
}

word_enum! {
    /// Who makes a sequence (`sequence-create`).
    SequenceCreate {
        /// Who says so: `SEQUENCE CREATE`, `SET`.
        #[default]
        Explicit = "explicit",
        /// `INCR` of a name that is new, too.
        OnFirstUse = "on-first-use",
    }
}

word_enum! {
    /// What happens to requests for values that are not in memory (`sequence-policy`).
    SequencePolicy {
        /// They wait for the store.
        #[default]
        Wait = "wait",
        /// They get `-BUSY`.
        Error = "error",
    }
}

word_enum! {
    /// Where the watermark is kept (`id-state`).
    StateKind {
        /// In a file in `dir`.
        #[default]
        File = "file",
        /// Nowhere: every start is a start without a record.
        None = "none",
    }
}

word_enum! {
    /// The least serious event that is logged (`loglevel`).
    LogLevel {
        /// Everything.
        Debug = "debug",
        /// A little less.
        Verbose = "verbose",
        /// What an operator wants to know.
        #[default]
        Notice = "notice",
        /// Only what needs an operator.
        Warning = "warning",
        /// Nothing at all, as from Redis 7.2 on.
        Nothing = "nothing",
    }
}

word_enum! {
    /// How a log line is written (`log-format`).
    LogFormat {
        /// For people.
        #[default]
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

word_enum! {
    /// Who watches over the process (`supervised`).
    Supervised {
        /// Nobody is told anything, as in Redis. Under `Type=notify` a server that says nothing is killed as never
        /// ready: the unit file says `systemd`.
        #[default]
        No = "no",
        /// systemd is told through `NOTIFY_SOCKET`; worth a warning when it is not set.
        Systemd = "systemd",
        /// Upstart, which waits for the process to stop itself by SIGSTOP. It is gone, and a SIGSTOP with nobody there
        /// to send SIGCONT is an outage: it means nobody, and a warning.
        Upstart = "upstart",
        /// systemd if `NOTIFY_SOCKET` is set, else nobody.
        Auto = "auto",
    }
}

word_enum! {
    /// Whether TLS clients show a certificate (`tls-auth-clients`).
    TlsAuthClients {
        /// They must, as in Redis.
        #[default]
        Yes = "yes",
        /// They are not asked.
        No = "no",
        /// They may; one that is shown must be good.
        Optional = "optional",
    }
}

word_enum! {
    /// Whose name a client's certificate gives the user (`tls-auth-clients-user`).
    TlsAuthClientsUser {
        /// Nobody's: a certificate lets a client in, no more.
        #[default]
        Off = "off",
        /// That of its subject's common name.
        CommonName = "CN",
    }
}

word_enum! {
    /// The syslog facility (`syslog-facility`).
    SyslogFacility {
        /// `LOG_USER`
        User = "user",
        /// `LOG_LOCAL0`
        #[default]
        Local0 = "local0",
        /// `LOG_LOCAL1`
        Local1 = "local1",
        /// `LOG_LOCAL2`
        Local2 = "local2",
        /// `LOG_LOCAL3`
        Local3 = "local3",
        /// `LOG_LOCAL4`
        Local4 = "local4",
        /// `LOG_LOCAL5`
        Local5 = "local5",
        /// `LOG_LOCAL6`
        Local6 = "local6",
        /// `LOG_LOCAL7`
        Local7 = "local7",
    }
}

impl SyslogFacility {
    /// The facility's number in RFC 5424, section 6.2.1: user 1, local0 to local7 16 to 23.
    pub const fn number(self) -> u8 {
        match self {
            SyslogFacility::User => 1,
            SyslogFacility::Local0 => 16,
            SyslogFacility::Local1 => 17,
            SyslogFacility::Local2 => 18,
            SyslogFacility::Local3 => 19,
            SyslogFacility::Local4 => 20,
            SyslogFacility::Local5 => 21,
            SyslogFacility::Local6 => 22,
            SyslogFacility::Local7 => 23,
        }
    }
}
