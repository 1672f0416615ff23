//! Checks all IDs after the run, in one ascending merge of all sources.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::Arc;

use getid_core::Number;

use super::evenness::{Evenness, EvennessVerdict};
use super::record::RecordError;
use super::watch::{ServerWatch, Watch};
use super::{Findings, IdSource, Promises, ViolationKind};

/// Promises that [`judge`] checks, and how strictly it checks them.
#[derive(Clone, Debug)]
pub struct JudgeOptions {
    /// Promises about the generator's IDs.
    pub promises: Arc<Promises>,
    /// The modulus over which evenness of `id % modulus` is judged.
    pub modulus: u32,
    /// Whether this run got all IDs of its servers, so that evenness holds exactly.
    pub exclusive: bool,
    /// Whether each ID of this run must be larger than all earlier ones of its server-id.
    pub after: bool,
}

/// The IDs of an earlier run, ascending.
pub struct EarlierRun<'a> {
    /// Name of the run in findings and errors, such as the path of its record.
    pub name: String,
    /// Iterator over the IDs, or over the error that ended the reading.
    pub ids: Box<dyn Iterator<Item = Result<Number, RecordError>> + 'a>,
}

/// Result of [`judge`]: violations, and counts of IDs.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Violations found in the merge, without the findings of the watches.
    pub findings: Findings,
    /// The IDs of each server, in the given order; `None` for a server without IDs.
    pub servers: Vec<Option<ServerIds>>,
    /// Number of IDs of all earlier runs.
    pub earlier_ids: u64,
}

/// This run's IDs of one server.
#[derive(Debug)]
pub struct ServerIds {
    pub ids: u64,
    pub lowest: Number,
    pub highest: Number,
    pub evenness: EvennessVerdict,
}

/// An error that stops [`judge`].
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The record of an earlier run cannot be read.
    #[error("{name}: {error}")]
    Record {
        /// Name of the earlier run.
        name: String,
        /// Cause of the failure.
        error: RecordError,
    },
    /// This run's record cannot be written.
    #[error("writing the record: {0}")]
    Write(io::Error),
}

/// Merges the IDs of all watches and earlier runs, checks them, and passes this run's IDs to `record`, ascending.
///
/// `servers` are those of the watches. The watches' IDs are sorted in place unless they ascend.
///
/// # Errors
///
/// Fails if an earlier run cannot be read, or if `record` fails.
pub fn judge(
    servers: &[Arc<ServerWatch>],
    watches: &mut [Watch],
    earlier: Vec<EarlierRun<'_>>,
    options: &JudgeOptions,
    mut record: impl FnMut(Number) -> io::Result<()>,
) -> Result<Judgement, JudgeError> {
    for watch in watches.iter_mut() {
        watch.ids.sort();
    }
    let watches = &*watches;
    let server_of: Vec<Option<usize>> =
        watches.iter().map(|watch| servers.iter().position(|server| Arc::ptr_eq(server, &watch.server))).collect();
    let promises = &*options.promises;
    let mut findings = Findings::default();
    let mut tallies: Vec<Option<ServerTally>> = servers.iter().map(|_| None).collect();
    let mut by_server_id: BTreeMap<u64, ServerIdTally> = BTreeMap::new();
    let mut earlier_ids = 0;
    let mut last: Option<(Number, usize)> = None;
    let mut merge = Merge::new(watches, earlier)?;
    while let Some((id, source)) = merge.next()? {
        if let Some((_, before)) = last.filter(|&(before, _)| before == id) {
            let (one, other) = (merge.source_of(before), merge.source_of(source));
            findings.add(ViolationKind::Duplicate, || format!("{} on {one} and on {other}", promises.text(id)));
        }
        last = Some((id, source));

        let server_id = promises.server_of(id).unwrap_or(0);
        if source >= watches.len() {
            earlier_ids += 1;
            // IDs ascend here, so all IDs of this run with this server-id so far lie at or below an earlier ID.
            if let Some(number) = by_server_id.get_mut(&server_id) {
                number.not_after = number.ids;
                number.earlier = Some((id, source));
            }
            continue;
        }
        record(id).map_err(JudgeError::Write)?;
        if options.after {
            by_server_id
                .entry(server_id)
                .or_insert(ServerIdTally { lowest: id, ids: 0, not_after: 0, earlier: None })
                .ids += 1;
        }
        if let Some(tally) = server_of[source].and_then(|server| tallies.get_mut(server)) {
            let new =
                || ServerTally { ids: 0, lowest: id, highest: id, evenness: Evenness::new(promises, options.modulus) };
            let tally = tally.get_or_insert_with(new);
            tally.ids += 1;
            tally.highest = id;
            tally.evenness.add(id);
        }
    }

    check_after_earlier(by_server_id, &merge, promises, &mut findings);
    check_server_ids_differ(servers, promises, &mut findings);
    let mut judged = Judgement { findings, servers: Vec::new(), earlier_ids };
    for (server, tally) in servers.iter().zip(tallies) {
        judged.servers.push(tally.map(|ServerTally { ids, lowest, highest, evenness }| {
            let evenness = evenness.verdict(options.exclusive);
            if evenness.even == Some(false) {
                judged.findings.add(ViolationKind::Evenness, || format!("{}: {evenness}", server.name));
            }
            ServerIds { ids, lowest, highest, evenness }
        }));
    }
    Ok(judged)
}

