//! Layouts as data: the fields of an ID, from the most significant down.
//!
//! The unnamed generator has one layout, [`Layout`](crate::Layout). Named generators have any: other widths, other
//! units of time, worker fields, fields that come with the request. The constructor of [`FieldLayout`] checks it, so no
//! later code does.
//!
//! Invariants:
//!
//! - at most one time, one counter, one random and one noise field; no name twice
//! - nothing above the time but constants of 0
//! - random and noise lie below time and counter
//! - time and counter have at most 64 bits together, all fields at most 160

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use crate::layout::{LOW_BITS, Layout};
use crate::number::{Number, low_bits, low_bits_64, low_ones};
use crate::time::{NS_PER_MS, TICK_BITS};
use crate::unit::Unit;

/// Most bits of an ID that is an integer.
pub const INTEGER_BITS_MAX: u32 = 63;

/// Most bits of an ID: those of a KSUID.
pub const ID_BITS_MAX: u32 = 160;

/// Most bits of time and counter together: a slot is one number. (A layout with all of them does not use its last unit:
/// the slot behind it has to be counted.)
pub const SLOT_BITS_MAX: u32 = 64;

/// Most bits of a random field: its permutation is kept in memory.
pub const RANDOM_BITS_MAX: u32 = LOW_BITS;

/// Most bits of a noise field: those that one draw of the source has.
pub const NOISE_BITS_MAX: u32 = 128;

/// Most bits of a field that has its own value.
pub const VALUE_BITS_MAX: u32 = 64;

/// Content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Units since the epoch.
    Time,
    /// A counter inside a unit, which carries into the next.
    Counter,
    /// The rotating random permutation.
    Random,
    /// Fresh random bits for each ID.
    Noise,
    /// A constant: the same value in each ID.
    Constant(u64),
    /// A part of the server-id; several of them hold it together, the first its upper bits.
    Server,
    /// A value that is drawn once at random and kept in the record.
    Drawn,
    /// A value that comes with the request.
    Request,
}

impl Role {
    /// Returns the largest width of such a field, bits.
    fn bits_max(self) -> u32 {
        match self {
            Role::Time => SLOT_BITS_MAX,
            // The time needs at least one bit beside the counter.
            Role::Counter => SLOT_BITS_MAX - 1,
            Role::Random => RANDOM_BITS_MAX,
            Role::Noise => NOISE_BITS_MAX,
            Role::Constant(_) | Role::Server | Role::Drawn | Role::Request => VALUE_BITS_MAX,
        }
    }
}

/// How the values of a field are written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldNotation {
    /// A decimal number.
    Decimal,
    /// All hexadecimal digits: nodes, processes and random bits.
    Hex,
    /// An IPv4 address: four decimal numbers with dots.
    Address,
}

/// One field of an ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Width, bits, at least 1.
    pub bits: u32,
    /// Content of the field.
    pub role: Role,
}

impl Field {
    pub(crate) fn new(name: &str, bits: u32, role: Role) -> Field {
        Field { name: name.to_owned(), bits, role }
    }

    /// Returns how the values of the field are written for people.
    pub fn notation(&self) -> FieldNotation {
        match (self.role, self.name.as_str()) {
            // Drawn fields come from the table of kinds alone, so no declared field has this name by chance.
            (Role::Drawn, "address") => FieldNotation::Address,
            (Role::Drawn, "clock-seq") => FieldNotation::Decimal,
            (Role::Drawn | Role::Noise, _) => FieldNotation::Hex,
            _ => FieldNotation::Decimal,
        }
    }

    /// Parses a value of the field: a decimal number, or an IPv4 address where the notation is that; `None` if it is
    /// neither, or wider than the field.
    pub fn read_value(&self, text: &str) -> Option<u64> {
        let address = || text.parse::<Ipv4Addr>().ok().map(|address| u64::from(address.to_bits()));
        // A sign, which Rust's parser accepts, is refused.
        let number = text.parse().ok().filter(|_| !text.starts_with('+'));
        let value = number.or_else(|| if self.notation() == FieldNotation::Address { address() } else { None });
        value.filter(|&value| value <= low_bits_64(self.bits))
    }

