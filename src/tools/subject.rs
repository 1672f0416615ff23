//! Whose IDs a tool looks at: the unnamed generator's, or those of a declaration.

use getid_core::{Declaration, DeclarationError, EpochParser, Id, Kind, Layout, Shape, no_dates};

/// Whose IDs these are.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// The unnamed generator's.
    Unnamed(Layout),
    /// Those of a declaration; where no generator of a configuration is meant, its name is that of its kind.
    Declared(Box<Declaration>),
}

impl Subject {
    /// What `text` declares: a kind and its options, or a line of a configuration (`generator NAME KIND ...`).
    /// Constants need no values, for IDs say them.
    ///
    /// # Errors
    ///
    /// All that is wrong with it.
    pub(crate) fn parse(text: &str, epoch: EpochParser) -> Result<Subject, Vec<DeclarationError>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut words = match words.as_slice() {
            ["generator", rest @ ..] => rest.to_vec(),
            words => {
                let kind = words.first().and_then(|word| Kind::find(word));
                [&[kind.map_or("layout", |kind| kind.word)], words].concat()
            }
        };
        let is_missing = |error: &DeclarationError| matches!(error, DeclarationError::Missing { .. });
        let declared = match Declaration::parse(&words, epoch) {
            Err(errors) if errors.iter().all(is_missing) => {
                let missing = errors.iter().filter_map(|error| match error {
                    DeclarationError::Missing { name, .. } => Some([name.as_str(), "0"]),
                    _ => None,
                });
                words.extend(missing.flatten());
                Declaration::parse(&words, epoch)
            }
            declared => declared,
        };
        match declared {
            Ok(declaration) => Ok(Subject::Declared(Box::new(declaration))),
            Err(errors) => Err(errors.into_iter().filter(|error| !is_missing(error)).collect()),
        }
    }

    /// The number of an ID; `None` for what is not one of these.
    pub(crate) fn read(&self, id: &str) -> Option<u128> {
        match self {
            Subject::Unnamed(_) => read_integer(id).map(|id| id.get().into()),
            Subject::Declared(declaration) => declaration.read(id),
        }
    }

    /// The declaration; that of the unnamed generator is what it would be as one of the others.
    pub(crate) fn declaration(&self) -> Option<Declaration> {
        let layout = match self {
            Subject::Unnamed(layout) => layout,
            Subject::Declared(declaration) => return Some(Declaration::clone(declaration)),
        };
        let widths =
            [("server-id", layout.server_bits()), ("counter", layout.shard_bits()), ("random", layout.random_bits())];
        let fields = widths.iter().filter(|(_, bits)| *bits > 0).map(|(name, bits)| format!("{name}:{bits}"));
        let epoch = layout.epoch().unix_ms().to_string();
        let mut words: Vec<String> = ["unnamed", "layout", "time:42@1ms"].map(str::to_owned).to_vec();
        words.extend(fields);
        words.extend(["epoch".to_owned(), epoch]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Declaration::parse(&words, no_dates).ok()
    }

    /// What an ID must be, behind `must be `.
    pub(crate) fn expected(&self) -> String {
        let Subject::Declared(declaration) = self else { return format!("0 to {}", i64::MAX) };
        if let Some(format) = declaration.format() {
            let or_more = if format.grows { " or more" } else { "" };
            let behind = if format.prefix.is_empty() { String::new() } else { format!(" behind '{}'", format.prefix) };
            return format!("{}{or_more} digits of {}{behind}", format.pad, format.radix.word());
        }
        match declaration.kind().shape {
            Shape::Number => format!("0 to {}", u128::MAX >> (u128::BITS - declaration.layout().bits())),
            Shape::Uuid(version) => format!("a UUID of version {version}"),
            Shape::Hibernate => "a UUID of version 1 whose last four digits are 7fff or less".to_owned(),
            Shape::ObjectId => "24 hex digits".to_owned(),
            Shape::ObjectIdDecimal => format!("29 digits, at most {}", u128::MAX >> 32),
        }
    }

    /// The most bytes of an ID.
    pub(crate) fn id_bytes_max(&self) -> usize {
        match self {
            Subject::Unnamed(_) => "9223372036854775807".len(),
            Subject::Declared(declaration) => declaration.id_bytes_max(),
        }
    }

    /// What stands before an ID's digits.
    pub(crate) fn prefix(&self) -> &str {
        match self {
            Subject::Unnamed(_) => "",
            Subject::Declared(declaration) => declaration.format().map_or("", |format| &format.prefix),
        }
    }

    /// For sentences: ` of tweets`, and nothing for the unnamed generator.
    pub(crate) fn of(&self) -> String {
        match self {
            Subject::Unnamed(_) => String::new(),
            Subject::Declared(declaration) => format!(" of {}", declaration.name()),
        }
    }
}

/// An ID of the unnamed generator as text: digits only, 63 bits.
pub(crate) fn read_integer(word: &str) -> Option<Id> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if digits { word.parse().ok().and_then(Id::new) } else { None }
}
