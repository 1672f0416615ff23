//! Key files of sealed generators, in memory. Single mistakes of declarations are in `mistakes/named-seal.conf`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use getid_config::{Config, ConfigReport, Files};
use getid_seal::Sealer;

use crate::change::sources;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Files in memory, each with its permission bits.
struct Modes(HashMap<&'static str, (String, u32)>);

impl Files for Modes {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let (text, _) = self.0.get(path.to_str().unwrap()).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.bytes().take(bytes_max + 1).collect())
    }

    fn matching(&self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn mode(&self, path: &Path) -> Option<u32> {
        Some(self.0.get(path.to_str().unwrap())?.1)
    }
}

fn files(config: &str, keys: &str, mode: u32) -> Modes {
    let keys = keys.replace("KEY", KEY);
    Modes([("t.conf", (config.to_owned(), 0o644)), ("k", (keys, mode))].into())
}

fn load(config: &str, keys: &str, mode: u32) -> Result<Config, ConfigReport> {
    Config::load(&sources("t.conf", &[], &[]), &files(config, keys, mode)).map(|(config, _)| config)
}

const TWO: &str = "generator order fork seal key-file k\ngenerator user sequence seal key-file k answer sealed";

#[test]
fn others_may_not_use_a_key_file_nor_its_group_write_it() {
    for mode in [0o600, 0o400, 0o700, 0o640, 0o440, 0o750] {
        let config = load(TWO, "0 KEY", mode).unwrap();
        assert_eq!(config.sealers.iter().map(Sealer::name).collect::<Vec<_>>(), ["order", "user"]);
        assert!(!format!("{config:?}").contains(&KEY[..8]) && !format!("{:?}", config.sealers).contains(&KEY[..8]));
    }
    for mode in [0o644, 0o604, 0o620, 0o601, 0o4622] {
        let report = load(TWO, "0 KEY", mode).unwrap_err().in_a_line(5);
        let expected = format!("generator user: key-file 'k' is open to other users (mode {mode:o})");
        assert!(report.contains(&expected) && report.ends_with("chmod g-w,o= k"), "{report}");
    }
}

/// Files whose permission bits are unknown.
struct Unknown(Modes);

impl Files for Unknown {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.0.read(path, bytes_max)
    }

    fn matching(&self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

#[test]
fn a_key_file_of_unknown_permissions_is_refused() {
    let files = Unknown(files(TWO, "0 KEY", 0o600));
    let report = Config::load(&sources("t.conf", &[], &[]), &files).unwrap_err().in_a_line(5);
    assert!(report.contains("key-file 'k' cannot be read: its permissions are unknown"), "{report}");
}

#[test]
fn a_reload_takes_other_keys_but_none_under_a_number_in_use() {
    let old = load(TWO, "0 KEY", 0o600).unwrap();
    let reload = |keys: &str| old.reloaded(&sources("t.conf", &[], &[]), &files(TWO, keys, 0o600));
    let other = KEY.replace('0', "f");
    let config = reload(&format!("0 KEY\n1 {other}")).unwrap().config;
    let numbers = |name: &[u8]| config.sealers.find(name).unwrap().keys().numbers().collect::<Vec<_>>();
    assert_eq!((numbers(b"order"), numbers(b"user")), (vec![0, 1], vec![0, 1]));
    assert!(reload(&format!("1 {other}")).is_ok());
    let report = reload(&format!("0 {other}")).unwrap_err().in_a_line(5);
    assert!(
        report.contains("generator order: key-file 'k' has another key of number 0 than this server had"),
        "{report}"
    );
    // Neither is a number free whose key was removed, or whose generator was.
    let other_keys = files(TWO, &format!("0 {other}"), 0o600);
    let later = reload(&format!("1 {other}")).unwrap().config;
    assert!(later.reloaded(&sources("t.conf", &[], &[]), &other_keys).is_err());
    let later = old.reloaded(&sources("t.conf", &[], &[]), &files("", "", 0o600)).unwrap().config;
    assert!(later.reloaded(&sources("t.conf", &[], &[]), &other_keys).is_err());
    // A server that starts has no keys, and takes those of the file.
    assert!(load(TWO, &format!("0 {other}"), 0o600).is_ok());
}

#[test]
fn the_words_of_a_seal_are_kept_and_the_keys_are_not() {
    let toml = "[generator.order]\nkind = 'fork'\nseal = true\nkey-file = 'k'\nalphabet = 'base62'\n\
                [generator.plain]\nkind = 'fork'\nseal = false";
    let files = Modes([("t.toml", (toml.to_owned(), 0o644)), ("k", (format!("0 {KEY}"), 0o600))].into());
    let (config, _) = Config::load(&sources("t.toml", &[], &[]), &files).unwrap();
    let lines: Vec<_> = config.generators.iter().map(|declared| declared.declared_text()).collect();
    assert!(lines[0].ends_with(" seal key-file k alphabet base62") && !lines[1].contains("seal"), "{lines:?}");
    assert_eq!(config.sealers.iter().len(), 1);
    // A record has no seal, and neither has what servers share.
    let declared = &config.generators[0];
    assert!(!declared.to_text().contains("seal") && !declared.common_text().contains("seal"));
}
