//! The explanation of a layout by `getid layout`: its bits, its capacity, its end, and its limits.

use std::fmt;

use getid_core::{
    CounterStart, Declaration, Field, FieldLayout, Notation, Number, QuietEvenness, Role, Shape, evenness,
};
use serde::Serialize;

use super::picture::picture;
use getid_text::plural::{counted, thousands};
use getid_text::timestamp::format_rfc3339_ns;

/// The `n` of `id % n` for which evenness is shown by default.
const MODULI: [u64; 6] = [2, 10, 16, 100, 256, 1024];

/// The rates of one server for which evenness is shown by default, IDs a second.
const RATES: [u64; 3] = [10, 1_000, 100_000];

const DAY_MS: i64 = 24 * 3600 * 1000;

/// Time before the end from which on it is listed as a limit, days.
const DAYS_LEFT_MIN: i64 = 730;

/// The whole explanation; the JSON has these names.
#[derive(Serialize)]
pub struct Explanation {
    /// Name of the generator or the kind; `None` for the unnamed generator.
    name: Option<String>,
    kind: &'static str,
    #[serde(skip)]
    about: String,
    bits: u32,
    #[serde(skip)]
    picture: String,
    fields: Vec<FieldLine>,
    /// IDs a second on each server, without borrowing.
    capacity_per_s: Option<u64>,
    servers: String,
    /// The time of tick 0.
    epoch: Option<String>,
    /// The last time that an ID can carry.
    last_time: Option<String>,
    days_left: Option<i64>,
    ordered: bool,
    written: String,
    evenness: Vec<EvennessLine>,
    /// The option that makes more of `id % n` even.
    proposal: Option<OptionProposal>,
    limits: Vec<String>,
    /// The declaration, as a line of a configuration.
    declaration: Option<String>,
}

#[derive(Serialize)]
struct FieldLine {
    name: String,
    bits: u32,
    lowest_bit: u32,
    /// The largest value, as a string, because it may have 128 bits.
    max: String,
    meaning: String,
}

/// An option of the declaration, and its effect.
#[derive(Serialize)]
struct OptionProposal {
    option: String,
    effect: String,
}

#[derive(Serialize)]
struct EvennessLine {
    modulus: u64,
    ids_per_s: u64,
    even: bool,
    remainders_reached: u64,
    fullest: f64,
    emptiest: f64,
    #[serde(skip)]
    sentence: String,
}

/// The moduli and rates for which evenness is shown: the given one of each, or the default ones.
#[derive(Clone, Copy, Default)]
pub struct EvennessScope {
    /// Modulus of `id % modulus`; `None` for the default ones.
    pub modulus: Option<u64>,
    /// Rate of one server, IDs per second; `None` for the default ones.
    pub ids_per_s: Option<u64>,
}

impl Explanation {
    /// Explains a declaration. With `unnamed` it is that of the unnamed generator.
    pub fn new(declaration: &Declaration, unnamed: bool, scope: EvennessScope, now_unix_ms: i64) -> Explanation {
        let layout = declaration.layout();
        let has_time = layout.has_time();
        let time = |tick| has_time.then(|| time_text(layout, tick));
        let evenness = evenness_lines(declaration, scope);
        let days_left = has_time.then(|| layout.end_unix_ms().saturating_sub(now_unix_ms).div_euclid(DAY_MS));
        Explanation {
            name: (!unnamed).then(|| declaration.name().to_owned()),
            kind: declaration.kind().word,
            about: about(declaration, unnamed),
            bits: layout.bits(),
            picture: picture(layout),
            fields: fields(declaration),
            capacity_per_s: layout.capacity_per_s(),
            servers: servers(declaration),
            epoch: time(0),
            last_time: time(layout.last_tick()),
            days_left,
            ordered: declaration.has_ordered_texts() && has_time,
            written: written(declaration),
            proposal: proposal(declaration, scope, &evenness),
            evenness,
            limits: limits(declaration, now_unix_ms),
            declaration: (!unnamed).then(|| declared_by(declaration)),
        }
    }
}

fn time_text(layout: &FieldLayout, tick: u64) -> String {
    let text = format_rfc3339_ns(layout.unix_ns(tick), layout.unit().ns());
    if text.contains('T') { text } else { "past the year 9999".to_owned() }
}

fn about(declaration: &Declaration, unnamed: bool) -> String {
    let kind = declaration.kind();
    if unnamed {
        "the unnamed generator".to_owned()
    } else if declaration.name() == kind.word {
        format!("{}: {}", kind.word, kind.doc)
    } else {
        format!("{}: {}, {}", declaration.name(), kind.word, kind.doc)
    }
}

