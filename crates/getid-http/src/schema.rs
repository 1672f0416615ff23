//! Schemas of JSON parameters, bodies and responses.
//!
//! One value serves the document, the check of requests, and the conversion of a command's reply to JSON. The schemas
//! of types that are serialized are derived from the types.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use serde_json::{Map, Value, json};

use getid_config::Config;

/// Bounds of requests that the configuration sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestBounds {
    /// The most IDs of one request.
    pub(super) ids: u32,
    /// The most values of one request.
    pub(super) values: u32,
}

/// The most values of one request, whatever `sequence-incrby-max` allows: each of them is written out.
const VALUES_MAX: u32 = 10_000;

impl RequestBounds {
    pub(super) fn of(config: &Config) -> RequestBounds {
        RequestBounds { ids: config.id_mgetid_max, values: config.sequences.incrby_max.min(VALUES_MAX) }
    }
}

/// The name of the unnamed generator in requests and responses.
pub(super) const UNNAMED: &str = "-";

/// The schema of a value.
pub(super) enum Schema {
    Bool,
    Integer {
        min: i64,
        max: i64,
    },
    /// An integer from 1 to the bound of a directive.
    Count(fn(RequestBounds) -> u32),
    /// A number with a fraction, not negative.
    Number,
    Text {
        chars_min: usize,
        chars_max: usize,
        /// A regular expression for readers of the document.
        pattern: &'static str,
    },
    /// A parameter without a value, which is present or not.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A time of RFC 3339, in UTC, with milliseconds.
    Time,
    List {
        of: &'static Schema,
        items_max: usize,
    },
    Object(&'static [Field]),
    /// An object with any fields, each of this schema.
    Map(&'static Schema),
    OrNull(&'static Schema),
    Either(&'static [&'static Schema]),
    /// Any JSON value.
    Anything,
    /// A schema that the document has under this name among its components.
    Named(&'static str, &'static Schema),
    /// The schema of a type of responses, which the document has under this name. It is derived from the type.
    Derived(&'static str, fn(&mut SchemaGenerator) -> schemars::Schema),
}

/// Why a value does not match a schema, with bounded texts.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mismatch {
    #[error("{place} is {found}, expected {expected}")]
    Wrong { place: String, found: String, expected: String },
    #[error("unknown field '{field}'; expected one of: {known}")]
    Unknown { field: String, known: String },
    #[error("field '{field}' is missing, expected {expected}")]
    Missing { field: String, expected: String },
}

/// A field of an object.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) schema: &'static Schema,
    pub(super) is_required: bool,
    pub(super) description: &'static str,
}

/// Declares a field that is always present.
pub(super) const fn field(name: &'static str, schema: &'static Schema, description: &'static str) -> Field {
    Field { name, schema, is_required: true, description }
}

/// Declares an optional field.
pub(super) const fn maybe(name: &'static str, schema: &'static Schema, description: &'static str) -> Field {
    Field { name, schema, is_required: false, description }
}

/// A text of any length.
pub(super) const TEXT: Schema = Schema::Text { chars_min: 0, chars_max: usize::MAX, pattern: "" };

/// A number of things, from 0.
pub(super) const AMOUNT: Schema = Schema::Integer { min: 0, max: i64::MAX };

/// Schemas by name, for the document's components.
pub(super) type Components = Map<String, Value>;

impl Schema {
    /// Returns the schema as JSON Schema, as in `OpenAPI` 3.1. Named schemas are added to `components`.
    pub(super) fn document(&self, bounds: RequestBounds, components: &mut Components) -> Value {
        match self {
            Schema::Bool => json!({ "type": "boolean" }),
            Schema::Integer { min, max } => {
                let mut document = json!({ "type": "integer" });
                if *min > i64::MIN {
                    document["minimum"] = json!(min);
                }
                if *max < i64::MAX {
                    document["maximum"] = json!(max);
                }
                document
            }
            Schema::Count(max) => json!({ "type": "integer", "minimum": 1, "maximum": max(bounds) }),
            Schema::Number => json!({ "type": "number", "minimum": 0 }),
            Schema::Text { chars_min, chars_max, pattern } => {
                let mut document = json!({ "type": "string" });
                if *chars_min > 0 {
                    document["minLength"] = json!(chars_min);
                }
                if *chars_max < usize::MAX {
                    document["maxLength"] = json!(chars_max);
                }
                if !pattern.is_empty() {
                    document["pattern"] = json!(pattern);
                }
                document
            }
            Schema::Flag => json!({ "type": "string", "enum": [""] }),
            Schema::Word(words) => json!({ "type": "string", "enum": words }),
            Schema::Time => json!({ "type": "string", "format": "date-time" }),
            Schema::List { of, items_max } => {
                let mut document = json!({ "type": "array", "items": of.document(bounds, components) });
                if *items_max < usize::MAX {
                    document["maxItems"] = json!(items_max);
                }
                document
            }
            Schema::Object(fields) => object(fields, bounds, components),
            Schema::Map(of) => json!({ "type": "object", "additionalProperties": of.document(bounds, components) }),
            Schema::OrNull(of) => json!({ "anyOf": [of.document(bounds, components), { "type": "null" }] }),
            Schema::Anything => json!({}),
            Schema::Either(all) => {
                let all: Vec<_> = all.iter().map(|one| one.document(bounds, components)).collect();
                json!({ "anyOf": all })
            }
            Schema::Named(name, of) => {
                let document = of.document(bounds, components);
                components.insert((*name).to_owned(), document);
                reference(name)
            }
            Schema::Derived(name, derive) => {
                components.insert((*name).to_owned(), derived(*derive));
                reference(name)
            }
        }
    }

