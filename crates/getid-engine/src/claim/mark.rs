//! Marks in records that were moved, or are being moved, to another place.
//!
//! A record with two valid copies gives IDs twice. So `getid state move` marks the old record before it makes the new
//! one, and the mark stays. A start, a standby or a tool that reads the mark refuses, and names the place.
//!
//! A place is the address of a store without its password, or `file:PATH` for a folder.
//!
//! Pure.

use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use getid_text::percent::{decode, encode, encode_word};
use getid_text::shell::shell_word;
use getid_text::store_url::for_command;

/// Longest place, in bytes: any address of a store, or a path in which every byte is written with three.
pub(crate) const PLACE_BYTES_MAX: usize = 3 * 4096 + 16;

const MARK: &str = "mark ";
const MOVING_TO: &str = "moving-to";
const MOVED_TO: &str = "moved-to";
const FOLDER: &str = "file:";

/// Place to which a record was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The move has begun, and the record there may be complete or not.
    MovingTo(RecordLocation),
    /// The move is complete.
    MovedTo(RecordLocation),
}

impl Mark {
    /// Returns the destination.
    pub fn place(&self) -> &RecordLocation {
        match self {
            Mark::MovingTo(place) | Mark::MovedTo(place) => place,
        }
    }

    /// Returns the line of a record.
    pub(crate) fn to_line(&self) -> String {
        let word = match self {
            Mark::MovingTo(_) => MOVING_TO,
            Mark::MovedTo(_) => MOVED_TO,
        };
        format!("{MARK}{word} {}", self.place())
    }

    /// Parses the line of a record; `None` for any other line.
    pub(crate) fn from_line(line: &str) -> Option<Mark> {
        let (word, place) = line.strip_prefix(MARK)?.split_once(' ')?;
        let place = RecordLocation::read(place)?;
        match word {
            MOVING_TO => Some(Mark::MovingTo(place)),
            MOVED_TO => Some(Mark::MovedTo(place)),
            _ => None,
        }
    }

    /// Returns the remedy for this mark in the record of `server_id` at `here`, as the end of a sentence.
    pub fn remedy(&self, server_id: u32, here: &RecordLocation) -> String {
        let command = |from: &RecordLocation, to: &RecordLocation| {
            let [from, to] = [from, to].map(RecordLocation::argument);
            format!("`getid state move --server-id {server_id} --from {from} --to {to}`")
        };
        let place = self.place();
        match self {
            Mark::MovingTo(_) => format!("finish the move: run {} once more", command(here, place)),
            Mark::MovedTo(_) => {
                let directive = match place.folder() {
                    Some(dir) => format!("claim-store file and dir {}", dir.display()),
                    None => format!("claim-store {}", for_command(place.as_str())),
                };
                format!("start the server with {directive}; or, to move it back here, run {}", command(place, here))
            }
        }
    }
}

impl fmt::Display for Mark {
    /// Formats the text that follows the record's name and ": ".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::MovingTo(place) => write!(f, "it is being moved to {place}, and no server may start with it here"),
            Mark::MovedTo(place) => write!(f, "it was moved to {place}, and no server may start with it here"),
        }
    }
}

/// The place of a record: printable ASCII without blanks, and without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordLocation(String);

impl RecordLocation {
    /// Returns the place of a store, from its address without a password.
    pub fn of_store(shown: &str) -> RecordLocation {
        RecordLocation(encode(shown.as_bytes()))
    }

    /// Returns the place of a folder, from its absolute path.
    pub fn of_folder(dir: &Path) -> RecordLocation {
        RecordLocation(format!("{FOLDER}{}", encode_word(dir.as_os_str().as_bytes())))
    }

    /// Returns the path if the place is a folder.
    pub fn folder(&self) -> Option<PathBuf> {
        let path = decode(self.0.strip_prefix(FOLDER)?.as_bytes())?;
        Some(PathBuf::from(std::ffi::OsString::from_vec(path.into())))
    }

    /// Parses the text of a record; `None` if it is not a place.
    fn read(text: &str) -> Option<RecordLocation> {
        let fits = (1..=PLACE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| RecordLocation(text.to_owned()))
    }

    /// Returns the text as written in a record.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the place as an argument in a shell.
    pub fn argument(&self) -> String {
        match self.folder() {
            Some(dir) => shell_word(&dir.display().to_string()),
            None => shell_word(&for_command(&self.0)),
        }
    }
}

impl fmt::Display for RecordLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn folders_of_any_name_are_places() {
        for (path, place) in [
            (&b"/var/lib/getid"[..], "file:/var/lib/getid"),
            (b"/a b/100%", "file:/a%20b/100%25"),
            ("/tür".as_bytes(), "file:/t%C3%BCr"),
            (b"/\xff\n", "file:/%FF%0A"),
        ] {
            let path = Path::new(OsStr::from_bytes(path));
            let found = RecordLocation::of_folder(path);
            assert_eq!((found.as_str(), found.folder().as_deref()), (place, Some(path)));
            let mark = Mark::MovedTo(found);
            assert_eq!(Mark::from_line(&mark.to_line()), Some(mark));
        }
        let long = RecordLocation::of_folder(Path::new(OsStr::from_bytes(&[0xff; 4096])));
        assert_eq!(RecordLocation::read(long.as_str()).as_ref(), Some(&long), "the longest path");
        assert_eq!(RecordLocation::of_store("etcd://a,b/p%20").folder(), None);
        assert_eq!(RecordLocation::of_store("etcd://a,b/p%20").as_str(), "etcd://a,b/p%20");
    }

    #[test]
    fn only_lines_of_marks_are_marks() {
        let moving = Mark::MovingTo(RecordLocation::of_store("etcd://a:2379/getid"));
        assert_eq!(moving.to_line(), "mark moving-to etcd://a:2379/getid");
        assert_eq!(Mark::from_line(&moving.to_line()), Some(moving));
        for other in
            ["", "mark", "mark moved-to", "mark moved-to ", "mark moved to x", "mark moved-to a b", "moved-to x"]
        {
            assert_eq!(Mark::from_line(other), None, "{other}");
        }
        assert_eq!(Mark::from_line(&format!("mark moved-to {}", "x".repeat(PLACE_BYTES_MAX + 1))), None);
    }

    #[test]
    fn remedies_are_commands() {
        let (folder, store) = (RecordLocation::of_folder(Path::new("/my ids")), RecordLocation::of_store("etcd://a/x"));
        assert_eq!(
            Mark::MovingTo(store.clone()).remedy(3, &folder),
            "finish the move: run `getid state move --server-id 3 --from '/my ids' --to etcd://a/x` once more"
        );
        assert_eq!(
            Mark::MovedTo(store.clone()).remedy(3, &folder),
            "start the server with claim-store etcd://a/x; or, to move it back here, run `getid state move --server-id \
             3 --from etcd://a/x --to '/my ids'`"
        );
        assert!(
            Mark::MovedTo(folder)
                .remedy(3, &store)
                .starts_with("start the server with claim-store file and dir /my ids; or")
        );
    }
}
