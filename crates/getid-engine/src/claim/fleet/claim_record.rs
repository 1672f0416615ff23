//! The record of kind `claim`: the right to one server-id with its watermark, as a claim store keeps it.
//!
//! ```text
//! getid state 4
//! # server-id 3 has given no ID at or past the watermark, and its next holder gives none before it.
//! # Never edit this, or IDs are given twice. To read it: getid claim show. To mend: getid state advance.
//! kind claim
//! key 3
//! term 7
//! nonce 9f86d081884c7d65
//! max-borrow-ms 3000
//! epoch 1420041600000 2014-12-31T16:00:00.000Z
//! layout id-range 2 shard-range 9 random-range 10
//! watermark 375145820123 2026-11-20T15:10:20.123Z
//! reference 375145817123 2026-11-20T15:10:17.123Z
//! beat 4711
//! timeout-ms 2000
//! holder 0f1e2d3c4b5a69788796a5b4c3d2e1f0 since 1795219200000 2026-11-21T00:00:00.000Z
//! name host-a
//! host host-a.example
//! address 10.1.0.7:7890
//! boot-id 2f1c...
//! folder 1a2b...
//! generator tweets twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657
//! checksum crc32 440dd966
//! ```
//!
//! A record without a holder has a line `free WHY since ...` in place of `holder`, and its `name` is that of the last
//! holder. A moved record has a [`Mark`] after `folder`. The parser is as strict as that of a folder's record.
//!
//! Pure.

use std::sync::Arc;

use getid_core::{SavePoint, UtcMs};

use super::super::declarations::Declarations;
use super::super::envelope::{Envelope, Owner, RecordError, number, quoted};
use super::super::mark::Mark;
use super::super::record::{Identity, OWN_LINES, Record, same_lines};
use super::RecordTooLong;
use super::word::{cut, text_of, word};
use getid_store::records::{RecordRow, Stamp, TEXT_BYTES_MAX};

/// The kind of these records.
pub const KIND: &str = "claim";

/// Number of lines about the claim in each record.
const CLAIM_LINES: usize = 8;

/// A claim as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRecord {
    /// Watermark, reference, B and declarations. The owner's term grows each time that the claim is taken.
    pub record: Record,
    /// Write counter of the record, equal to the beat of its [`Stamp`].
    pub beat: u64,
    /// The holder's `claim-timeout-ms`, which binds all servers.
    pub timeout_ms: u64,
    /// Holder of the claim, or the reason why it is free.
    pub holding: Holding,
    /// Mark of a record that was moved or is being moved.
    pub mark: Option<Mark>,
}

/// State of a claim: held or free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holding {
    /// A server holds the claim.
    Held(ClaimHolder),
    /// Any eligible server can take the claim at once.
    Free(FreeClaim),
}

/// The holder of a claim. Its texts are cut at 512 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimHolder {
    /// Random number of the process, never 0.
    pub instance: u128,
    /// The holder's `instance-name`.
    pub name: String,
    /// Host name of its machine.
    pub host: String,
    /// Address for its clients; empty if unknown.
    pub address: String,
    /// Time at which it took the claim, by its own clock, in Unix ms.
    pub since_unix_ms: i64,
    /// Boot id of its machine; empty if unknown.
    pub boot_id: String,
    /// Token of its folder, which it has locked; empty if none.
    pub folder: String,
}

/// How and when a claim became free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeClaim {
    /// Reason why the claim is free.
    pub why: ReleaseReason,
    /// Name of the server that held the claim, or of its releaser; empty if the claim was never held.
    pub by: String,
    /// Time of the release, by the clock of its writer, in Unix ms.
    pub since_unix_ms: i64,
}

/// Reason why a claim has no holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The claim was created (`getid cluster init --new`) and never held.
    New,
    /// The holder stopped.
    Stopped,
    /// The holder's clock was absurd.
    Clock,
    /// An operator took the claim from its holder (`getid claim take`, `release`).
    Operator,
    /// An operator raised the watermark (`getid state advance`).
    Advanced,
    /// The record came from another place (`getid state move`).
    Moved,
}

impl ReleaseReason {
    const WORDS: [(&'static str, ReleaseReason); 6] = [
        ("new", ReleaseReason::New),
        ("stopped", ReleaseReason::Stopped),
        ("clock", ReleaseReason::Clock),
        ("operator", ReleaseReason::Operator),
        ("advanced", ReleaseReason::Advanced),
        ("moved", ReleaseReason::Moved),
    ];

    /// Returns the word for this reason in a record.
    pub fn word(self) -> &'static str {
        ReleaseReason::WORDS.iter().find(|(_, why)| *why == self).map_or("new", |(word, _)| word)
    }
}

