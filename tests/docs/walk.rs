//! Runs the command blocks of a page as its reader would: in order, from nothing, in one shell in an empty folder.
//!
//! Blocks of `sh` and `console` are commands. A block in another language is a file, which a comment in its first line
//! names. A block of `text` is ignored. A server in the foreground runs as in its own terminal. Commands run as
//! printed, except that ports are free ones. `cargo run --release -- ` runs the program under test without a build.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::readme::{Fence, fences};
use crate::support::{binary, eventually, free_port, getid};

/// Maximum time of a command. Some commands fetch packages, or create the folder of a database.
const COMMAND_PATIENCE: Duration = Duration::from_mins(15);

/// The words by which a page starts the program that it builds.
const BUILT: &str = "cargo run --release -- ";

/// redis-cli prints `(integer) 1` on a terminal and `1` into a pipe. This wrapper makes it print to a file as to a
/// terminal.
const REDIS_CLI: &str =
    "#!/bin/sh\n[ -p /dev/stdout ] || format=--no-raw\nPATH=${PATH#*:} exec redis-cli $format \"$@\"\n";

/// A page whose commands run.
struct Walk {
    page: String,
    /// Ports of the page, and the ports that replace them.
    ports: Vec<(String, u16)>,
    shell: Child,
    input: ChildStdin,
    exits: mpsc::Receiver<String>,
    /// Servers that run as in their own terminals.
    terminals: Vec<Child>,
    /// The folder in which commands run.
    folder: PathBuf,
    dir: tempfile::TempDir,
}

/// The outcome of a command or block.
struct Outcome {
    status: i32,
    printed: String,
}

/// Runs a page from its first block to its last. `settings` are environment variables.
pub(crate) fn follow(page: &str, ports: &[&str], settings: &[(&str, &str)]) {
    let mut walk = Walk::begin(page, ports, settings);
    for fence in fences(page) {
        walk.block(&fence);
    }
}

/// Runs the blocks of these sections of a page, in this order. `prepare` gets the folder in which commands run, and a
/// folder of the PATH.
pub(crate) fn follow_sections(
    page: &str,
    sections: &[&str],
    ports: &[&str],
    settings: &[(&str, &str)],
    prepare: impl FnOnce(&Path, &Path),
) {
    let mut walk = Walk::begin(page, ports, settings);
    prepare(&walk.folder, &walk.dir.path().join("bin"));
    let fences = fences(page);
    for section in sections {
        assert!(fences.iter().any(|fence| fence.section == *section), "{page} has no block under '{section}'");
        for fence in fences.iter().filter(|fence| fence.section == *section) {
            walk.block(fence);
        }
    }
}

