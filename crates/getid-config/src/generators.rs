//! The directive `generator`: declarations of named generators, and their checks against other directives.
//!
//! [`getid_core::Declaration`] defines the syntax of a declaration. This module has the bound on their number, and the
//! checks that involve several directives.

use std::sync::Arc;

use getid_core::server::{CounterDeclaration, CounterKind, Reset, Serial};
use getid_core::{Declaration, EpochError, Role};

use super::enums::{SequenceTable, StateKind};
use super::row::Line;
use super::value_error::ValueError;
use super::values::{Config, ConfigValues};
use getid_text::plural::counted;
use getid_text::timestamp::parse_zoned;
use getid_text::zone::Zone;

/// Largest number of named generators of one server. Each takes some KB, and a line of the record.
pub const GENERATORS_MAX: usize = 1000;

/// Largest number of values in the random cycles of all generators: 64 MiB at 4 bytes each, as eight with `random:21`
/// have.
pub(super) const RANDOM_VALUES_MAX: u64 = 1 << 24;

/// Parses a line, the name first, and adds the generator.
pub(super) fn add(values: &mut ConfigValues, words: &[String]) -> Result<(), Vec<ValueError>> {
    let config = &mut values.config;
    // `CONFIG GET` shows an empty line for no generator.
    if words == [""] {
        return Ok(());
    }
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    // One too many is enough for the error.
    let has_room = config.generators.len() + config.counters.len() <= GENERATORS_MAX;
    if let Some(counter) = CounterDeclaration::parse(&words, Zone::check) {
        let wrong = |errors: Vec<_>| errors.into_iter().map(ValueError::Counter).collect::<Vec<_>>();
        let counter = counter.map_err(wrong)?;
        if has_room {
            config.counters.push(Arc::new(counter));
        }
        return Ok(());
    }
    let wrong = |errors: Vec<_>| errors.into_iter().map(ValueError::Declaration).collect::<Vec<_>>();
    let declaration = Declaration::parse(&words, epoch).map_err(wrong)?;
    if has_room {
        config.generators.push(Arc::new(declaration));
    }
    Ok(())
}

/// Returns the lines that declare all generators.
pub(super) fn lines(values: &ConfigValues) -> Vec<Line> {
    let config = &values.config;
    let generators = config.generators.iter().map(|declaration| words(declaration));
    generators.chain(config.counters.iter().map(|counter| counter.words())).collect()
}

/// Returns the name of a generator above the limit.
pub(super) fn first_excess_generator(config: &Config) -> Option<&str> {
    config.generator_names().nth(GENERATORS_MAX)
}

/// Parses the epoch of a generator. A date needs a zone, because the same IDs must mean the same everywhere.
///
/// # Errors
///
/// Fails without a date and a zone.
pub fn epoch(text: &str) -> Result<i64, EpochError> {
    parse_zoned(text).map_err(|_| EpochError::NoTime)
}

/// Returns a declaration as the words of a line, its name first.
pub(super) fn words(declaration: &Declaration) -> Line {
    declaration.declared_text().split(' ').map(str::to_owned).collect()
}

/// Returns the canonical form of a line, which all lines of the same meaning share.
pub(super) fn canonical(line: &[String]) -> Line {
    let borrowed: Vec<_> = line.iter().map(String::as_str).collect();
    if let Some(Ok(counter)) = CounterDeclaration::parse(&borrowed, Zone::check) {
        return counter.words();
    }
    // No server starts with an invalid line.
    Declaration::parse(&borrowed, epoch).map_or_else(|_| line.to_vec(), |declaration| words(&declaration))
}

/// Returns the first generator whose random cycle exceeds the memory for all cycles.
pub(super) fn first_excess_cycle(generators: &[Arc<Declaration>]) -> Option<&Declaration> {
    let mut values = 0;
    generators.iter().map(Arc::as_ref).find(|declaration| {
        let bits = declaration.layout().bits_of(Role::Random);
        values += if bits > 0 { 1_u64 << bits } else { 0 };
        values > RANDOM_VALUES_MAX
    })
}

/// A declaration that is valid alone, but conflicts with another directive.
pub(super) struct GeneratorConflict {
    /// Name of the generator.
    pub(super) name: String,
    /// The other directive.
    pub(super) directive: &'static str,
    /// Error text with both names.
    pub(super) sentence: String,
    pub(super) help: String,
}