impl ClaimRecord {
    /// Creates the claim of a server-id that was never held. Its first holder begins like a start without a record.
    pub fn new(identity: Identity, timeout_ms: u64, now_unix_ms: i64) -> ClaimRecord {
        let record =
            Record { identity, point: SavePoint::NOTHING, declarations: Arc::default(), owner: Owner::default() };
        let freed = FreeClaim { why: ReleaseReason::New, by: String::new(), since_unix_ms: now_unix_ms };
        ClaimRecord { record, beat: 1, timeout_ms, holding: Holding::Free(freed), mark: None }
    }

    /// Returns the holder, if there is one.
    pub fn holder(&self) -> Option<&ClaimHolder> {
        match &self.holding {
            Holding::Held(holder) => Some(holder),
            Holding::Free(_) => None,
        }
    }

    /// Returns true if the claim has no holder and no server ever gave an ID with it.
    pub fn is_never_used(&self) -> bool {
        self.holder().is_none() && self.record.point.is_nothing()
    }

    /// Returns the text that goes to the store.
    pub fn to_text(&self) -> String {
        let server_id = self.record.identity.server_id;
        let comments = [
            format!(
                "server-id {server_id} has given no ID at or past the watermark, and its next holder gives none before it."
            ),
            "Never edit this, or IDs are given twice. To read it: getid claim show. To mend: getid state advance."
                .to_owned(),
        ];
        Envelope {
            kind: KIND.to_owned(),
            key: server_id.to_string(),
            owner: self.record.owner,
            max_borrow_ms: self.record.point.max_borrow_ms,
            body: self.body(),
        }
        .to_text(&comments)
    }

    /// Returns the row that `writer` writes.
    ///
    /// # Errors
    ///
    /// [`RecordTooLong`] if the text is too long for a store.
    pub fn to_row(&self, writer: u128) -> Result<RecordRow, RecordTooLong> {
        let text = self.to_text();
        if text.len() > TEXT_BYTES_MAX {
            return Err(RecordTooLong::Claim { server_id: self.record.identity.server_id, bytes: text.len() });
        }
        Ok(RecordRow { stamp: Stamp { writer, beat: self.beat }, text })
    }

    fn body(&self) -> Vec<String> {
        let mut lines = self.record.own_lines().to_vec();
        lines.extend([format!("beat {}", self.beat), format!("timeout-ms {}", self.timeout_ms)]);
        let since = |unix_ms: i64| format!("since {unix_ms} {}", UtcMs(unix_ms));
        match &self.holding {
            Holding::Held(ClaimHolder { instance, name, host, address, since_unix_ms, boot_id, folder }) => {
                lines.push(format!("holder {instance:032x} {}", since(*since_unix_ms)));
                let words = [("name", name), ("host", host), ("address", address), ("boot-id", boot_id)];
                lines.extend(words.map(|(line, text)| format!("{line} {}", word(text))));
                lines.push(format!("folder {}", word(folder)));
            }
            Holding::Free(FreeClaim { why, by, since_unix_ms }) => {
                lines.push(format!("free {} {}", why.word(), since(*since_unix_ms)));
                lines.push(format!("name {}", word(by)));
                lines.extend(["host -", "address -", "boot-id -", "folder -"].map(str::to_owned));
            }
        }
        lines.extend(self.mark.as_ref().map(Mark::to_line));
        lines.extend(self.record.declarations.lines());
        lines
    }

    /// Parses the claim in a row's text.
    ///
    /// # Errors
    ///
    /// [`RecordError`] for anything but the exact text of a whole record.
    pub fn parse(bytes: &[u8]) -> Result<ClaimRecord, RecordError> {
        let opened = Envelope::parse(bytes)?;
        let Envelope { kind, key, owner, max_borrow_ms, body } = opened.envelope;
        if kind != KIND {
            return Err(RecordError::Kind { found: kind, expected: KIND });
        }
        let first_line = opened.body_line;
        let (own, rest) = body.split_at(OWN_LINES.min(body.len()));
        let mut reader = ClaimReader { lines: rest.iter().map(String::as_str).zip(first_line + OWN_LINES..) };
        let beat = reader.value("beat", "a number", number)?;
        let timeout_ms = reader.value("timeout-ms", "a number of ms", number)?;
        let holding = reader.holding()?;
        let (mut more, mut more_line) =
            (rest.get(CLAIM_LINES..).unwrap_or_default(), first_line + OWN_LINES + CLAIM_LINES);
        let mark = more.first().and_then(|line| Mark::from_line(line));
        if mark.is_some() {
            (_, more) = more.split_at(1);
            more_line += 1;
        }
        let record = Record::of_lines(&key, owner, max_borrow_ms, [(own, first_line), (more, more_line)])?;
        let claim = ClaimRecord { record, beat, timeout_ms, holding, mark };
        same_lines(&body, first_line, &claim.body())?;
        Ok(claim)
    }