    /// Describes what is expected, as the end of a sentence: "an integer of 1 to 100".
    pub(super) fn expected(&self, bounds: RequestBounds) -> String {
        match self {
            Schema::Bool => "true or false".to_owned(),
            Schema::Integer { min, max } => format!("an integer of {min} to {max}"),
            Schema::Count(max) => format!("an integer of 1 to {}", max(bounds)),
            Schema::Number => "a number that is not negative".to_owned(),
            Schema::Text { chars_min, chars_max: usize::MAX, .. } => {
                format!("a text of at least {chars_min} characters")
            }
            Schema::Text { chars_min, chars_max, .. } => format!("a text of {chars_min} to {chars_max} characters"),
            Schema::Flag => "no value".to_owned(),
            Schema::Word([word]) => format!("the text {word}"),
            Schema::Word(words) => format!("one of the texts {}", words.join(", ")),
            Schema::Time => "an RFC 3339 time".to_owned(),
            Schema::List { items_max, .. } => format!("an array of at most {items_max} values"),
            Schema::Object(_) | Schema::Map(_) | Schema::Derived(..) => "an object".to_owned(),
            Schema::OrNull(of) => format!("{}, or null", of.expected(bounds)),
            Schema::Anything => "anything".to_owned(),
            Schema::Either(all) => all.iter().map(|one| one.expected(bounds)).collect::<Vec<_>>().join(", or "),
            Schema::Named(_, of) => of.expected(bounds),
        }
    }

    /// Checks a value against the schema.
    ///
    /// # Errors
    ///
    /// The first mismatch.
    pub(super) fn check(&self, value: &Value, bounds: RequestBounds) -> Result<(), Mismatch> {
        self.check_at("", value, bounds)
    }

    fn check_at(&self, place: &str, value: &Value, bounds: RequestBounds) -> Result<(), Mismatch> {
        match self {
            Schema::Object(fields) => check_object(fields, place, value, bounds),
            Schema::Map(of) => {
                let Value::Object(found) = value else { return Err(self.wrong(place, value, bounds)) };
                found.iter().try_for_each(|(name, value)| of.check_at(&inside(place, name), value, bounds))
            }
            Schema::List { of, items_max } => match value {
                Value::Array(items) if items.len() <= *items_max => {
                    let mut items = items.iter().enumerate();
                    items.try_for_each(|(index, item)| of.check_at(&format!("{place}[{index}]"), item, bounds))
                }
                _ => Err(self.wrong(place, value, bounds)),
            },
            Schema::Anything => Ok(()),
            Schema::OrNull(_) if value.is_null() => Ok(()),
            Schema::OrNull(of) | Schema::Named(_, of) => of.check_at(place, value, bounds),
            Schema::Either(all) if all.iter().any(|one| one.check_at(place, value, bounds).is_ok()) => Ok(()),
            _ if self.is_plain(value, bounds) => Ok(()),
            _ => Err(self.wrong(place, value, bounds)),
        }
    }

