//! The promises about the IDs of one generator, and the fields of an ID that show them.
//!
//! The fields are located once, because a run checks each of millions of IDs.

use std::sync::Arc;

use getid_core::server::{CounterKind, Serial};
use getid_core::{Declaration, Field, Layout, Number, Role};

use crate::subject::Subject;
use getid_text::timestamp;

/// Largest width of an ID that is kept in 8 bytes, bits.
const NARROW_BITS_MAX: u32 = 64;

/// Largest width of a number that distinguishes servers, bits.
const SERVER_BITS_MAX: u32 = 63;

/// Promises about the IDs of one generator, and the positions of the fields that show them.
#[derive(Clone, Debug)]
pub struct Promises {
    subject: Arc<Subject>,
    /// How IDs are divided; `None` for a generator over a sequence.
    declaration: Option<Declaration>,
    time: Option<(FieldPosition, i128, u64)>,
    /// Places of the fields that together distinguish a server's IDs from those of others.
    server: Vec<FieldPosition>,
    evenness: EvennessPromise,
}

/// The promise of evenness over `id % n`, for the lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvennessPromise {
    /// Any 2^bits IDs in a row have each value of these bits once.
    Cycle(u32),
    /// Number of lowest bits that are random in each ID.
    Chance(u32),
    /// There is no promise.
    No,
}

#[derive(Clone, Copy, Debug)]
struct FieldPosition {
    shift: u32,
    bits: u32,
}

impl FieldPosition {
    fn of(self, number: Number) -> u64 {
        // At most 64 bits: times, and parts of the server's number.
        (number >> self.shift).as_u64() & (u64::MAX >> (u64::BITS - self.bits))
    }
}

impl Promises {
    /// Returns the promises about a subject; `None` if no server can be configured to it.
    pub fn of(subject: Subject) -> Option<Promises> {
        if let Subject::Counted(_) = subject {
            let (server, evenness) = (Vec::new(), EvennessPromise::No);
            return Some(Promises { subject: Arc::new(subject), declaration: None, time: None, server, evenness });
        }
        let declaration = subject.declaration()?;
        let layout = declaration.layout();
        let place = |(field, shift): (&Field, u32)| FieldPosition { shift, bits: field.bits };
        let is_servers = |field: &Field| {
            matches!(field.role, Role::Server | Role::Drawn) || declaration.by_hand().contains(&field.name)
        };
        let server: Vec<FieldPosition> = layout.places().filter(|(field, _)| is_servers(field)).map(place).collect();
        let fits = server.iter().map(|place| place.bits).sum::<u32>() <= SERVER_BITS_MAX;
        let time = layout.places().find(|(field, _)| field.role == Role::Time).map(place);
        let evenness = match (&subject, layout.fields().last()) {
            (Subject::Unnamed(layout), _) => EvennessPromise::Cycle(layout.random_bits()),
            (_, Some(field)) if field.role == Role::Random => EvennessPromise::Cycle(field.bits),
            (_, Some(field)) if field.role == Role::Noise => EvennessPromise::Chance(field.bits),
            _ => EvennessPromise::No,
        };
        Some(Promises {
            time: time.map(|place| (place, layout.unix_ns(0), layout.unit().ns())),
            server: if fits { server } else { Vec::new() },
            evenness,
            subject: Arc::new(subject),
            declaration: Some(declaration),
        })
    }

    /// Returns the generator whose IDs are checked.
    pub fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }

    /// Returns the generator's name for requests; `None` for the unnamed one.
    pub fn generator(&self) -> Option<&str> {
        self.subject.name()
    }

    /// Whether the generator answers with sealed texts, which show no promise.
    pub fn answers_sealed(&self) -> bool {
        let seal = match &*self.subject {
            Subject::Unnamed(_) => None,
            Subject::Declared(declaration) => declaration.seal(),
            Subject::Counted(counter) => counter.seal(),
        };
        seal.is_some_and(|seal| seal.answers_sealed)
    }

    /// Returns the names of the fields that come with each request.
    pub fn request_fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.declaration.iter().flat_map(|declaration| declaration.layout().fields());
        fields.filter(|field| field.role == Role::Request).map(|field| field.name.as_str())
    }

    /// Whether a server's IDs ascend: those of a clock by their time, counted ones by period and value.
    pub fn ordered(&self) -> bool {
        self.declaration.as_ref().is_none_or(|declaration| declaration.is_ordered() && self.time.is_some())
    }

    /// Whether each server reserves numbers ahead, so that they ascend only for each server alone. Serial numbers with
    /// `cache 0` are stored before they are given.
    pub fn reserves_ahead(&self) -> bool {
        let Subject::Counted(counter) = &*self.subject else { return false };
        !matches!(counter.kind(), CounterKind::Serial(Serial { cache: 0, .. }))
    }

    /// Whether IDs hold a time.
    pub fn has_time(&self) -> bool {
        self.time.is_some()
    }

    /// Whether IDs show the server that gave them.
    pub fn names_server(&self) -> bool {
        // A single server with the unnamed generator has server-id 0 in no bits.
        !self.server.is_empty() || matches!(*self.subject, Subject::Unnamed(_))
    }

    /// Returns the term for the number that distinguishes servers.
    pub(crate) fn server_word(&self) -> &'static str {
        let is_drawn = self
            .declaration
            .as_ref()
            .is_some_and(|declaration| declaration.server_bits() == 0 && declaration.drawn_fields().next().is_some());
        if is_drawn { "drawn number" } else { "server-id" }
    }

    /// Returns the promise of evenness for the lowest bits.
    pub fn evenness(&self) -> EvennessPromise {
        self.evenness
    }

    /// Whether an ID is kept in 8 bytes, else in 16.
    pub(crate) fn is_narrow(&self) -> bool {
        match (&self.declaration, &*self.subject) {
            (Some(declaration), _) => declaration.layout().bits() <= NARROW_BITS_MAX,
            // A value is below 2^63; with the time that a serial number shows it is wider.
            (None, Subject::Counted(counter)) => matches!(counter.kind(), CounterKind::Sequence(_)),
            (None, _) => false,
        }
    }

    /// Returns the server-id of an ID, or the number that distinguishes servers instead; `None` without any.
    pub fn server_of(&self, number: Number) -> Option<u64> {
        let together = |server: u64, place: &FieldPosition| server << place.bits | place.of(number);
        self.names_server().then(|| self.server.iter().fold(0, together))
    }

    /// Returns the first and the last ms of an ID's unit, Unix ms.
    pub fn unix_ms_of(&self, number: Number) -> Option<(i64, i64)> {
        let (place, epoch_unix_ns, unit_ns) = self.time?;
        let first = epoch_unix_ns + i128::from(place.of(number)) * i128::from(unit_ns);
        let ms = |unix_ns: i128| i64::try_from(unix_ns.div_euclid(1_000_000)).unwrap_or(i64::MAX);
        Some((ms(first), ms(first + i128::from(unit_ns) - 1)))
    }

    /// Returns an ID as it is written.
    pub fn text(&self, number: Number) -> String {
        self.subject.text(number)
    }
}