/// Reports IDs that are not above all that an earlier run got from the same server-id.
fn check_after_earlier(
    by_server_id: BTreeMap<u64, ServerIdTally>,
    merge: &Merge<'_>,
    promises: &Promises,
    findings: &mut Findings,
) {
    for (server_id, ServerIdTally { lowest, not_after, earlier, .. }) in by_server_id {
        if let Some((earlier, source)) = earlier {
            findings.add_many(ViolationKind::AfterEarlier, not_after, || {
                let record = merge.source_of(source);
                let (lowest, earlier) = (promises.text(lowest), promises.text(earlier));
                let word = promises.server_word();
                format!("{not_after} ids of {word} {server_id}, from {lowest} on, are not above {earlier} of {record}")
            });
        }
    }
}

/// Counts of this run's IDs of one server.
struct ServerTally {
    ids: u64,
    lowest: Number,
    highest: Number,
    evenness: Evenness,
}

/// This run's IDs of one server-id. Earlier runs are compared by it, because addresses change.
struct ServerIdTally {
    lowest: Number,
    ids: u64,
    /// Number of these IDs that are not above `earlier`.
    not_after: u64,
    /// The largest ID of an earlier run above one of these IDs, with its source.
    earlier: Option<(Number, usize)>,
}

/// Reports servers with the same server-id, which will give the same IDs sooner or later.
fn check_server_ids_differ(servers: &[Arc<ServerWatch>], promises: &Promises, findings: &mut Findings) {
    let mut names: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for server in servers {
        if let Some(server_id) = server.server_id() {
            names.entry(server_id).or_default().push(&server.name);
        }
    }
    for (server_id, names) in names.into_iter().filter(|(_, names)| names.len() > 1) {
        let word = promises.server_word();
        findings.add(ViolationKind::ServerId, || format!("{} have the same {word} {server_id}", names.join(" and ")));
    }
}

/// Merges all sources into one ascending sequence. Sources below the number of watches are this run's.
struct Merge<'a> {
    watches: &'a [Watch],
    names: Vec<String>,
    iterators: Vec<Box<dyn Iterator<Item = Result<Number, RecordError>> + 'a>>,
    heads: BinaryHeap<Reverse<(Number, usize)>>,
}