    /// Returns a value of the field as a declaration has it: an IPv4 address where the notation is that, else a decimal
    /// number.
    pub fn declared_value(&self, value: u64) -> String {
        match (self.notation(), u32::try_from(value)) {
            (FieldNotation::Address, Ok(bits)) => Ipv4Addr::from_bits(bits).to_string(),
            _ => value.to_string(),
        }
    }

    fn has_fit_width(&self) -> bool {
        (1..=self.role.bits_max()).contains(&self.bits)
    }
}

/// The fields of an ID, from the most significant down, with epoch and unit of its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    fields: Vec<Field>,
    epoch_unix_ms: i64,
    unit: Unit,
}

impl FieldLayout {
    /// Creates a layout whose ticks are units since the epoch, a Unix time in ms. A layout without a time field ignores
    /// both.
    ///
    /// # Errors
    ///
    /// Fails with all mistakes in the fields.
    pub fn new(fields: Vec<Field>, epoch_unix_ms: i64, unit: Unit) -> Result<FieldLayout, Vec<FieldsError>> {
        let errors = check(&fields);
        if errors.is_empty() { Ok(FieldLayout { fields, epoch_unix_ms, unit }) } else { Err(errors) }
    }

    /// Returns the fields, from the most significant down.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the epoch of its time, Unix ms.
    pub fn epoch_unix_ms(&self) -> i64 {
        self.epoch_unix_ms
    }

    /// Returns the step of its time.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns the width of an ID, bits.
    pub fn bits(&self) -> u32 {
        self.fields.iter().map(|field| field.bits).sum()
    }

    /// Returns the width of all fields with this role, bits.
    pub fn bits_of(&self, role: Role) -> u32 {
        self.fields.iter().filter(|field| field.role == role).map(|field| field.bits).sum()
    }

    /// Returns the width of the time, bits; 0: there is none.
    pub fn time_bits(&self) -> u32 {
        self.bits_of(Role::Time)
    }

    /// Returns the width of the counter, bits; 0: there is none, and each ID takes a tick.
    pub fn counter_bits(&self) -> u32 {
        self.bits_of(Role::Counter)
    }

    /// Returns true if it has a time.
    pub fn has_time(&self) -> bool {
        self.time_bits() > 0
    }

    /// Returns the field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns each field with the number of bits below it.
    pub fn places(&self) -> impl DoubleEndedIterator<Item = (&Field, u32)> {
        let mut above = 0;
        let total = self.bits();
        let places: Vec<_> = self
            .fields
            .iter()
            .map(|field| {
                above += field.bits;
                (field, total - above)
            })
            .collect();
        places.into_iter()
    }

    /// Returns the number of bits below the first field with this role.
    pub fn shift_of(&self, role: Role) -> Option<u32> {
        self.places().find(|(field, _)| field.role == role).map(|(_, shift)| shift)
    }

    /// Returns how many IDs a server can give each second without borrowing; `None` for a layout without time.
    pub fn capacity_per_s(&self) -> Option<u64> {
        let per_s = (1_000_000_000_u128 << self.counter_bits()) / u128::from(self.unit.ns());
        self.has_time().then(|| u64::try_from(per_s).unwrap_or(u64::MAX))
    }

    /// Returns the Unix time at which a tick begins, ns.
    pub fn unix_ns(&self, tick: u64) -> i128 {
        i128::from(self.epoch_unix_ms) * i128::from(NS_PER_MS) + i128::from(tick) * i128::from(self.unit.ns())
    }

    /// Returns the Unix time in ms at which a tick begins, rounded down; times above `i64::MAX` are clamped.
    pub fn unix_ms(&self, tick: u64) -> i64 {
        whole_ms(self.unix_ns(tick))
    }