/// Returns all conflicts of declarations with other directives.
pub(super) fn generator_conflicts(config: &Config, id_range: u32) -> Vec<GeneratorConflict> {
    let mut found = Vec::new();
    for declaration in &config.generators {
        let name = declaration.name();
        let mut conflict = |directive, sentence: String, help: String| {
            let sentence = format!("generator {name} {sentence}");
            found.push(GeneratorConflict { name: name.to_owned(), directive, sentence, help });
        };
        let has_time = declaration.layout().has_time();
        let unit = declaration.layout().unit();
        let borrow_ms = config.id_max_borrow_ms;
        if has_time && u128::from(unit.ns()) * 2 > u128::from(borrow_ms) * 1_000_000 {
            let wanted_ms = (unit.ns() * 2).div_ceil(1_000_000);
            conflict(
                "id-max-borrow-ms",
                format!("has the unit {unit}, must be at most half of id-max-borrow-ms, which is {borrow_ms}"),
                format!("choose a shorter unit, or set id-max-borrow-ms to {wanted_ms} or more"),
            );
        }
        if has_time && config.id_state == StateKind::None {
            conflict(
                "id-state",
                "has a time, but id-state is none: without a record its earlier declaration is unknown".to_owned(),
                "set id-state file, or choose a kind without a time, such as uuid4".to_owned(),
            );
        }
        let server_bits = declaration.layout().bits_of(Role::Server);
        match declaration.one_server() {
            None if declaration.is_same_on_servers(id_range) => conflict(
                "id-range",
                format!(
                    "has {} for the server-id, must have at least {}: several servers would give the same IDs",
                    bits(declaration.server_bits()),
                    id_range.max(1)
                ),
                server_help(declaration, id_range.max(1), config.server_id),
            ),
            Some(server_id) if u64::from(server_id) >> id_range != 0 => conflict(
                "id-range",
                format!("has one-server {server_id}, must be 0 to {}: id-range is {id_range}", last(id_range)),
                "set the server-id of an existing server".to_owned(),
            ),
            Some(server_id) if server_bits > 0 && u64::from(server_id).checked_shr(server_bits).unwrap_or(0) != 0 => {
                conflict(
                    "id-range",
                    format!(
                        "has one-server {server_id}, must be 0 to {}: its field has {}",
                        last(server_bits),
                        bits(server_bits)
                    ),
                    "widen the field of the server-id, or name another server".to_owned(),
                );
            }
            _ => {}
        }
    }
    found
}

/// Returns the conflicts of gapless generators with the stores: their ledger needs one store with getid's own tables.
pub(super) fn gapless_conflicts(config: &Config) -> Vec<GeneratorConflict> {
    let (stores, table) = (config.sequence_stores().len(), config.sequences.table);
    let (directive, sentence, help) = match stores {
        0 => (
            "sequence-store",
            "is gapless, but there is no store of sequences for its ledger".to_owned(),
            "set sequence-store sqlite:PATH, or the address of a database",
        ),
        2.. => (
            "sequence-store",
            format!("is gapless, which needs a single store, and there are {stores}: a number is in one ledger"),
            "keep one line of sequence-store, or give the numbers on a server with one store",
        ),
        1 if table != SequenceTable::Native => (
            "sequence-table",
            format!("is gapless, but sequence-table is {}, whose tables have no ledger", table.word()),
            "set sequence-table native, or give the numbers on a server with getid's own tables",
        ),
        1 => return Vec::new(),
    };
    let gapless = config.counters.iter().filter(|counter| counter.gapless().is_some());
    let conflict = |counter: &Arc<CounterDeclaration>| GeneratorConflict {
        name: counter.name().to_owned(),
        directive,
        sentence: format!("generator {} {sentence}", counter.name()),
        help: help.to_owned(),
    };
    gapless.map(conflict).collect()
}

/// Returns the effect of a wider id-range on the named generators, as the end of a sentence that advises it; `None`
/// without any.
///
/// A named layout has its own widths, but must hold each server-id that id-range permits.
pub(super) fn effect_of_id_range(generators: &[Arc<Declaration>], id_range: u32) -> Option<String> {
    let needs_width = |declaration: &&Arc<Declaration>| {
        declaration.one_server().is_none() && declaration.is_same_on_servers(id_range)
    };
    match generators.iter().find(needs_width) {
        Some(narrow) => Some(format!(
            "; generator {} then needs {} for the server-id, and has {}",
            narrow.name(),
            bits(id_range),
            narrow.server_bits()
        )),
        None if generators.is_empty() => None,
        None => Some(": named generators keep their layouts, and only the unnamed one's IDs change".to_owned()),
    }
}