/// Describes a layout: `2/9/10 from 2014-12-31T16:00:00.000Z`, or a declaration.
pub fn layout_text(subject: &Subject) -> String {
    match subject {
        Subject::Unnamed(layout) => unnamed_text(*layout),
        Subject::Declared(declaration) => declaration.to_text(),
        Subject::Counted(counter) => counter.words().join(" "),
    }
}

fn unnamed_text(layout: Layout) -> String {
    let epoch = timestamp::format_rfc3339(layout.first_unix_ms());
    format!("{}/{}/{} from {epoch}", layout.server_bits(), layout.shard_bits(), layout.random_bits())
}

#[cfg(test)]
mod tests {
    use getid_core::no_dates;

    use super::*;

    fn promises(words: &str) -> Promises {
        Promises::of(Subject::parse(words, no_dates, |_| Ok(())).unwrap()).unwrap()
    }

    #[test]
    fn an_id_has_all_the_time_of_its_unit() {
        for (words, number, expected) in [
            ("twitter", 1_541_815_603_606_036_480, Some((1_656_432_460_105, 1_656_432_460_105))),
            ("sonyflake", 587_991_760_442_015_912, Some((1_760_000_000_120, 1_760_000_000_129))),
            ("objectid", 5 << 64, Some((5000, 5999))),
            ("uuid1", 0, Some((-12_219_292_800_000, -12_219_292_800_000))),
            ("uuid4", 0, None),
        ] {
            assert_eq!(promises(words).unix_ms_of(Number::new(number)), expected, "{words}");
        }
    }

    #[test]
    fn counted_ids_promise_order_alone() {
        let day = "generator order serial ORD{yyyyMMdd}-{n:3} zone UTC";
        for (words, is_narrow, ids) in [
            ("sequence", true, ["41", "42"]),
            ("sequence format base62 pad 3", true, ["00z", "010"]),
            (day, false, ["ORD20261125-999", "ORD20261126-001"]),
        ] {
            let promises = promises(words);
            assert!(promises.ordered() && !promises.has_time() && !promises.names_server(), "{words}");
            assert_eq!((promises.is_narrow(), promises.evenness()), (is_narrow, EvennessPromise::No), "{words}");
            let numbers = ids.map(|id| promises.subject().read(id).unwrap());
            assert!(numbers[0] < numbers[1], "{words}: {numbers:?}");
            assert_eq!(u64::try_from(numbers[1]).is_ok(), is_narrow, "{words}: {numbers:?}");
            assert_eq!(numbers.map(|number| promises.text(number)), ids, "{words}");
        }
        let exact = promises("serial ORD{n:3} cache 0 reset never");
        assert_eq!([&promises(day), &exact, &promises("uuid7")].map(Promises::reserves_ahead), [true, false, false]);
        assert_eq!((promises(day).generator(), promises(day).subject().read("ORD20261325-001")), (Some("order"), None));
    }

    #[test]
    fn several_fields_identify_a_server() {
        let id = Number::new(1_541_815_603_606_036_480);
        assert_eq!(promises("twitter").server_of(id), Some(11 * 32 + 26));
        // One field is fixed by hand, and still counts.
        assert_eq!(promises("twitter datacenter 11").server_of(id), Some(11 * 32 + 26));
        assert_eq!(promises("uuid7").server_of(id), None);
        assert_eq!(Promises::of(Subject::Unnamed(Layout::default())).unwrap().server_of(Number::new(1 << 19)), Some(1));
    }
}