impl<'a> Merge<'a> {
    fn new(watches: &'a [Watch], earlier: Vec<EarlierRun<'a>>) -> Result<Merge<'a>, JudgeError> {
        let mut iterators: Vec<Box<dyn Iterator<Item = Result<Number, RecordError>> + 'a>> = Vec::new();
        for watch in watches {
            iterators.push(Box::new(watch.ids.iter().map(Ok)));
        }
        let mut names = Vec::new();
        for EarlierRun { name, ids } in earlier {
            names.push(name);
            iterators.push(ids);
        }
        let mut merge = Merge { watches, names, iterators, heads: BinaryHeap::new() };
        for source in 0..merge.iterators.len() {
            if let Some(id) = merge.pull(source)? {
                merge.heads.push(Reverse((id, source)));
            }
        }
        Ok(merge)
    }

    fn next(&mut self) -> Result<Option<(Number, usize)>, JudgeError> {
        let Some(&Reverse((id, source))) = self.heads.peek() else { return Ok(None) };
        let following = self.pull(source)?;
        if let Some(mut head) = self.heads.peek_mut() {
            match following {
                Some(following) => *head = Reverse((following, source)),
                None => {
                    PeekMut::pop(head);
                }
            }
        }
        Ok(Some((id, source)))
    }

    fn pull(&mut self, source: usize) -> Result<Option<Number>, JudgeError> {
        self.iterators[source].next().transpose().map_err(|error| {
            let name = self.names.get(source - self.watches.len()).cloned().unwrap_or_default();
            JudgeError::Record { name, error }
        })
    }

    fn source_of(&self, source: usize) -> IdSource<'_> {
        match self.watches.get(source) {
            Some(watch) => IdSource::Connection { server: &watch.server.name, connection: watch.connection },
            None => IdSource::Record(&self.names[source - self.watches.len()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{RecordReader, RecordWriter};
    use super::super::watch::{ReplyTimes, WatchOptions};
    use super::*;
    use crate::subject::Subject;
    use getid_core::{Id, Layout, Parts, Tick};

    /// A run that a test builds: the IDs that each connection gets.
    struct Run {
        servers: Vec<Arc<ServerWatch>>,
        watches: Vec<Watch>,
    }

    fn promises() -> Arc<Promises> {
        Arc::new(Promises::of(Subject::Unnamed(Layout::default())).unwrap())
    }

    fn watch_options() -> WatchOptions {
        WatchOptions { promises: promises(), clock_tolerance_ms: 10 }
    }

    fn judge_options(modulus: u32, exclusive: bool, after: bool) -> JudgeOptions {
        JudgeOptions { promises: promises(), modulus, exclusive, after }
    }

    impl Run {
        /// Returns a run over servers with these expected server-ids, two connections each.
        fn new(servers: &[Option<u64>]) -> Run {
            let servers: Vec<_> =
                (0..).zip(servers).map(|(i, id)| Arc::new(ServerWatch::new(format!("s{i}"), *id))).collect();
            let watches = servers
                .iter()
                .flat_map(|server| (1..=2).map(|number| Watch::new(Arc::clone(server), number, watch_options())))
                .collect();
            Run { servers, watches }
        }

        /// Adds a sound ID of `server` at `tick` on connection `watch`, requested just before.
        fn gives(&mut self, watch: usize, server: u32, tick: u64) {
            let floor = self.watches[watch].server.floor();
            self.gives_with_floor(watch, floor, server, tick);
        }

        fn gives_with_floor(&mut self, watch: usize, floor: super::super::Floor, server: u32, tick: u64) {
            let unix_ms = Tick(tick).unix_ms(Layout::default().epoch());
            let seen = ReplyTimes { sent_unix_ms: unix_ms - 1, received_unix_ms: unix_ms + 1 };
            self.watches[watch].received(floor, seen, &[id(server, tick).get().into()]);
        }

        #[track_caller]
        fn check(mut self, earlier: &[&[Id]], expected: &[(ViolationKind, u64)]) {
            let options = judge_options(1024, true, true);
            let files: Vec<Vec<u8>> = earlier.iter().map(|ids| recorded(ids)).collect();
            let earlier = files
                .iter()
                .map(|file| EarlierRun {
                    name: "before".to_owned(),
                    ids: Box::new(RecordReader::new(&file[..]).unwrap()),
                })
                .collect();
            let mut ids = Vec::new();
            let judged = judge(&self.servers, &mut self.watches, earlier, &options, |id| {
                ids.push(id);
                Ok(())
            });
            let mut findings = judged.unwrap().findings;
            for watch in self.watches {
                findings.absorb(watch.findings);
            }
            assert!(ids.is_sorted());
            let found: Vec<_> = ViolationKind::ALL
                .into_iter()
                .map(|kind| (kind, findings.of(kind).count))
                .filter(|(_, count)| *count > 0)
                .collect();
            assert_eq!(found, expected, "{findings:?}");
        }
    }

    fn id(server: u32, tick: u64) -> Id {
        let random = (tick.wrapping_mul(389) % 1024) as u32;
        Layout::default().compose(Parts { tick: Tick(tick), server, shard: 0, random })
    }

    fn recorded(ids: &[Id]) -> Vec<u8> {
        let mut writer = RecordWriter::new(Vec::new(), &Subject::Unnamed(Layout::default())).unwrap();
        for &id in ids {
            writer.add(id.get().into()).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn a_sound_run_has_no_findings() {
        let mut run = Run::new(&[None, Some(1)]);
        for tick in 1000..20_000 {
            run.gives((tick % 2) as usize, 0, tick);
            run.gives(2 + (tick % 2) as usize, 1, tick);
        }
        run.check(&[&[id(0, 998), id(0, 999)], &[id(2, 999_999)]], &[]);
    }

    #[test]
    fn a_planted_duplicate_is_caught_across_servers_and_connections_and_runs() {
        // On two connections of one server, both requested before either reply.
        let mut run = Run::new(&[None]);
        let floor = run.servers[0].floor();
        run.gives_with_floor(0, floor, 0, 5);
        run.gives_with_floor(1, floor, 0, 5);
        run.check(&[], &[(ViolationKind::Duplicate, 1), (ViolationKind::Evenness, 1)]);

        // On one connection.
        let mut run = Run::new(&[None]);
        let floor = run.servers[0].floor();
        run.gives_with_floor(0, floor, 0, 5);
        run.gives_with_floor(0, floor, 0, 5);
        run.check(
            &[],
            &[(ViolationKind::Duplicate, 1), (ViolationKind::ConnectionOrder, 1), (ViolationKind::Evenness, 1)],
        );

        // On two servers with the same server-id.
        let mut run = Run::new(&[None, None]);
        run.gives(0, 3, 5);
        run.gives(2, 3, 5);
        run.check(&[], &[(ViolationKind::Duplicate, 1), (ViolationKind::ServerId, 1)]);

        // In a run before and a run after a crash.
        let mut run = Run::new(&[None]);
        run.gives(0, 0, 5);
        run.gives(0, 0, 6);
        run.check(&[&[id(0, 1), id(0, 5)]], &[(ViolationKind::Duplicate, 1), (ViolationKind::AfterEarlier, 1)]);
    }

    #[test]
    fn a_planted_inversion_is_caught() {
        let mut run = Run::new(&[None]);
        let floor = run.servers[0].floor();
        run.gives_with_floor(0, floor, 0, 6);
        run.gives_with_floor(0, floor, 0, 5);
        run.check(&[], &[(ViolationKind::ConnectionOrder, 1)]);
    }

    #[test]
    fn a_planted_real_time_inversion_is_caught_and_overlapping_requests_are_free() {
        let mut run = Run::new(&[None, None]);
        let overlapping = run.servers[0].floor();
        run.gives(0, 0, 6);
        run.gives_with_floor(1, overlapping, 0, 4);
        run.gives(1, 0, 5);
        // Another server has its own clock.
        run.gives(2, 1, 3);
        run.check(&[], &[(ViolationKind::RealTimeOrder, 1)]);
    }

    #[test]
    fn a_planted_server_id_is_caught() {
        let mut run = Run::new(&[Some(1), None]);
        run.gives(0, 2, 5);
        run.gives(0, 1, 6);
        run.gives(2, 3, 5);
        run.gives(3, 0, 6);
        run.check(&[], &[(ViolationKind::ServerId, 2)]);
    }

    #[test]
    fn a_planted_time_is_caught() {
        let mut run = Run::new(&[None]);
        let tick = Tick(100_000);
        let unix_ms = tick.unix_ms(Layout::default().epoch());
        for (asked_ms, received_ms) in [(-10, -10), (10, 10), (-11, -11), (11, 11), (-5000, 5000)] {
            let seen = ReplyTimes { sent_unix_ms: unix_ms + asked_ms, received_unix_ms: unix_ms + received_ms };
            let server = Arc::new(ServerWatch::new("s".to_owned(), None));
            let mut watch = Watch::new(server, 1, watch_options());
            watch.received(watch.server.floor(), seen, &[id(0, tick.0).get().into()]);
            run.watches[0].findings.absorb(watch.findings);
        }
        run.check(&[], &[(ViolationKind::Clock, 2)]);
    }

    #[test]
    fn a_planted_skew_is_caught() {
        let mut run = Run::new(&[None]);
        for tick in 0..20_000 {
            // Each second tick has half of the random values.
            run.gives(0, 0, tick * 2);
        }
        run.check(&[], &[(ViolationKind::Evenness, 1)]);
    }

    #[test]
    fn ids_not_above_an_earlier_run_are_counted_for_each_server_id() {
        let mut run = Run::new(&[None, None]);
        for tick in 10..20 {
            run.gives(0, 0, tick);
            run.gives(2, 1, tick);
        }
        // Server-id 0 was at 12 before; server-id 1 was behind.
        run.check(
            &[&[id(1, 9), Id::new(id(0, 12).get() + 1).unwrap()], &[id(0, 11 - 5)]],
            &[(ViolationKind::AfterEarlier, 3)],
        );
    }

    #[test]
    fn a_damaged_record_is_named() {
        let mut file = recorded(&[id(0, 1)]);
        // The last byte of the only block's IDs, before its checksum (4 bytes) and the end (20 bytes).
        let at = file.len() - 25;
        file[at] ^= 1;
        let mut run = Run::new(&[None]);
        let options = judge_options(1, false, false);
        let earlier =
            EarlierRun { name: "runs/monday".to_owned(), ids: Box::new(RecordReader::new(&file[..]).unwrap()) };
        let error = judge(&run.servers, &mut run.watches, vec![earlier], &options, |_| Ok(())).unwrap_err();
        assert!(error.to_string().starts_with("runs/monday: the record is damaged"), "{error}");
    }

    /// Measures the cost of an operator's long run: `cargo test --release judges_100_million -- --ignored --nocapture`,
    /// under `/usr/bin/time -v` for the memory.
    #[test]
    #[ignore = "takes 1 GB of memory, and minutes in a debug build"]
    #[expect(clippy::cast_possible_truncation, reason = "the numbers are small")]
    fn judges_100_million() {
        const IDS: u64 = 100_000_000;
        let mut run = Run::new(&[None; 25]);
        let watches = run.watches.len() as u64;
        for i in 0..IDS {
            let server = (i % watches) / 2;
            let parts = Parts {
                tick: Tick(i >> 14),
                server: (server % 4) as u32,
                shard: (i >> 5) as u32 % 512,
                random: (i % 1024) as u32,
            };
            run.watches[(i % watches) as usize].ids.push(Layout::default().compose(parts).get().into());
        }
        let options = judge_options(1024, false, false);
        let mut writer = RecordWriter::new(io::sink(), &Subject::Unnamed(Layout::default())).unwrap();
        let started = std::time::Instant::now();
        let judged = judge(&run.servers, &mut run.watches, Vec::new(), &options, |id| writer.add(id)).unwrap();
        println!("judged in {:?}, {:?}", started.elapsed(), judged.findings.of(ViolationKind::Duplicate).count);
        assert_eq!(judged.servers.iter().flatten().map(|server| server.ids).sum::<u64>(), IDS);
    }
}