fn last(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |count| count - 1)
}

fn bits(bits: u32) -> String {
    counted(bits.into(), "bit")
}

fn server_help(declaration: &Declaration, bits: u32, server_id: u32) -> String {
    let is_servers = |role| role == Role::Server;
    let fields = declaration.layout().fields();
    let field = fields.iter().find(|field| is_servers(field.role)).map(|field| field.name.as_str());
    let alone = format!("add 'one-server {server_id}' if only this server gives its IDs");
    match field {
        Some(name) => format!("make it wider, such as {name}:{bits}, or {alone}"),
        None if declaration.kind().fields.is_empty() => format!("add the field server-id:{bits}, or {alone}"),
        None => format!("its kind has no field for it: {alone}"),
    }
}

/// Returns a warning about a serial that may not be intended.
pub(super) fn counter_warning(counter: &CounterDeclaration) -> Option<String> {
    let CounterKind::Serial(serial) = counter.kind() else { return None };
    if let Some(shown) = serial.template.shown_without_year() {
        let ends = if serial.grows { String::new() } else { format!(", and it ends at {}", serial.spec().max) };
        return Some(format!(
            "shows a {} without its year, so its counter never restarts (reset never){ends}: did you mean {}?",
            shown.word(),
            shown.shown()
        ));
    }
    let repeats = serial.template.has_short_years() && serial.reset > Reset::Never;
    repeats.then(|| "shows years by two digits: its texts repeat after a hundred years".to_owned())
}

/// Returns a warning about the key of a serial that may not be intended.
pub(super) fn key_warning(counter: &CounterDeclaration) -> Option<String> {
    let CounterKind::Serial(serial) = counter.kind() else { return None };
    serial.template.begins_with_key().then(|| {
        "begins with its key, which may be digits: a program that reads its texts as integers reads the key alone"
            .to_owned()
    })
}

/// Most pairs of generators that [`meeting_warnings`] compares.
const PAIRS_MAX: usize = 10_000;

/// Returns a warning for each serial with keys, or without gaps, whose texts could also be those of another serial, by
/// their names.
pub(super) fn meeting_warnings(counters: &[Arc<CounterDeclaration>]) -> Vec<(&str, String)> {
    let serials = counters.iter().filter_map(|counter| match counter.kind() {
        CounterKind::Serial(serial) => Some((counter.name(), serial)),
        CounterKind::Sequence(_) => None,
    });
    let serials: Vec<_> = serials.collect();
    let mut left = PAIRS_MAX;
    let mut found = Vec::new();
    let is_checked = |serial: &Serial| serial.template.has_key() || serial.gapless.is_some();
    for (at, (name, serial)) in serials.iter().enumerate().filter(|(_, (_, serial))| is_checked(serial)) {
        // A pair of checked serials is reported once.
        let others = serials
            .iter()
            .enumerate()
            .filter(|(other, (_, serial))| *other < at || (*other > at && !is_checked(serial)));
        let mut others = others.take(left).map(|(_, other)| {
            left -= 1;
            other
        });
        let met = others.find(|(_, other)| serial.template.can_meet(&other.template, [serial.grows, other.grows]));
        if let Some((other, _)) = met {
            let sentence =
                format!("can give texts that generator {other} gives too: begin one of them with other letters");
            found.push((*name, sentence));
        }
    }
    found
}

/// Returns a warning about a declaration that may not be intended.
pub(super) fn declaration_warning(declaration: &Declaration) -> Option<String> {
    let drawn = declaration.drawn_fields().map(|(name, _)| name).filter(|name| declaration.drawn_value(name).is_some());
    let given: Vec<_> = declaration.by_hand().iter().map(String::as_str).chain(drawn).collect();
    let is_shared = declaration.one_server().is_none() && !given.is_empty();
    is_shared.then(|| {
        let (are, s) = if given.len() == 1 { ("is", "") } else { ("are", "s") };
        format!("{} {are} set by hand: servers with the same value{s} give the same IDs", given.join(" and "))
    })
}