/// Returns the declaration as a line of a configuration. The name is a placeholder if no generator of a configuration
/// is meant.
fn declared_by(declaration: &Declaration) -> String {
    let text = declaration.declared_text();
    match text.strip_prefix(declaration.name()) {
        Some(rest) if declaration.name() == declaration.kind().word => format!("generator NAME{rest}"),
        _ => format!("generator {text}"),
    }
}

fn fields(declaration: &Declaration) -> Vec<FieldLine> {
    let line = |(field, lowest_bit): (&Field, u32)| FieldLine {
        name: field.name.clone(),
        bits: field.bits,
        lowest_bit,
        max: (u128::MAX >> (u128::BITS - field.bits)).to_string(),
        meaning: meaning(declaration, field),
    };
    declaration.layout().places().map(line).collect()
}

fn meaning(declaration: &Declaration, field: &Field) -> String {
    let layout = declaration.layout();
    let unit = layout.unit();
    match field.role {
        Role::Time => format!("{unit} since {}", time_text(layout, 0)),
        Role::Counter => match declaration.counter_start() {
            0 => format!("IDs of the same {unit}, from 0 on"),
            last => format!("IDs of the same {unit}, from a random value of 0 to {last} on"),
        },
        Role::Random => format!("each value once in any {} IDs in a row", thousands(1 << field.bits)),
        Role::Noise => "fresh random bits in each ID".to_owned(),
        Role::Constant(value) if declaration.by_hand().contains(&field.name) => {
            format!("{value}, given by hand: servers must differ")
        }
        Role::Constant(value) => format!("the constant {value}"),
        Role::Server => {
            let mut others = layout.fields().iter().filter(|other| other.role == Role::Server);
            let is_first = others.next() == Some(field);
            match (is_first, others.next()) {
                (true, None) => "the server-id".to_owned(),
                (true, Some(_)) => "the upper bits of the server-id".to_owned(),
                (false, _) => "lower bits of the server-id".to_owned(),
            }
        }
        Role::Drawn => "drawn once at random, kept in the record".to_owned(),
        Role::Request => format!("comes with each request, as in GETID {} {} 1", declaration.name(), field.name),
    }
}

fn servers(declaration: &Declaration) -> String {
    if let Some(server_id) = declaration.one_server() {
        return format!("1, the one with server-id {server_id}");
    }
    let bits = declaration.server_bits();
    if bits > 0 {
        let servers = 1_u64.checked_shl(bits).map_or_else(|| format!("2^{bits}"), thousands);
        return format!("{servers} ({})", counted(bits.into(), "bit"));
    }
    if declaration.is_same_on_servers(1) {
        "1: no field of an ID distinguishes servers".to_owned()
    } else {
        "any number: they differ by chance, in their random bits".to_owned()
    }
}

fn written(declaration: &Declaration) -> String {
    let bytes = declaration.id_bytes_max();
    if let Some(format) = declaration.format() {
        let up_to = if format.is_ordered() { "" } else { "up to " };
        return format!("text of {up_to}{bytes} characters ({format})");
    }
    match declaration.kind().shape {
        Shape::Number if declaration.is_integer() => format!("an integer of up to {bytes} digits"),
        Shape::Number => format!("decimal text of up to {bytes} digits"),
        Shape::Uuid(_) => format!("{}; version and variant lie between the fields", declaration.description()),
        Shape::Hibernate => "a UUID of version 1, as Hibernate writes it; its time lies in the lower half".to_owned(),
        _ => declaration.description(),
    }
}

fn evenness_lines(declaration: &Declaration, scope: EvennessScope) -> Vec<EvennessLine> {
    // Tables place texts by a hash, which is even.
    if declaration.kind().shape != Shape::Number {
        return Vec::new();
    }
    let moduli = scope.modulus.map_or_else(|| MODULI.to_vec(), |modulus| vec![modulus]);
    let rates = scope.ids_per_s.map_or_else(|| RATES.to_vec(), |rate| vec![rate]);
    let line = |modulus: u64, ids_per_s: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a rate is far below 2^53")]
        let evenness = evenness(declaration.layout(), declaration.counter_start(), ids_per_s as f64, modulus);
        EvennessLine {
            modulus,
            ids_per_s,
            even: evenness.is_even(),
            remainders_reached: evenness.reached,
            fullest: evenness.fullest,
            emptiest: evenness.emptiest,
            sentence: evenness.to_string(),
        }
    };
    moduli.iter().flat_map(|&modulus| rates.iter().map(move |&rate| (modulus, rate))).map(|(m, r)| line(m, r)).collect()
}

