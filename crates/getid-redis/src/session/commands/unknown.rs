//! Names of generators that are not declared: the error, and the similar names that it suggests.

use getid_core::server::{NAME_BYTES_MAX, is_name};
use getid_text::suggest::is_near;

use super::Call;
use crate::acl::User;
use crate::command::{Command, quoted};
use crate::resp::{ErrorKind, ErrorReply};
use crate::session::Settings;

/// Returns the error for an unknown generator, and counts the work of its suggestion.
#[cold]
pub(super) fn unknown_generator(call: &mut Call<'_>, name: &[u8]) -> ErrorReply {
    call.turn.count_work(UNKNOWN_NAME_BYTES);
    unknown(&call.client.settings, name, call.command, call.client.user())
}

/// Size that an unknown name adds to a turn's bound, bytes, for the search of similar names.
const UNKNOWN_NAME_BYTES: usize = 4096;

/// Maximum number of names that are compared with an unknown one.
const COMPARED_NAMES_MAX: usize = 100;
/// Maximum length of an unknown name that is compared with others, bytes.
const COMPARED_NAME_BYTES_MAX: usize = 64;

/// Returns the error for an unknown generator. It suggests only similar names that the user may request.
#[cold]
fn unknown(settings: &Settings, name: &[u8], command: &Command, user: &User) -> ErrorReply {
    let typed = str::from_utf8(name).unwrap_or_default();
    let names = settings.generators.iter().map(|(_, generator)| generator.declaration().name());
    let names = names.chain(settings.counters.iter().map(|counter| counter.name()));
    let near = names.filter(|name| name.len().abs_diff(typed.len()) <= 2 && typed.len() <= COMPARED_NAME_BYTES_MAX);
    let near = near
        .take(COMPARED_NAMES_MAX)
        .filter(|name| is_near(typed, name) && user.may_access_key(command, name.as_bytes()));
    let near: Vec<String> = near.take(3).map(|name| format!("'{name}'")).collect();
    no_generator(name, &near)
}

/// Returns the error for an unknown generator; `near` are similar names in quotes.
#[cold]
pub fn no_generator(name: &[u8], near: &[String]) -> ErrorReply {
    let Some(typed) = str::from_utf8(name).ok().filter(|name| is_name(name)) else {
        return format!(
            "ERR '{}' cannot be the name of a generator: it has 1 to {NAME_BYTES_MAX} bytes of A-Z a-z 0-9 _ . : -",
            quoted(name)
        )
        .into();
    };
    if near.is_empty() && typed.eq_ignore_ascii_case("request") {
        let text = format!(
            "ERR no generator '{typed}': the name of a generator is before the word REQUEST, and GETID has - for \
             the unnamed one"
        );
        return ErrorReply::new(ErrorKind::NotFound, text);
    }
    let meant = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    let dot = if near.is_empty() { "." } else { "" };
    let text = format!(
        "ERR no generator '{typed}'{meant}{dot} Declare it with a line 'generator {typed} <kind>' in the \
         configuration, and send SIGHUP to the server"
    );
    ErrorReply::new(ErrorKind::NotFound, text)
}