    /// Parses the claim of `server_id` in the row under its key.
    ///
    /// # Errors
    ///
    /// [`RecordError`], also if row and text contradict each other.
    pub fn of_row(row: &RecordRow, server_id: u32) -> Result<ClaimRecord, RecordError> {
        let claim = ClaimRecord::parse(row.text.as_bytes())?;
        let Stamp { writer, beat } = row.stamp;
        let is_holders = claim.holder().is_none_or(|holder| holder.instance == writer);
        if claim.record.identity.server_id != server_id || claim.beat != beat || !is_holders {
            return Err(RecordError::Range);
        }
        Ok(claim)
    }

    /// Returns this claim with other declarations.
    #[must_use]
    pub fn with_declarations(mut self, declarations: Arc<Declarations>) -> ClaimRecord {
        self.record.declarations = declarations;
        self
    }
}

impl ClaimHolder {
    /// Cuts the texts as a record does.
    #[must_use]
    pub fn cut(mut self) -> ClaimHolder {
        for text in [&mut self.name, &mut self.host, &mut self.address, &mut self.boot_id, &mut self.folder] {
            text.truncate(cut(text).len());
        }
        self
    }
}

/// Reader of the lines about a claim, in order, with their numbers.
struct ClaimReader<'a, I: Iterator<Item = (&'a str, usize)>> {
    lines: I,
}

impl<'a, I: Iterator<Item = (&'a str, usize)>> ClaimReader<'a, I> {
    fn line(&mut self, name: &'static str) -> Result<(&'a str, usize), RecordError> {
        self.lines.next().ok_or(RecordError::Missing { name })
    }

    /// Returns the value of the next line, which has the form `name value`.
    fn value<T>(
        &mut self,
        name: &'static str,
        meaning: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, RecordError> {
        let (line, number) = self.line(name)?;
        let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).and_then(read);
        value.ok_or_else(|| wrong(line, number, format!("{name} with {meaning}")))
    }

    /// Reads the lines from `holder` or `free` to `folder`.
    fn holding(&mut self) -> Result<Holding, RecordError> {
        let (line, number) = self.line("holder")?;
        let words = line.split_once(' ').and_then(|(first, rest)| {
            let (who, since) = rest.split_once(" since ")?;
            let since_unix_ms = since.split(' ').next()?.parse::<i64>().ok()?;
            Some((first, who, since_unix_ms))
        });
        let mut text = |name| self.value(name, "a word", text_of);
        let [name, host, address] = [text("name")?, text("host")?, text("address")?];
        let [boot_id, folder] = [text("boot-id")?, text("folder")?];
        let holding = words.and_then(|(first, who, since_unix_ms)| match first {
            "holder" => {
                let instance = u128::from_str_radix(who, 16).ok().filter(|&instance| instance != 0)?;
                Some(Holding::Held(ClaimHolder { instance, name, host, address, since_unix_ms, boot_id, folder }))
            }
            "free" => {
                let (_, why) = ReleaseReason::WORDS.iter().find(|(word, _)| *word == who)?;
                Some(Holding::Free(FreeClaim { why: *why, by: name, since_unix_ms }))
            }
            _ => None,
        });
        holding.ok_or_else(|| wrong(line, number, "holder with 32 hex digits and since, or free with why".to_owned()))
    }
}

fn wrong(line: &str, number: usize, expected: String) -> RecordError {
    RecordError::Line { line: number, found: quoted(line), expected }
}

#[cfg(test)]
mod tests {
    use getid_core::{Epoch, Layout, Tick};
    use proptest::prelude::*;

    use super::*;
    use crate::claim::envelope::{LAST_WORDS, Term};
    use crate::claim::mark::RecordLocation;

