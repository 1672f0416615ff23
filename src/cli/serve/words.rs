//! From the words after `serve` and `check-config` to the sources of the configuration.

use getid_config::Sources;
use getid_system::host;

/// Returns the sources of the configuration. As in redis-server, the file is the first word, unless that is a
/// directive, or it follows `--config`. The environment is this process's own.
pub(super) fn sources(words: Vec<String>) -> Sources {
    let (file, words) = split_file(words);
    Sources {
        file: file.map(Into::into),
        environment: std::env::vars_os().collect(),
        words,
        host_name: Some(host::name()),
    }
}

/// Splits the words into the file and the directives. A `--config` without a file, and a second one, stay among the
/// directives, so that the configuration reports the error.
fn split_file(mut words: Vec<String>) -> (Option<String>, Vec<String>) {
    if words.first().is_some_and(|word| !word.starts_with('-')) {
        let file = words.remove(0);
        return (Some(file), words);
    }
    if let Some(place) = words.iter().position(|word| word == "--config") {
        if words.get(place + 1).is_some_and(|word| !word.starts_with("--")) {
            let file = words.remove(place + 1);
            words.remove(place);
            return (Some(file), words);
        }
    } else if let Some(place) = words.iter().position(|word| word.starts_with("--config=")) {
        let file = words.remove(place).split_off("--config=".len());
        return (Some(file), words);
    }
    (None, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, file: Option<&str>, rest: &[&str]) {
        let (found, words) = split_file(line.split_whitespace().map(str::to_owned).collect());
        assert_eq!((found.as_deref(), words), (file, rest.iter().map(|&word| word.to_owned()).collect()), "{line}");
    }

    #[test]
    fn the_file_is_the_first_word_or_follows_config() {
        check("", None, &[]);
        check("a.conf", Some("a.conf"), &[]);
        check("--port 1", None, &["--port", "1"]);
        check("a.conf --port 1", Some("a.conf"), &["--port", "1"]);
        check("--config a.conf", Some("a.conf"), &[]);
        check("--config=a.conf --port 1", Some("a.conf"), &["--port", "1"]);
        check("--port 1 --config a.conf --hz 5", Some("a.conf"), &["--port", "1", "--hz", "5"]);
    }

    #[test]
    fn a_wrong_config_option_stays_among_the_directives() {
        check("-p 7000", None, &["-p", "7000"]);
        check("--config", None, &["--config"]);
        check("--config --port 1", None, &["--config", "--port", "1"]);
        check("a.conf --config b.conf", Some("a.conf"), &["--config", "b.conf"]);
        check("--config a.conf --config b.conf", Some("a.conf"), &["--config", "b.conf"]);
    }
}