    /// Returns the tick at a Unix time in ns; `None` before the epoch or past the end.
    pub fn tick_at(&self, unix_ns: i128) -> Option<u64> {
        let since = u128::try_from(unix_ns - i128::from(self.epoch_unix_ms) * i128::from(NS_PER_MS)).ok()?;
        let tick = u64::try_from(since / u128::from(self.unit.ns())).ok()?;
        (tick <= self.last_tick()).then_some(tick)
    }

    /// Returns the last tick that fits the time.
    pub fn last_tick(&self) -> u64 {
        low_bits_64(self.time_bits())
    }

    /// Returns the Unix time in ms at which its last tick ends, clamped to an `i64`.
    pub fn end_unix_ms(&self) -> i64 {
        whole_ms(self.unix_ns(self.last_tick()) + i128::from(self.unit.ns()))
    }

    /// Returns the value of a field in a number. `shift`: the number of bits below the field.
    pub fn value(field: &Field, shift: u32, number: Number) -> u128 {
        (number >> shift).as_u128() & low_bits(field.bits)
    }

    /// Returns the number with all bits of a field, and no others. `shift`: the number of bits below the field.
    pub fn mask(field: &Field, shift: u32) -> Number {
        low_ones(field.bits) << shift
    }

    /// Returns the tick of a number.
    pub fn tick_of(&self, number: Number) -> Option<u64> {
        let (field, shift) = self.places().find(|(field, _)| field.role == Role::Time)?;
        u64::try_from(FieldLayout::value(field, shift, number)).ok()
    }

    /// Returns the lowest and the highest number of any server whose tick lies in `from..=to`; `None` without a time.
    /// If `from` is after `to`, the span is empty: lowest above highest.
    pub fn span(&self, from: u64, to: u64) -> Option<(Number, Number)> {
        let shift = self.shift_of(Role::Time)?;
        let tick = |tick: u64| Number::from(tick.min(self.last_tick())) << shift;
        Some((tick(from), tick(to) | low_ones(shift)))
    }
}

/// Writes the fields as they are declared: `time:41@1ms datacenter:5 worker:5 counter:12`.
impl core::fmt::Display for FieldLayout {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.fields.iter().enumerate().try_for_each(|(index, field)| {
            let space = if index > 0 { " " } else { "" };
            write!(f, "{space}{}:{}", field.name, field.bits)?;
            match field.role {
                Role::Time => write!(f, "@{}", self.unit),
                Role::Request => f.write_str("?"),
                _ => Ok(()),
            }
        })
    }
}

/// Converts the unnamed generator's layout: its fields are those of the kind `fork`, less those without a width.
impl From<Layout> for FieldLayout {
    fn from(layout: Layout) -> FieldLayout {
        let fields = [
            Field::new("time", TICK_BITS, Role::Time),
            Field::new("server-id", layout.server_bits(), Role::Server),
            Field::new("counter", layout.shard_bits(), Role::Counter),
            Field::new("random", layout.random_bits(), Role::Random),
        ];
        FieldLayout {
            fields: fields.into_iter().filter(|field| field.bits > 0).collect(),
            epoch_unix_ms: layout.epoch().unix_ms().cast_signed(),
            unit: Unit::MS,
        }
    }
}

/// Returns a time in whole ms, rounded down; times above `i64::MAX` are clamped.
fn whole_ms(unix_ns: i128) -> i64 {
    i64::try_from(unix_ns.div_euclid(i128::from(NS_PER_MS))).unwrap_or(i64::MAX)
}