    /// Whether a scalar value matches the schema.
    fn is_plain(&self, value: &Value, bounds: RequestBounds) -> bool {
        match (self, value) {
            (Schema::Bool, Value::Bool(_)) => true,
            (Schema::Integer { min, max }, value) => integer(value).is_some_and(|found| (*min..=*max).contains(&found)),
            (Schema::Count(max), value) => {
                integer(value).is_some_and(|found| (1..=max(bounds).into()).contains(&found))
            }
            (Schema::Number, Value::Number(number)) => number.as_f64().is_some_and(|number| number >= 0.0),
            (Schema::Text { chars_min, chars_max, .. }, Value::String(text)) => {
                (*chars_min..=*chars_max).contains(&text.chars().count())
            }
            (Schema::Flag, Value::String(text)) => text.is_empty(),
            (Schema::Word(words), Value::String(text)) => words.contains(&text.as_str()),
            (Schema::Time, Value::String(text)) => getid_text::timestamp::TimeSpec::parse(text).is_ok(),
            _ => false,
        }
    }

    fn wrong(&self, place: &str, value: &Value, bounds: RequestBounds) -> Mismatch {
        wrong(place, value, self.expected(bounds))
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the schema of a type of responses in one piece.
fn derived(derive: fn(&mut SchemaGenerator) -> schemars::Schema) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| settings.inline_subschemas = true);
    let mut schema = derive(&mut settings.into_generator());
    RecursiveTransform(complete).transform(&mut schema);
    schema.to_value()
}

/// Changes a derived schema to the form of the others: objects have no other fields, numbers have no formats, which
/// would be types of Rust, and a description is one line.
fn complete(schema: &mut schemars::Schema) {
    if schema.get("format").is_some_and(|format| format != "date-time") {
        schema.remove("format");
    }
    if schema.get("properties").is_some() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// Returns the integer of a JSON number: `1` and `1.0` are equal.
pub(super) fn integer(value: &Value) -> Option<i64> {
    /// Up to this bound each integer has its own double.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT_MAX)?;
        format!("{number:.0}").parse().ok()
    })
}

fn object(fields: &[Field], bounds: RequestBounds, components: &mut Components) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut document = field.schema.document(bounds, components);
        if !field.description.is_empty() {
            document["description"] = json!(field.description);
        }
        properties.insert(field.name.to_owned(), document);
    }
    let mut document = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    let required: Vec<_> = fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    if !required.is_empty() {
        document["required"] = json!(required);
    }
    document
}

fn check_object(fields: &[Field], place: &str, value: &Value, bounds: RequestBounds) -> Result<(), Mismatch> {
    let Value::Object(found) = value else { return Err(wrong(place, value, "an object".to_owned())) };
    for (name, value) in found {
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let known: Vec<_> = fields.iter().map(|field| field.name).collect();
            let place = inside(place, &shown_text(name));
            return Err(Mismatch::Unknown { field: place, known: known.join(", ") });
        };
        field.schema.check_at(&inside(place, name), value, bounds)?;
    }
    match fields.iter().find(|field| field.is_required && !found.contains_key(field.name)) {
        None => Ok(()),
        Some(Field { name, schema, .. }) => {
            Err(Mismatch::Missing { field: inside(place, name), expected: schema.expected(bounds) })
        }
    }
}

fn wrong(place: &str, value: &Value, expected: String) -> Mismatch {
    let place = if place.is_empty() { "the body".to_owned() } else { format!("field '{place}'") };
    Mismatch::Wrong { place, found: shown(value), expected }
}

fn inside(place: &str, name: &str) -> String {
    if place.is_empty() { shown_text(name) } else { format!("{place}.{}", shown_text(name)) }
}

