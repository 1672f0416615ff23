//! Flags of the generator that a tool draws from.

use clap::Args;

use super::exit::ToolError;

/// Error of `--field`.
#[derive(Debug, thiserror::Error)]
pub(super) enum FieldError {
    #[error("must be NAME=VALUE, as in shard=53")]
    Syntax,
    #[error("--field {0}: the unnamed generator has no such field")]
    Unnamed(String),
}

impl ToolError for FieldError {}

/// Flags that name a generator, and the fields of its requests.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Generator")]
pub(super) struct GeneratorArgs {
    /// A named generator [default: the unnamed one]
    #[arg(long, value_name = "NAME")]
    pub(super) generator: Option<String>,
    #[command(flatten)]
    pub(super) fields: FieldArgs,
}

/// Values of fields that come with each request.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Generator")]
pub(super) struct FieldArgs {
    /// The value of a field that comes with each request, as in shard=53; may be given several times
    #[arg(long = "field", value_name = "NAME=VALUE", value_parser = field)]
    fields: Vec<(String, String)>,
}

impl FieldArgs {
    /// Whether no field has a value.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether a field of this name has a value.
    pub(super) fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known == name)
    }

    /// Returns the words after the command in a request to this generator.
    pub(super) fn words(&self, generator: Option<&str>) -> Result<Vec<String>, FieldError> {
        let Some(generator) = generator else {
            return match self.fields.first() {
                None => Ok(Vec::new()),
                Some((name, _)) => Err(FieldError::Unnamed(name.clone())),
            };
        };
        let mut words = vec![generator.to_owned()];
        words.extend(self.fields.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
        Ok(words)
    }
}

fn field(text: &str) -> Result<(String, String), FieldError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(FieldError::Syntax),
    }
}
