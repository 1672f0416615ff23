//! Values that are one of a few words.

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

            /// Returns the word of this variant.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// Returns the variant of a word, in any letter case.
            pub fn from_word(word: &str) -> Option<$name> {
                $(if word.eq_ignore_ascii_case($word) { return Some($name::$variant); })+
                None
            }
        }
    };
}

word_enum! {
    /// Handling of requests at the borrow limit (`id-borrow-policy`).
    BorrowPolicy {
        /// Requests wait, in order, until the clock catches up.
        #[default]
        Wait = "wait",
        /// Requests get `-BUSY`.
        Error = "error",
    }
}

word_enum! {
    /// Tables in the stores of sequences (`sequence-table`).
    SequenceTable {
        /// getid's own tables.
        #[default]
        Native = "native",
        /// `leaf_alloc`, the table of Leaf.
        Leaf = "leaf",
        /// `tiny_id_info`, the table of Tinyid.
        Tinyid = "tinyid",
    }
}

word_enum! {
    /// How sequences are created (`sequence-create`).
    SequenceCreate {
        /// Only explicitly, by `SEQUENCE CREATE` or `SET`.
        #[default]
        Explicit = "explicit",
        /// Also by `INCR` of a new name.
        OnFirstUse = "on-first-use",
    }
}

word_enum! {
    /// Handling of requests for values that are not in memory (`sequence-policy`).
    SequencePolicy {
        /// Requests wait for the store.
        #[default]
        Wait = "wait",
        /// Requests get `-BUSY`.
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
        /// All events.
        Debug = "debug",
        /// All events except details for debugging.
        Verbose = "verbose",
        /// Events of interest to an operator.
        #[default]
        Notice = "notice",
        /// Only events that need an operator.
        Warning = "warning",
        /// No events, as in Redis from 7.2 on.
        Nothing = "nothing",
    }
}

word_enum! {
    /// Format of log lines (`log-format`).
    LogFormat {
        /// Text for people.
        #[default]
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

word_enum! {
    /// The supervisor of the process (`supervised`).
    Supervised {
        /// No supervisor is notified, as in Redis. Under `Type=notify` such a server is killed as never ready, so the
        /// unit file sets `systemd`.
        #[default]
        No = "no",
        /// systemd is notified through `NOTIFY_SOCKET`; there is a warning if it is not set.
        Systemd = "systemd",
        /// Upstart, which waits for the process to stop itself by SIGSTOP. It no longer exists, and a SIGSTOP without a
        /// SIGCONT is an outage. So no supervisor is notified, and there is a warning.
        Upstart = "upstart",
        /// systemd if `NOTIFY_SOCKET` is set, else no supervisor.
        Auto = "auto",
    }
}

word_enum! {
    /// Whether TLS clients present a certificate (`tls-auth-clients`).
    TlsAuthClients {
        /// Clients must present one, as in Redis.
        #[default]
        Yes = "yes",
        /// Clients are not asked for one.
        No = "no",
        /// Clients may present one; it must be valid.
        Optional = "optional",
    }
}

word_enum! {
    /// Whether a client's certificate selects its user (`tls-auth-clients-user`).
    TlsAuthClientsUser {
        /// The certificate permits the connection, and selects no user.
        #[default]
        Off = "off",
        /// The user is the subject's common name.
        CommonName = "CN",
    }
}

word_enum! {
    /// The syslog facility (`syslog-facility`).
    SyslogFacility {
        /// Facility `LOG_USER`: programs of users.
        User = "user",
        /// Facility `LOG_LOCAL0`: for use on this machine.
        #[default]
        Local0 = "local0",
        /// Facility `LOG_LOCAL1`: for use on this machine.
        Local1 = "local1",
        /// Facility `LOG_LOCAL2`: for use on this machine.
        Local2 = "local2",
        /// Facility `LOG_LOCAL3`: for use on this machine.
        Local3 = "local3",
        /// Facility `LOG_LOCAL4`: for use on this machine.
        Local4 = "local4",
        /// Facility `LOG_LOCAL5`: for use on this machine.
        Local5 = "local5",
        /// Facility `LOG_LOCAL6`: for use on this machine.
        Local6 = "local6",
        /// Facility `LOG_LOCAL7`: for use on this machine.
        Local7 = "local7",
    }
}

impl SyslogFacility {
    /// Returns the facility's number in RFC 5424, section 6.2.1: user 1, local0 to local7 16 to 23.
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