/// Returns the `counter-start` that makes `id % n` even where `lines` are not: the lowest bits are a counter, which is
/// at its start in most IDs of a quiet generator.
fn proposal(declaration: &Declaration, scope: EvennessScope, lines: &[EvennessLine]) -> Option<OptionProposal> {
    if lines.iter().all(|line| line.even) {
        return None;
    }
    let quiet = QuietEvenness::of(declaration.layout(), declaration.counter_start(), scope.modulus);
    let CounterStart { last, even_to } = quiet.remedy?;
    let effect = match scope.modulus {
        Some(modulus) if even_to == quiet.tables => format!("id % {modulus} is even at every rate"),
        _ => format!("id % n is even at every rate, for n up to {}", thousands(even_to)),
    };
    Some(OptionProposal { option: format!("counter-start 0..{last}"), effect })
}

/// A limit of short codes.
pub(crate) const CODES_ARE_NO_SECRET: &str =
    "short codes are no secret: a program that has the alphabet reads the number";

/// Returns the limits of this layout that a user should know.
fn limits(declaration: &Declaration, now_unix_ms: i64) -> Vec<String> {
    let mut limits = Vec::new();
    limits_of_time(declaration, now_unix_ms, &mut limits);
    let layout = declaration.layout();
    let is_number = declaration.kind().shape == Shape::Number;
    let bits = layout.bits();
    if declaration.is_integer() && bits > 53 {
        limits.push("JavaScript's numbers hold 53 bits: give browsers these IDs as strings".to_owned());
    } else if is_number && bits > 63 && declaration.format().is_none() {
        limits.push(format!("{bits} bits: an ID is text for clients, and a signed 64-bit column may not hold it"));
    }
    if declaration.is_same_on_servers(1) && declaration.one_server().is_none() {
        limits.push(
            "several servers would give the same IDs: declare 'one-server N', or add a field server-id".to_owned(),
        );
    }
    if !declaration.has_ordered_texts() {
        limits.push("IDs do not sort in the order in which they are given".to_owned());
    }
    let counter_at = layout.shift_of(Role::Counter).unwrap_or(0);
    for (field, _) in layout.places().filter(|&(field, shift)| field.role == Role::Request && shift > counter_at) {
        limits.push(format!(
            "IDs ascend for each value of '{0}' by itself; over several values of '{0}', only from one {1} to the next",
            field.name,
            layout.unit()
        ));
    }
    if layout.bits_of(Role::Noise) == 0 {
        limits.push("who has seen some IDs can guess others: none of the bits is secret".to_owned());
    }
    let has = |is_in: fn(&u8) -> bool| declaration.characters().is_some_and(|characters| characters.iter().any(is_in));
    if has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) {
        limits.push(
            "a column of these texts needs a collation that distinguishes capitals from small letters".to_owned(),
        );
    }
    if declaration.format().is_some_and(|format| matches!(format.notation, Notation::Sqids(_))) {
        limits.push(CODES_ARE_NO_SECRET.to_owned());
    }
    limits.extend(declaration.format().and_then(|format| limit_of_pad(declaration, format)));
    limits
}

/// Returns the number of IDs of which two are equal with a chance of one half, with two digits: `1.18 * sqrt(n)`, the
/// birthday bound, where the numbers of IDs are 0 to `noise_max`, all equally likely.
fn ids_of_an_even_chance(noise_max: u128) -> String {
    const BILLION: f64 = 1e9;
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let ids = 1.177_4 * (noise_max as f64 + 1.0).sqrt();
    match ids / BILLION {
        billions if billions < 9.95 => format!("{billions:.1} billion"),
        billions if billions < 1000.0 => format!("{billions:.0} billion"),
        _ => format!("{ids:.1e}").replace('e', " * 10^"),
    }
}

fn limits_of_time(declaration: &Declaration, now_unix_ms: i64, limits: &mut Vec<String>) {
    let layout = declaration.layout();
    if !layout.has_time() {
        limits.push("an ID holds no time".to_owned());
        let ids = ids_of_an_even_chance(declaration.noise_max());
        return limits
            .push(format!("IDs are unique by chance alone: of {ids} IDs, two are equal with a chance of one half"));
    }
    let end_unix_ms = layout.end_unix_ms();
    if end_unix_ms <= now_unix_ms {
        limits.push("its time is over: no ID can be given; it needs a later epoch or a wider time".to_owned());
    } else if (end_unix_ms - now_unix_ms) / DAY_MS < DAYS_LEFT_MIN {
        limits.push("its time ends within two years; then no more IDs are given".to_owned());
    } else if layout.epoch_unix_ms() > now_unix_ms {
        limits.push("its time has not begun: no ID can be given before its epoch".to_owned());
    }
    let unit = layout.unit();
    if unit.ns() > 1_000_000 {
        limits.push(format!(
            "the time of an ID is precise to {unit}; after a crash at full speed a start may wait as long"
        ));
    }
    if layout.counter_bits() == 0 {
        limits.push(format!("each ID takes {unit} for itself: bursts borrow from the time ahead"));
    }
}