    fn sample() -> ClaimRecord {
        let identity = Identity { server_id: 3, layout: Layout::default() };
        let reference = Tick(375_145_817_123);
        let point = SavePoint { watermark: Tick(375_145_820_123), reference, max_borrow_ms: 3000 };
        let owner = Owner { term: Term(7), nonce: 0x9f86_d081_884c_7d65 };
        let lines = ["generator tweets twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657"];
        let declarations = Declarations::parse(&lines.map(str::to_owned), 1).unwrap();
        let record = Record { identity, point, declarations: Arc::new(declarations), owner };
        let holder = ClaimHolder {
            instance: 0x0f1e_2d3c_4b5a_6978_8796_a5b4_c3d2_e1f0,
            name: "host a".to_owned(),
            host: "host-a.example".to_owned(),
            address: "10.1.0.7:7890".to_owned(),
            since_unix_ms: 1_795_219_200_000,
            boot_id: "2f1c".to_owned(),
            folder: String::new(),
        };
        ClaimRecord { record, beat: 4711, timeout_ms: 2000, holding: Holding::Held(holder), mark: None }
    }

    fn sealed(body: &str) -> String {
        format!("{body}{LAST_WORDS}{:08x}\n", crc32fast::hash(body.as_bytes()))
    }

    #[test]
    fn text_is_readable() {
        let text = sample().to_text();
        let expected = "kind claim\nkey 3\nterm 7\nnonce 9f86d081884c7d65\nmax-borrow-ms 3000\n\
             epoch 1420041600000 2014-12-31T16:00:00.000Z\n\
             layout id-range 2 shard-range 9 random-range 10\n\
             watermark 375145820123 2026-11-20T15:10:20.123Z\n\
             reference 375145817123 2026-11-20T15:10:17.123Z\n\
             beat 4711\n\
             timeout-ms 2000\n\
             holder 0f1e2d3c4b5a69788796a5b4c3d2e1f0 since 1795219200000 2026-11-21T00:00:00.000Z\n\
             name host%20a\nhost host-a.example\naddress 10.1.0.7:7890\nboot-id 2f1c\nfolder -\n\
             generator tweets twitter time:41@1ms datacenter:5 worker:5 counter:12 epoch 1288834974657\n";
        assert!(text.starts_with("getid state 4\n# server-id 3 has given no ID") && text.contains(expected), "{text}");
        assert_eq!(ClaimRecord::parse(text.as_bytes()), Ok(sample()));
    }

    #[test]
    fn free_and_moved_claims_read_back() {
        let identity = Identity { server_id: 0, layout: Layout::default() };
        let new = ClaimRecord::new(identity, 2000, 1_795_219_200_000);
        assert!(
            new.is_never_used()
                && new.to_text().contains("\nfree new since 1795219200000 2026-11-21T00:00:00.000Z\nname -\n")
        );
        assert_eq!(ClaimRecord::parse(new.to_text().as_bytes()), Ok(new.clone()));
        for (_, why) in ReleaseReason::WORDS {
            let holding = Holding::Free(FreeClaim { why, by: "host-a".to_owned(), since_unix_ms: -1 });
            let moved =
                ClaimRecord { holding, mark: Some(Mark::MovedTo(RecordLocation::of_store("etcd://a/p"))), ..sample() };
            assert_eq!(ClaimRecord::parse(moved.to_text().as_bytes()), Ok(moved));
        }
    }