/// Reason why fields are not a valid layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldsError {
    /// A field's width is out of its range.
    Width {
        /// Name of the field.
        name: String,
        /// Width of the field, bits.
        bits: u32,
        /// Largest allowed width, bits.
        max: u32,
    },
    /// Two fields have one name.
    Twice {
        /// Name of both fields.
        name: String,
    },
    /// Two fields are the time, the counter, the random or the noise field.
    Second {
        /// Name of the second field.
        name: String,
        /// Name of the first field.
        first: String,
    },
    /// A field has a place that is not allowed.
    Place {
        /// Name of the field.
        name: String,
        /// Allowed place, as a sentence.
        expected: &'static str,
    },
    /// A constant does not fit its width.
    Value {
        /// Name of the field.
        name: String,
        /// Value of the constant.
        value: u64,
        /// Width of the field, bits.
        bits: u32,
    },
    /// Time and counter together are too wide.
    Slot {
        /// Width of both, bits.
        bits: u32,
    },
    /// All fields together are too wide.
    Total {
        /// Width of all fields, bits.
        bits: u32,
    },
}

impl core::fmt::Display for FieldsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            FieldsError::Width { name, bits, max } => write!(f, "'{name}' has {bits} bits, must have 1 to {max}"),
            FieldsError::Twice { name } => write!(f, "the field '{name}' is there twice, must be there once"),
            FieldsError::Second { name, first } => write!(
                f,
                "'{name}' has the same role as '{first}', must be the only time, counter, random or noise of the layout"
            ),
            FieldsError::Place { name, expected } => write!(f, "'{name}' is in a wrong place: {expected}"),
            FieldsError::Value { name, value, bits } => {
                write!(f, "{name} is {value}, must be 0 to {}: the field has {bits} bits", low_bits(*bits))
            }
            FieldsError::Slot { bits } => {
                write!(f, "time and counter have {bits} bits together, must have at most {SLOT_BITS_MAX}")
            }
            FieldsError::Total { bits } => {
                write!(f, "the fields have {bits} bits together, must have at most {ID_BITS_MAX}")
            }
        }
    }
}

impl core::error::Error for FieldsError {}

fn check(fields: &[Field]) -> Vec<FieldsError> {
    let mut errors = Vec::new();
    let at = |role: Role| fields.iter().position(|field| field.role == role);
    let (time, counter) = (at(Role::Time), at(Role::Counter));
    for (index, field) in fields.iter().enumerate() {
        let (before, name) = (&fields[..index], field.name.clone());
        if !field.has_fit_width() {
            errors.push(FieldsError::Width { name: name.clone(), bits: field.bits, max: field.role.bits_max() });
        }
        if before.iter().any(|before| before.name == name) {
            errors.push(FieldsError::Twice { name });
            continue;
        }
        let is_alone = matches!(field.role, Role::Time | Role::Counter | Role::Random | Role::Noise);
        if let Some(first) = before.iter().find(|before| is_alone && before.role == field.role) {
            errors.push(FieldsError::Second { name, first: first.name.clone() });
            continue;
        }
        match field.role {
            Role::Constant(value) if u128::from(value) > low_bits(field.bits) => {
                errors.push(FieldsError::Value { name, value, bits: field.bits });
            }
            Role::Random | Role::Noise if time.max(counter).is_some_and(|above| index < above) => {
                errors.push(FieldsError::Place { name, expected: "random and noise lie below time and counter" });
            }
            Role::Time | Role::Random | Role::Noise | Role::Constant(0) => {}
            _ if time.is_some_and(|time| index < time) => {
                let expected = "above the time there may be nothing but constants of 0";
                errors.push(FieldsError::Place { name, expected });
            }
            _ => {}
        }
    }
    // Sums leave out widths that are out of range.
    let sum = |is_in: fn(&Field) -> bool| -> u32 {
        let fit = fields.iter().filter(|field| field.has_fit_width() && is_in(field));
        fit.fold(0, |sum, field| sum.saturating_add(field.bits))
    };
    let slot = sum(|field| matches!(field.role, Role::Time | Role::Counter));
    if slot > SLOT_BITS_MAX {
        errors.push(FieldsError::Slot { bits: slot });
    }
    let total = sum(|_| true);
    if total > ID_BITS_MAX {
        errors.push(FieldsError::Total { bits: total });
    }
    errors
}
