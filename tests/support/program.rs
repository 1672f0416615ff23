//! Programs that tests run: bounded in time, with all their output.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Default time limit of a program.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Runs a program to its end, with `input` on its standard input. Returns its output on both streams.
pub fn run(command: &mut Command, input: &str) -> String {
    let output = finish(command, input, PATIENCE, false);
    let text = both(&output);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

/// Runs a program that must end with an exit code other than 0. Returns its output on both streams.
pub fn fails(command: &mut Command) -> String {
    let output = finish(command, "", PATIENCE, false);
    let text = both(&output);
    assert!(output.status.code().is_some_and(|code| code != 0), "{command:?}: {}\n{text}", output.status);
    text
}

/// Runs a program for `time`, since it may not end. Returns its standard output.
pub fn run_for(command: &mut Command, time: Duration) -> String {
    let output = finish(command, "", time, true);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the output on both streams.
pub fn both(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub fn finish(command: &mut Command, input: &str, time: Duration, may_hang: bool) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} is not installed: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.as_bytes().to_vec();
    let writer = std::thread::spawn(move || {
        // A program that ends early does not read the rest.
        let _ = stdin.write_all(&input);
    });
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let is_late = end.recv_timeout(time).is_err_and(|why| why == std::sync::mpsc::RecvTimeoutError::Timeout);
        if is_late {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        is_late
    });
    let output = child.wait_with_output().expect("its output");
    let _ = ended.send(());
    writer.join().expect("written");
    let was_late = watch.join().expect("watched");
    assert!(may_hang || !was_late, "{command:?} hangs:\n{}", String::from_utf8_lossy(&output.stdout));
    output
}