    /// Each row: a change of the text, and the expected error.
    #[test]
    fn any_deviation_from_the_text_is_refused() {
        let text = sample().to_text();
        let body = &text[..text.find(LAST_WORDS).unwrap()];
        for (from, to, expected_text) in [
            ("state 4", "state 5", "it is of format version 5, this getid reads version 4"),
            ("kind claim", "kind time", "it is a record of kind 'time' where 'claim' is expected"),
            ("key 3", "key x", "its numbers contradict each other or lie out of range"),
            ("key 3", "key 4", "its numbers contradict each other or lie out of range"),
            ("beat 4711", "beat 04711", "line 13 is 'beat 04711' where 'beat with a number' is expected"),
            ("beat 4711\n", "", "line 13 is 'timeout-ms 2000' where 'beat with a number' is expected"),
            ("timeout-ms 2000", "timeout-ms", "line 14 is 'timeout-ms' where 'timeout-ms with a number of ms'"),
            ("holder 0f", "holder  0f", "line 15 is 'holder  0f1e"),
            ("holder 0f1e2d3c4b5a69788796a5b4c3d2e1f0", "holder 0", "line 15 is 'holder 0 since"),
            ("holder 0f1e", "holder 0F1E", "line 15 is 'holder 0F1E"),
            ("holder 0f", "free 0f", "line 15 is 'free 0f1e"),
            ("2026-11-21T00:00:00.000Z", "2026-11-21T00:00:00.001Z", "line 15 is 'holder 0f1e"),
            ("host%20a", "host a", "line 16 is 'name host a' where 'name with a word' is expected"),
            ("folder -\n", "", "where 'folder with a word' is expected"),
            ("folder -\n", "folder -\nmark lost\n", "line 21 is 'mark lost' where 'the checksum' is expected"),
            ("folder -\n", "folder -\nmore\n", "line 21 is 'more' where 'the checksum' is expected"),
        ] {
            assert!(body.contains(from), "{from}");
            let edited = sealed(&body.replacen(from, to, 1));
            let error = ClaimRecord::parse(edited.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected_text), "{from} -> {to}: {error}");
        }
        let damaged = text.replace("watermark 375145820123", "watermark 375145820124");
        assert!(ClaimRecord::parse(damaged.as_bytes()).unwrap_err().to_string().starts_with("its checksum is"));
    }

    /// A row whose stamp contradicts its text was not written by getid.
    #[test]
    fn row_and_text_agree() {
        let row = sample().to_row(sample().holder().unwrap().instance).unwrap();
        assert_eq!(ClaimRecord::of_row(&row, 3), Ok(sample()));
        assert_eq!(ClaimRecord::of_row(&row, 2), Err(RecordError::Range));
        for stamp in [Stamp { beat: 4712, ..row.stamp }, Stamp { writer: 1, ..row.stamp }] {
            assert_eq!(ClaimRecord::of_row(&RecordRow { stamp, text: row.text.clone() }, 3), Err(RecordError::Range));
        }
    }

    #[test]
    fn too_long_for_a_store() {
        let lines: Vec<_> = (0..1000)
            .map(|n| format!("forgotten n{n} past-id {}", "9".repeat(480)))
            .chain((0..1000).map(|n| format!("generator g{n}{} uuid7", "x".repeat(100))))
            .collect();
        let (generators, forgotten) = (lines[1000..].to_vec(), lines[..1000].to_vec());
        let declarations = Declarations::parse(&[generators, forgotten].concat(), 1).unwrap();
        let refused = sample().with_declarations(Arc::new(declarations)).to_row(1).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("and a claim store accepts 524288: declare fewer generators"), "{refused}");
    }

    fn any_claim() -> impl Strategy<Value = ClaimRecord> {
        let text = || "[ -~ü\n]{0,20}";
        let holder = (1..=u128::MAX, text(), text(), text(), any::<i64>(), text(), text()).prop_map(
            |(instance, name, host, address, since_unix_ms, boot_id, folder)| {
                Holding::Held(ClaimHolder { instance, name, host, address, since_unix_ms, boot_id, folder })
            },
        );
        let free = (0..ReleaseReason::WORDS.len(), text(), any::<i64>()).prop_map(|(why, by, since_unix_ms)| {
            Holding::Free(FreeClaim { why: ReleaseReason::WORDS[why].1, by, since_unix_ms })
        });
        let mark = prop::option::of("[!-~]{1,9}".prop_map(|place| Mark::MovingTo(RecordLocation::of_store(&place))));
        (prop_oneof![holder, free], mark, any::<u64>(), any::<u64>(), 0..=Tick::END.0, any::<bool>()).prop_map(
            |(holding, mark, beat, timeout_ms, watermark, has_generators)| {
                let mut claim = ClaimRecord { beat, timeout_ms, holding, mark, ..sample() };
                claim.record.point.watermark = Tick(watermark);
                claim.record.identity.layout = Layout::new(Epoch::from_unix_ms(0).unwrap(), 8, 9, 4).unwrap();
                if has_generators { claim } else { claim.with_declarations(Arc::default()) }
            },
        )
    }

    proptest! {
        #[test]
        fn every_claim_reads_back(claim in any_claim()) {
            prop_assert_eq!(ClaimRecord::parse(claim.to_text().as_bytes()), Ok(claim));
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(ClaimRecord::parse(&bytes).is_err());
        }

        /// A skilful edit yields either the record that its lines describe, or a refusal.
        #[test]
        fn edited_and_sealed(claim in any_claim(), at in any::<prop::sample::Index>(), byte in b' '..=b'~') {
            let text = claim.to_text();
            let mut edited = text.as_bytes()[..text.find(LAST_WORDS).unwrap()].to_vec();
            let at = at.index(edited.len());
            edited[at] = byte;
            let edited = sealed(&String::from_utf8(edited).unwrap());
            if let Ok(read) = ClaimRecord::parse(edited.as_bytes()) {
                let facts = |text: &str| -> Vec<String> {
                    let is_fact = |line: &&str| !line.starts_with('#') && !line.starts_with(LAST_WORDS);
                    text.lines().filter(is_fact).map(str::to_owned).collect()
                };
                prop_assert_eq!(facts(&read.to_text()), facts(&edited));
            }
        }
    }
}