/// Returns the limit from which on numbers have more digits than the format pads to.
fn limit_of_pad(declaration: &Declaration, format: &getid_core::Format) -> Option<String> {
    let layout = declaration.layout();
    let Notation::Radix(radix) = &format.notation else { return None };
    let (pad, digits) = (format.pad, radix.digits_of(layout.bits()));
    if pad >= digits {
        return None;
    }
    let base = Number::from(radix.alphabet().len() as u64);
    let first_longer = base.checked_pow(pad)?;
    let tick = u64::try_from(first_longer >> layout.shift_of(Role::Time)?).ok()?;
    let from = time_text(layout, tick);
    let what = if format.grows { "their texts no longer sort" } else { "they are refused" };
    Some(format!("from {from} on, numbers have more than {}, and {what}", counted(pad.into(), "digit")))
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { about, bits, picture, servers, written, .. } = self;
        writeln!(f, "{about}\n\n{picture}")?;
        self.write_fields(f)?;
        writeln!(f, "\nwidth      {}", counted((*bits).into(), "bit"))?;
        match self.capacity_per_s {
            Some(capacity) => writeln!(f, "capacity   {} a second on each server", counted(capacity, "ID"))?,
            None => writeln!(f, "capacity   as many as the processor makes")?,
        }
        writeln!(f, "servers    {servers}")?;
        if let (Some(epoch), Some(last), Some(days)) = (&self.epoch, &self.last_time, self.days_left) {
            let left = match u64::try_from(days) {
                Ok(days) => format!("{} left", counted(days, "day")),
                Err(_) => "over".to_owned(),
            };
            writeln!(f, "time       from {epoch} to {last}, {left}")?;
        } else {
            writeln!(f, "time       none")?;
        }
        let order = if self.ordered { "each server's IDs ascend" } else { "none" };
        writeln!(f, "order      {order}")?;
        writeln!(f, "written    {written}")?;
        self.write_evenness(f)?;
        if let Some(OptionProposal { option, effect }) = &self.proposal {
            writeln!(f, "\nproposal   {option}: {effect}")?;
        }
        if !self.limits.is_empty() {
            writeln!(f, "\nlimits")?;
            self.limits.iter().try_for_each(|limit| writeln!(f, "  {limit}"))?;
        }
        match &self.declaration {
            Some(declaration) => writeln!(f, "\ndeclared by\n  {declaration}"),
            None => Ok(()),
        }
    }
}

impl Explanation {
    fn write_fields(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.fields.iter().map(|field| field.name.len()).max().unwrap_or(0).max("field".len());
        let max = self.fields.iter().map(|field| field.max.len()).max().unwrap_or(0);
        writeln!(f, "{:<name$}  bits  from bit  {:<values$}  content", "field", "values", values = max + 5)?;
        self.fields.iter().try_for_each(|field| {
            let FieldLine { name: field, bits, lowest_bit, max: most, meaning } = field;
            writeln!(f, "{field:<name$}  {bits:>4}  {lowest_bit:>8}  0 to {most:>max$}  {meaning}")
        })
    }

    /// Writes a line for each modulus, with a column for each rate; for one of each, a sentence.
    fn write_evenness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.evenness.first() else { return Ok(()) };
        if let [EvennessLine { modulus, ids_per_s, sentence, .. }] = self.evenness.as_slice() {
            return writeln!(f, "\nid % {modulus} at {} a second: {sentence}", counted(*ids_per_s, "ID"));
        }
        let rates = self.evenness.iter().take_while(|line| line.modulus == first.modulus).count();
        write!(f, "\nid % n     ")?;
        for line in self.evenness.iter().take(rates) {
            write!(f, "  {:>16}", format!("{} IDs/s", thousands(line.ids_per_s)))?;
        }
        writeln!(f, "    (1.00 is an even share)")?;
        self.evenness.chunks(rates).try_for_each(|lines| {
            write!(f, "{:<11}", lines[0].modulus)?;
            lines.iter().try_for_each(|line| write!(f, "  {:>16}", line.short()))?;
            writeln!(f)
        })
    }
}

impl EvennessLine {
    fn short(&self) -> String {
        if self.even { "even".to_owned() } else { format!("{:.2} to {:.2}", self.emptiest, self.fullest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use getid_core::no_dates;

    /// The numbers are those of the table in docs/generators.md.
    #[test]
    fn the_chance_of_a_repeat_has_its_number_of_ids() {
        assert_eq!(ids_of_an_even_chance((1 << 60) - 1), "1.3 billion");
        for (words, ids) in [
            ("t trace64", "3.6 billion"),
            ("t nanoid alphabet base58 length 12", "45 billion"),
            ("t uuid4", "2.7 * 10^18"),
            ("t nanoid", "1.1 * 10^19"),
        ] {
            let declaration = Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).expect("valid");
            assert_eq!(ids_of_an_even_chance(declaration.noise_max()), ids, "{words}");
        }
    }
}