impl Walk {
    /// Starts a shell in a new folder, with the program under test in its PATH.
    fn begin(page: &str, ports: &[&str], settings: &[(&str, &str)]) -> Walk {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, bin) = (dir.path().join("walk"), dir.path().join("bin"));
        for new in [&folder, &bin] {
            fs::create_dir(new).expect("a folder");
        }
        std::os::unix::fs::symlink(binary(), bin.join("getid")).expect("linked");
        let redis_cli = bin.join("redis-cli");
        fs::write(&redis_cli, REDIS_CLI).expect("written");
        fs::set_permissions(&redis_cli, fs::Permissions::from_mode(0o755)).expect("to run");
        let ports: Vec<_> = ports.iter().map(|port| ((*port).to_owned(), free_port())).collect();

        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-e"]).current_dir(&folder);
        let mut path = vec![bin];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").expect("a PATH")));
        command.env("PATH", std::env::join_paths(path).expect("a PATH"));
        // The environment is that of `getid` in other tests, with its default port and folder among those of this test.
        for (name, value) in getid().get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some((_, port)) = ports.iter().find(|(shown, _)| shown == "7890") {
            command.env("GETID_PORT", port.to_string());
        }
        command.env("GETID_DIR", dir.path().join("state")).env("HOME", dir.path()).envs(settings.iter().copied());
        // Notices of newer versions are not part of a page's output.
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("npm_config_update_notifier", "false");
        // The walk's own process group, which ends with it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().expect("bash runs");
        let lines = BufReader::new(shell.stdout.take().expect("piped")).lines();
        let (sender, exits) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let input = shell.stdin.take().expect("piped");
        Walk { page: page.to_owned(), ports, shell, input, exits, terminals: Vec::new(), folder, dir }
    }

    /// Runs a block, or writes the file that it contains.
    fn block(&mut self, fence: &Fence) {
        let text = self.with_ports(&fence.text);
        match fence.language.as_str() {
            "sh" if self.starts_server(&text) => {}
            "sh" => {
                let outcome = self.run(&text, true);
                assert_eq!(outcome.status, 0, "{}:\n{text}\n{}", self.page, outcome.printed);
            }
            "console" => self.console(&text),
            "text" if file_name(&fence.text).is_none() => {}
            _ => {
                let name = file_name(&fence.text).unwrap_or_else(|| {
                    panic!("{}: the first line of a block names its file in a comment:\n{}", self.page, fence.text)
                });
                fs::write(self.folder.join(name), text).expect("written");
            }
        }
    }

    /// Runs each command of a `console` block, and compares its output.
    fn console(&mut self, text: &str) {
        for part in format!("\n{text}").split("\n$ ").skip(1) {
            let mut lines = part.lines();
            let mut command = lines.next().unwrap_or_default().to_owned();
            while command.ends_with('\\') {
                command = format!("{command}\n{}", lines.next().unwrap_or_default());
            }
            if self.starts_server(&command) {
                continue;
            }
            let shown = lines.collect::<Vec<_>>().join("\n");
            let Outcome { status, printed } = self.run(&command, false);
            let is_refusal = ["getid: ", "(error)", "*** FATAL"].iter().any(|start| shown.starts_with(start));
            assert!(status == 0 || is_refusal, "{}: {command}: status {status}\n{printed}", self.page);
            assert_eq!(
                shape(&printed),
                shape(&shown),
                "{}: {command}\nprinted:\n{printed}\nshown:\n{shown}",
                self.page
            );
        }
    }

    /// Starts a server as in its own terminal, if the command is one. Returns whether it was.
    fn starts_server(&mut self, command: &str) -> bool {
        let command = command.trim();
        let words = command.strip_prefix("getid ").or_else(|| command.strip_prefix(BUILT)).unwrap_or_default();
        if !words.starts_with("serve") || command.contains(['&', '\n']) {
            return false;
        }
        let log = self.dir.path().join(format!("terminal-{}", self.terminals.len()));
        let file = fs::File::create(&log).expect("a log");
        let mut server = Command::new("bash");
        server.args(["--noprofile", "--norc", "-c", &format!("exec getid {words}")]).current_dir(&self.folder);
        let shell = format!("/proc/{}/environ", self.shell.id());
        let environment = fs::read(shell).expect("the shell's environment");
        for pair in String::from_utf8_lossy(&environment).split('\0') {
            if let Some((name, value)) = pair.split_once('=') {
                server.env(name, value);
            }
        }
        server.process_group(0).stdin(Stdio::null()).stdout(file.try_clone().expect("a log")).stderr(file);
        let mut child = server.spawn().expect("bash runs");
        eventually("the server is ready", || {
            let printed = fs::read_to_string(&log).unwrap_or_default();
            assert!(child.try_wait().expect("its status").is_none(), "{}: {command}:\n{printed}", self.page);
            printed.contains("Ready to accept connections")
        });
        self.terminals.push(child);
        true
    }

    /// Runs commands in the shell. With `to_the_first_failure` the shell ends at the first failure.
    fn run(&mut self, commands: &str, to_the_first_failure: bool) -> Outcome {
        let output = self.dir.path().join("output");
        let set = if to_the_first_failure { "set -e" } else { "set +e" };
        let commands = commands.replace(BUILT, "getid ");
        let script =
            format!("{set}\n{{ {}\n}} >'{}' 2>&1 </dev/null\necho $?\n", commands.trim_end(), output.display());
        // If the shell has ended, the wait below reports it.
        let _ = self.input.write_all(script.as_bytes());
        let exit = self.exits.recv_timeout(COMMAND_PATIENCE);
        let printed = fs::read_to_string(&output).unwrap_or_default().trim_end().to_owned();
        let status =
            exit.unwrap_or_else(|error| panic!("{}: {error}:\n{commands}\n{printed}\n{}", self.page, self.logs()));
        Outcome { status: status.parse().expect("an exit status"), printed }
    }

    /// Returns the logs in the folder of the walk, for the message of a failure.
    fn logs(&self) -> String {
        let files = fs::read_dir(self.dir.path().join("walk")).into_iter().flatten().flatten();
        let logs = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|kind| kind == "log"));
        let shown = logs.map(|path| format!("{}:\n{}", path.display(), fs::read_to_string(&path).unwrap_or_default()));
        shown.collect()
    }

    fn with_ports(&self, text: &str) -> String {
        let mut mapped = String::new();
        for (at, run) in runs(text, |char| char.is_ascii_digit()) {
            let port = self.ports.iter().find(|(shown, _)| at && shown == run);
            mapped.push_str(&port.map_or_else(|| run.to_owned(), |(_, port)| port.to_string()));
        }
        mapped
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        for child in self.terminals.iter_mut().chain([&mut self.shell]) {
            let group = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
            let _ = killpg(group, Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

/// Returns the file name in the comment in a block's first line.
fn file_name(text: &str) -> Option<&str> {
    let first = text.lines().next()?;
    let name = ["# ", "// ", "-- "].iter().find_map(|comment| first.strip_prefix(comment))?;
    let is_name = name.contains('.') && !name.ends_with('.') && Path::new(name).is_relative();
    (is_name && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte))).then_some(name)
}

/// Splits a text into runs of characters for which `of_kind` is true or false, each with that value.
fn runs(text: &str, of_kind: fn(char) -> bool) -> Vec<(bool, &str)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = of_kind(first);
        let end = rest.find(|char| of_kind(char) != kind).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        parts.push((kind, part));
        rest = behind;
    }
    parts
}

