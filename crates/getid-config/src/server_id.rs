//! Where a server's number comes from (`server-id`): the default, a number, the host's name, or the claim store.
//!
//! Kubernetes names the pods of a `StatefulSet` `NAME-0`, `NAME-1` and so on, and the host of a pod has the pod's name.
//! So one configuration text gives each of them its own number, without a store that servers share.

use super::row::NumberOrWord;
use super::values::{Config, ConfigValues, ServerIdSource};
use getid_text::printable::printable_up_to;

/// The words in place of a number.
pub(super) const WORDS: &[&str] = &[AUTO, AUTO_ORDINAL];

/// The number is a free one of the claim store.
const AUTO: &str = "auto";

/// The number is at the end of the host's name.
const AUTO_ORDINAL: &str = "auto-ordinal";

/// Longest part of a host's name that is shown, characters; Linux has no longer ones.
const HOST_NAME_CHARS_MAX: usize = 64;

pub(super) fn set(values: &mut ConfigValues, value: NumberOrWord) {
    let config = &mut values.config;
    (config.server_id, config.server_id_from) = match value {
        NumberOrWord::Number(number) => {
            let number = u32::try_from(number).unwrap_or_else(|_| unreachable!("the row's range is narrower"));
            (number, ServerIdSource::Number)
        }
        NumberOrWord::Word(AUTO_ORDINAL) => (0, ServerIdSource::UnknownHostName),
        NumberOrWord::Word(_) => (0, ServerIdSource::ClaimStore),
    };
}

pub(super) fn get(values: &ConfigValues) -> NumberOrWord {
    match values.config.server_id_from {
        ServerIdSource::ClaimStore => NumberOrWord::Word(AUTO),
        ServerIdSource::UnknownHostName => NumberOrWord::Word(AUTO_ORDINAL),
        _ => NumberOrWord::Number(values.config.server_id.into()),
    }
}

impl Config {
    /// Returns the server-id if it is known, else the word in its place.
    pub fn shown_server_id(&self) -> String {
        match self.server_id_from {
            ServerIdSource::HostName => self.server_id.to_string(),
            from => written(from, self.server_id),
        }
    }
}

/// Returns the text of the directive with this meaning, for a file.
pub(super) fn written(from: ServerIdSource, number: u32) -> String {
    match from {
        ServerIdSource::ClaimStore => AUTO.to_owned(),
        ServerIdSource::HostName | ServerIdSource::UnknownHostName => AUTO_ORDINAL.to_owned(),
        ServerIdSource::Default | ServerIdSource::Number => number.to_string(),
    }
}

/// Returns the number after the last dash of a host's name, up to the first dot, as in `getid-3.getid.default.svc`;
/// `None` without one. A number that is too large for any layout is the largest of its type.
///
/// Digits without a dash are no ordinal: names of machines and of a Deployment's pods end in digits by chance.
pub fn ordinal(host_name: &str) -> Option<u32> {
    let (_, digits) = host_name.split('.').next()?.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// Returns the error about a host's name without a number at its end, and the remedy.
pub(super) fn no_ordinal(host_name: &str) -> (String, &'static str) {
    let sentence = format!(
        "server-id is auto-ordinal, but the host name is '{}'; must end in a dash and a number, as in getid-3",
        printable_up_to(host_name, HOST_NAME_CHARS_MAX)
    );
    let help = "run it in a StatefulSet without hostNetwork, whose pods are NAME-0, NAME-1 and so on; or give this \
                server a \
                number of its own, as with GETID_SERVER_ID=3";
    (sentence, help)
}

/// Returns the error about a number that does not fit the layout, and the remedy.
pub(super) fn range_error(host_name: &str, id_range: u32) -> (String, &'static str) {
    let sentence = format!(
        "server-id is auto-ordinal, and the host name is '{}'; the number at its end must be 0 to {}: id-range is \
         {id_range}",
        printable_up_to(host_name, HOST_NAME_CHARS_MAX),
        (1_u64 << id_range) - 1
    );
    let help = "run fewer replicas";
    (sentence, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host_name: &str, expected: Option<u32>) {
        assert_eq!(ordinal(host_name), expected, "{host_name}");
    }

    #[test]
    fn the_number_behind_the_last_dash() {
        check("getid-0", Some(0));
        check("getid-3", Some(3));
        check("ids-of-orders-12", Some(12));
        check("getid-3.getid.default.svc.cluster.local", Some(3));
        check("getid-03", Some(3));
        check("getid-2097152", Some(2_097_152));
        check("getid-99999999999999999999", Some(u32::MAX));
    }

    #[test]
    fn names_without_an_ordinal() {
        for name in
            ["", "-", ".", "getid", "getid3", "getid-", "getid-x3", "getid--", "3", "getid.a-3", "getid-+3", "getid-³"]
        {
            check(name, None);
        }
        // A Deployment's pod, and a container's id.
        check("getid-7d9f6c8b55-x2x94", None);
        check("3f2a9c1d0b47", None);
    }
}
