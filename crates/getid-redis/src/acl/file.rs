//! An ACL file: a `user` line for each user, as `ACL SAVE` writes them.
//!
//! A file is taken as a whole: with one mistake in it, no line counts. All mistakes are reported at once, in Redis's
//! words.

use std::collections::HashSet;

use super::{LINE_BYTES_MAX, RuleError, SetUserError, User, Users, check_size, merge_selectors, user};
use getid_text::printable::printable;

/// A mistake in an ACL file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclLineError {
    /// The line's number, from 1.
    pub line: usize,
    /// The mistake as a sentence, without a password or a control character.
    pub sentence: String,
    /// The mistake in Redis's words, with the file's name and the line's number.
    pub in_redis: String,
}

/// Mistakes that are reported at most: a file of another format has one on each line.
const FAULTS_MAX: usize = 100;

/// Reads an ACL file that is called `name`. Without a line for the default user, that user may run everything without a
/// password, whatever `requirepass` is: as in Redis.
///
/// # Errors
///
/// Every mistake, by line; at most 100.
pub fn parse_file(name: &str, text: &[u8]) -> Result<Users, Vec<AclLineError>> {
    let mut reader = AclFileReader { name, users: Users::default(), defined: HashSet::new(), faults: Vec::new() };
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = trim(line, b" \t\r\n");
        if !line.is_empty() {
            reader.line(index + 1, line);
        }
        if reader.faults.len() >= FAULTS_MAX {
            break;
        }
    }
    if reader.faults.is_empty() { Ok(reader.users) } else { Err(reader.faults) }
}

struct AclFileReader<'a> {
    name: &'a str,
    users: Users,
    defined: HashSet<Vec<u8>>,
    faults: Vec<AclLineError>,
}

impl AclFileReader<'_> {
    fn fault(&mut self, line: usize, sentence: impl Into<String>, in_redis: impl Into<String>) {
        self.faults.push(AclLineError { line, sentence: sentence.into(), in_redis: in_redis.into() });
    }

    fn line(&mut self, line: usize, text: &[u8]) {
        let file = self.name;
        if text.len() > LINE_BYTES_MAX {
            let error = SetUserError::TooLong;
            return self.fault(line, error.to_string(), format!("{file}:{line}: {error}. "));
        }
        let mut words = text.split(|byte| *byte == b' ');
        let (first, name) = (words.next(), words.next());
        let (Some(b"user"), Some(name)) = (first, name) else {
            let sentence = "must begin with 'user' and a name; an ACL file has no comments";
            let in_redis = format!("{file}:{line} should start with user keyword followed by the username. ");
            return self.fault(line, sentence, in_redis);
        };
        if !user::is_name(name) {
            let sentence = format!("the name '{}' must be UTF-8 without blanks", printable_word(name));
            let name = lossy_word(name);
            return self.fault(
                line,
                sentence,
                format!("'{file}:{line}: username '{name}' contains invalid characters. "),
            );
        }
        let rules: Vec<&[u8]> = words.map(|word| trim(word, b"\t\r\n")).collect();
        if !self.defined.insert(name.to_vec()) {
            let sentence = format!("the user '{}' is defined in an earlier line", printable_word(name));
            let name = lossy_word(name);
            return self.fault(line, sentence, format!("WARNING: Duplicate user '{name}' found on line {line}. "));
        }
        if let Err(error) = check_size(&rules) {
            return self.fault(line, error.to_string(), format!("{file}:{line}: {error}. "));
        }
        self.find_faults(line, &rules);
        if self.faults.is_empty()
            && let Err(error) = self.users.define(name, &rules)
        {
            self.fault(line, error.to_string(), format!("{file}:{line}: {error}. "));
        }
    }

    /// Reports every unknown name, and the first of the other mistakes, from which more may follow: as in Redis.
    fn find_faults(&mut self, line: usize, rules: &[&[u8]]) {
        let file = self.name;
        let Ok(rules) = merge_selectors(rules) else {
            let text = SetUserError::Parenthesis { start: 0 };
            return self.fault(
                line,
                text.to_string(),
                format!("{file}:{line}: Unmatched parenthesis in selector definition. "),
            );
        };
        let mut tried = User::new("");
        let mut has_other = false;
        for rule in rules {
            match tried.take_rule(&rule) {
                Ok(()) => {}
                Err(error @ RuleError::Unknown) => {
                    let sentence = format!("'{}': {error}", printable_word(&rule));
                    let rule = lossy_word(&rule);
                    self.fault(
                        line,
                        sentence,
                        format!("{file}:{line}: Error in applying operation '{rule}': {error}. "),
                    );
                }
                Err(error) => {
                    if !std::mem::replace(&mut has_other, true) {
                        self.fault(line, error.to_string(), format!("{file}:{line}: {error}. "));
                    }
                }
            }
        }
    }
}

fn trim<'a>(text: &'a [u8], away: &[u8]) -> &'a [u8] {
    let start = text.iter().take_while(|byte| away.contains(byte)).count();
    let text = &text[start..];
    let after = text.iter().rev().take_while(|byte| away.contains(byte)).count();
    &text[..text.len() - after]
}

/// The longest quoted word of an error, bytes.
const SHOWN_BYTES_MAX: usize = 128;

fn lossy_word(word: &[u8]) -> String {
    String::from_utf8_lossy(&word[..word.len().min(SHOWN_BYTES_MAX)]).into_owned()
}

/// A word of a client or file, fit for a terminal.
fn printable_word(word: &[u8]) -> String {
    printable(&lossy_word(word)).into_owned()
}