/// Returns a text with the parts that differ from run to run (IDs, times and UUIDs) as `#`. Short numbers stay.
fn shape(text: &str) -> String {
    let is_of_word = |char: char| char.is_ascii_alphanumeric() || "-:.".contains(char);
    let mut shape = String::new();
    for (is_word, word) in runs(text.trim_end(), is_of_word) {
        if !is_word {
            shape.push_str(word);
        } else if is_uuid(word) || is_time(word) || is_seconds(word) {
            shape.push('#');
        } else {
            for (is_run, run) in runs(word, |char| char.is_ascii_alphanumeric()) {
                let (before, year) = run.split_at(if is_run { year_at(run) } else { run.len() });
                shape.push_str(if is_run && is_id(run) { "#" } else { before });
                shape.push_str(if year.is_empty() { "" } else { "YEAR" });
            }
        }
    }
    shape
}

/// Returns true for at least 10 digits, or digits and letters of both cases, unlike any word.
fn is_id(run: &str) -> bool {
    let has_digit = run.bytes().any(|byte| byte.is_ascii_digit());
    let is_mixed = run.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    run.len() >= 10 && (has_digit || is_mixed)
}

/// Returns the position of the year at the end of a run of letters, as in `INV2026`. The year differs next year.
fn year_at(run: &str) -> usize {
    let letters = run.trim_end_matches(|char: char| char.is_ascii_digit()).len();
    if letters > 0 && run[letters..].starts_with("20") && run.len() - letters == 4 { letters } else { run.len() }
}

fn is_uuid(word: &str) -> bool {
    let lengths = word.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Whether a word is a time in the format of RFC 3339.
fn is_time(word: &str) -> bool {
    let form: String = word.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    form.starts_with("0000-00-00T00:00:00")
}

/// Whether a word is Unix seconds with a fraction.
fn is_seconds(word: &str) -> bool {
    word.split_once('.').is_some_and(|(seconds, rest)| is_id(seconds) && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[test]
fn shapes_keep_the_promised_parts() {
    for (one, other) in [
        ("(integer) 786829715689177835", "(integer) 799999999999999999"),
        ("\"01a204c9-3e38-7000-8ca2-eb44e2339e20\"", "\"abcdefab-cdef-abcd-efab-cdefabcdefab\""),
        ("INV20261122-000042", "INV20271231-000042"),
        ("INV2026-000042", "INV2027-000042"),
        ("at 2026-11-22T17:35:38.491Z, 1", "at 2027-01-01T00:00:00.000Z, 1"),
        ("[1795732956.942,\"1\"]", "[1795733164.8,\"1\"]"),
    ] {
        assert_eq!(shape(one), shape(other));
    }
    for (one, other) in [
        ("INV20261122-000042", "INV20261122-000043"),
        ("INV2026-000042", "INV2026-000043"),
        ("(integer) 4712", "(integer) 4713"),
        ("a", "b"),
    ] {
        assert_ne!(shape(one), shape(other));
    }
}

#[test]
fn a_block_is_the_file_that_its_first_line_names() {
    assert_eq!(file_name("# getid.conf\nport 1\n"), Some("getid.conf"));
    assert_eq!(file_name("// ids.mjs\n"), Some("ids.mjs"));
    for none in ["# A sentence.\n", "port 7890\n", "# /etc/getid.conf\n", "# words of a sentence.conf\n"] {
        assert_eq!(file_name(none), None, "{none}");
    }
}