/// Returns the beginning of a client's text.
fn shown_text(text: &str) -> String {
    getid_text::printable::printable_up_to(text, 40)
}

/// Describes a value for an error.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text '{}'", shown_text(text)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: RequestBounds = RequestBounds { ids: 100, values: 1000 };

    const OPTIONS: Schema = Schema::Object(&[
        field("cache", &Schema::Integer { min: 0, max: 10 }, "How many."),
        maybe("policy", &Schema::Word(&["wait", "error"]), ""),
        maybe("notes", &Schema::List { of: &Schema::OrNull(&TEXT), items_max: 2 }, ""),
        maybe("fields", &Schema::Map(&Schema::Either(&[&AMOUNT, &Schema::Bool])), ""),
        maybe("inner", &Schema::Named("Inner", &Schema::Object(&[maybe("rate", &Schema::Number, "")])), ""),
    ]);

    fn error_of(value: &Value) -> String {
        OPTIONS.check(value, BOUNDS).expect_err("an error").to_string()
    }

    #[test]
    fn matching_values_are_accepted() {
        for value in [
            json!({ "cache": 0 }),
            json!({ "cache": 10.0, "policy": "wait", "notes": [null, "a"], "fields": { "a": true, "b": 7 } }),
            json!({ "cache": 1, "inner": { "rate": 0.5 } }),
        ] {
            assert_eq!(OPTIONS.check(&value, BOUNDS), Ok(()), "{value}");
        }
    }

    #[test]
    fn errors_name_the_field_and_the_value() {
        for (value, text) in [
            (json!([]), "the body is an array, expected an object"),
            (json!({}), "field 'cache' is missing, expected an integer of 0 to 10"),
            (json!({ "cache": "1" }), "field 'cache' is the text '1', expected an integer of 0 to 10"),
            (json!({ "cache": 11 }), "field 'cache' is 11, expected an integer of 0 to 10"),
            (json!({ "cache": 1.5 }), "field 'cache' is 1.5, expected an integer of 0 to 10"),
            (json!({ "cache": 1e300 }), "field 'cache' is 1e+300, expected an integer of 0 to 10"),
            (json!({ "cache": u64::MAX }), "field 'cache' is 18446744073709551615, expected an integer of 0 to 10"),
            (json!({ "cache": null }), "field 'cache' is null, expected an integer of 0 to 10"),
            (
                json!({ "cache": 1, "cahce\u{1b}\n": 1 }),
                "unknown field 'cahce\\u{1b}\\n'; expected one of: cache, policy, notes, fields, inner",
            ),
            (
                json!({ "cache": 1, "policy": "Wait" }),
                "field 'policy' is the text 'Wait', expected one of the texts wait, error",
            ),
            (json!({ "cache": 1, "notes": [1] }), "field 'notes[0]' is 1, expected a text of at least 0 characters"),
            (
                json!({ "cache": 1, "notes": ["", "", ""] }),
                "field 'notes' is an array, expected an array of at most 2 values",
            ),
            (
                json!({ "cache": 1, "fields": { "a": "x" } }),
                "field 'fields.a' is the text 'x', expected an integer of 0 to 9223372036854775807, or true or false",
            ),
            (
                json!({ "cache": 1, "inner": { "rate": -1 } }),
                "field 'inner.rate' is -1, expected a number that is not negative",
            ),
        ] {
            assert_eq!(error_of(&value), text);
        }
        assert!(error_of(&json!({ "x".repeat(5000): 1 })).len() < 200);
    }

    #[test]
    fn a_schema_is_documented_as_json_schema() {
        let mut components = Components::new();
        let document = OPTIONS.document(BOUNDS, &mut components);
        let cache = json!({ "type": "integer", "minimum": 0, "maximum": 10, "description": "How many." });
        assert_eq!(document["properties"]["cache"], cache);
        assert_eq!(document["required"], json!(["cache"]));
        assert_eq!(document["properties"]["inner"], json!({ "$ref": "#/components/schemas/Inner" }));
        assert_eq!(components["Inner"]["additionalProperties"], json!(false));
    }
}
