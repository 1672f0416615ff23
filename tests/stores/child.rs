//! A process with an open store that runs the commands of a test. Tests kill it and make its disk fail.
//!
//! It is this test binary again, running one test. That test does nothing unless a test started the process.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use getid_store::sql::StoreError;

use crate::db::{Db, ask, create, range};
use crate::sqlite::store_in;

const DIR: &str = "GETID_TEST_STORE_DIR";

/// Prefix of each answer. It separates answers from the lines that the test harness prints.
const ANSWER: &str = "answer: ";

/// A child process with a store in a folder.
pub(crate) struct ChildStore {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl ChildStore {
    pub(crate) fn start(dir: &Path, prepare: impl FnOnce(&mut Command)) -> ChildStore {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", "child::the_process_that_tests_start"]).env(DIR, dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()).lines());
        ChildStore { child, input, output }
    }

    /// Sends a command and returns its answer: `open`, `create NAME`, `reserve NAME VALUES`, `batch ROUND`, `close`.
    #[track_caller]
    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.send(words);
        self.answer().expect("an answer")
    }

    /// Sends a command without reading the answer. `loop NAME VALUES` reserves until the process ends.
    pub(crate) fn send(&mut self, words: &str) {
        writeln!(self.input.as_mut().unwrap(), "{words}").unwrap();
    }

    /// Returns the next answer, or `None` after the process has ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        self.output.by_ref().map_while(Result::ok).find_map(|line| line.strip_prefix(ANSWER).map(str::to_owned))
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for ChildStore {
    fn drop(&mut self) {
        // A failed test leaves no child process behind.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_process_that_tests_start() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = store_in(Path::new(&dir));
    let mut db = None;
    // On a machine with one processor the harness has already printed the test's name without a line break.
    println!();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let message = |error: StoreError| match error {
            StoreError::Refused(text) | StoreError::Locked(text) => format!("refused {text}"),
            StoreError::Unknown(text) => format!("unknown {text}"),
        };
        let answer = match (&words[..], &mut db) {
            (["open"], _) => match Db::of(&*store) {
                Err(error) => message(error),
                Ok(opened) => {
                    let warnings = opened.info().warnings.join("; ");
                    db = Some(opened);
                    format!("open {warnings}")
                }
            },
            (["close"], db) => {
                *db = None;
                "closed".to_owned()
            }
            (["create", name], Some(db)) => match db.try_create(&create(name, "")) {
                Err(error) => message(error),
                Ok(created) => format!("{:?}", created.map(|row| row.next)),
            },
            (["reserve", name, values], Some(db)) => reserve(db, name, values).unwrap_or_else(message),
            (["batch"], Some(db)) => {
                let asks: Vec<_> = (0..getid_store::sql::BATCH_MAX).map(|n| ask(&format!("s{n}"), 100)).collect();
                match db.try_reserve(&asks) {
                    Err(error) => message(error),
                    Ok(answers) => format!("{}", answers.iter().filter(|answer| answer.is_ok()).count()),
                }
            }
            (["loop", name, values], Some(db)) => loop {
                let answer = reserve(db, name, values).unwrap_or_else(message);
                println!("{ANSWER}{answer}");
            },
            _ => panic!("{line}"),
        };
        println!("{ANSWER}{answer}");
    }
}

fn reserve(db: &mut Db, name: &str, values: &str) -> Result<String, StoreError> {
    let answer = db.try_reserve(&[ask(name, values.parse().unwrap())])?.remove(0);
    Ok(match answer.as_ref().map(range) {
        Ok((first, last)) => format!("{first} {last}"),
        Err(verdict) => format!("{verdict:?}"),
    })
}
