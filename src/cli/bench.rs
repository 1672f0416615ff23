//! `getid bench`: a load generator for any server that speaks Redis's protocol.
//!
//! The bench measures three figures: requests a second, the latency of a batch, and the CPU time of a request. CPU time
//! is the steady figure on a machine with other work, because it hardly depends on the speed of the other side.
//!
//! The load is closed: each connection sends its next batch when the last reply of the previous batch has arrived. So
//! the latency is that of a saturated server, not of a given request rate.
//!
//! A run goes from idle to idle: no request is in flight when it starts, and it ends with the last reply. So the CPU
//! time belongs to exactly the replies that are counted.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;

use super::exit::{CliError, EXIT_FAILED, EXIT_NEGATIVE, ToolError, finish};
use super::generator_args::{FieldError, GeneratorArgs};
use super::output::{print_report, progress_bar};
use super::server_args::{SERVER_HELP, ServerArgs, ServerArgsError, TIMEOUT_MS_DEFAULT};
use super::verify::seconds;
use getid_text::plural::thousands;
use getid_tools::address::names_server;
use getid_tools::at_limit;
use getid_tools::bench::load::{BenchError, BenchPlan, LoadGenerator, RunEnd};
use getid_tools::bench::report::{self, BenchOptions, BenchReport};
use getid_tools::bench::usage::{PID_MAX, ServerUsage, UsageError};
use getid_tools::bench::{Workload, WorkloadError, csv, svg};

/// Duration of a run without `--seconds` and `--count`, s.
const SECONDS_DEFAULT: f64 = 5.0;

/// Descriptors reserved for everything except connections.
const RESERVED_FILES: u64 = 32;

/// Time within which a process that has just answered sleeps, so that the kernel has added up its CPU time.
const SETTLE: Duration = Duration::from_millis(2);

/// Arguments of `getid bench`.
#[derive(Args)]
#[command(override_usage = "getid bench [SERVER] [COMMAND]... [OPTIONS]", after_help = format!("\
{SERVER_HELP}

The default command is GETID. Words that begin with - follow --. A first word with a colon or a slash is the server.

Words of the report:
  request     a command, which gets one reply; MULTI and EXEC are requests too
  batch       what a connection has in flight; the next follows its last reply
  latency     of a batch: from its write to its last reply
  busy        share of the run in which the busiest thread ran
  waited      share in which that thread was ready to run, and another program ran

With --pid the report has the server's CPU time, in total and per request. The server must run on this machine.
Run load and server on different processors (taskset), otherwise each affects the other's figures.

The last line of the report names the limit. A limit of the load generator means that the server could do more. For a limit of
the server's layout it names the shard-range that holds the requested rate (the user needs +info). Over TLS the load generator
needs much CPU time: give it its own processor.

Exit code 0: done; 1: the server sent error replies (a run that gets only errors ends at once); 2: the command line is
wrong, or a connection failed.

Examples:
  getid bench
  getid bench -c 50 -P 16 --seconds 10 --pid $(pidof getid)
  getid bench -P 100 MGETID 100
  getid bench --generator order -n 10000           # as getid bench GETID order
  getid bench --transaction 16 GETID               # MULTI, 16 GETID, EXEC
  getid bench -p 6379 -c 50 INCR counter           # any server that speaks RESP
  getid bench rediss://ids.example.com:7891 --cacert ca.pem
  getid bench --seconds 30 --svg latency.svg --csv latency.csv
  taskset -c 1 getid bench --json --unix /run/getid/getid.sock"))]
pub(super) struct BenchArgs {
    /// The server, and the command to send, word by word [default: GETID]
    #[arg(value_name = "SERVER|COMMAND", allow_negative_numbers = true)]
    words: Vec<String>,
    /// Number of connections
    #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Commands in flight on each connection, or transactions
    #[arg(short = 'P', long, value_name = "DEPTH", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pipeline: u32,
    /// Send MULTI, N times the command, EXEC
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    transaction: Option<u32>,
    /// Seconds to send [default: 5, unless -n is given]
    #[arg(short, long, value_name = "S", value_parser = seconds, conflicts_with = "requests")]
    seconds: Option<f64>,
    /// Requests to send, rounded up to whole transactions
    #[arg(short = 'n', long = "count", visible_alias = "requests", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Seconds to send before the measurement
    #[arg(long, value_name = "S", value_parser = seconds)]
    warm_up: Option<f64>,
    /// Threads that share the connections; more than one only with processors to spare
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// The server's process, to measure its CPU time
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..=i64::from(PID_MAX)))]
    pid: Option<i32>,
    /// Continue although every request gets an error
    #[arg(long)]
    keep_going: bool,
    /// Write the latency curve to a file, as a table
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the latency curve to a file, as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    generator: GeneratorArgs,
    #[command(flatten)]
    at: ServerArgs,
}

impl BenchArgs {
    /// Returns the words of the command to send: the given words, or GETID.
    fn command(&self, words: &[String]) -> Result<Vec<String>, BenchToolError> {
        let GeneratorArgs { generator, fields } = &self.generator;
        match (words, generator) {
            ([], name) => Ok([vec!["GETID".to_owned()], fields.words(name.as_deref())?].concat()),
            (words, None) if fields.is_empty() => Ok(words.to_vec()),
            _ => Err(BenchToolError::TwoCommands),
        }
    }

    fn options(&self) -> BenchOptions {
        let (connections, transaction) = (self.connections, self.transaction);
        BenchOptions { connections, threads: self.threads.min(connections), pipeline: self.pipeline, transaction }
    }
}

/// Reason why there is no report.
#[derive(Debug, thiserror::Error)]
enum BenchToolError {
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("--generator and --field are for GETID, and a command was given")]
    TwoCommands,
    #[error(transparent)]
    Server(#[from] ServerArgsError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("{connections} connections need {needed} open files, the limit is {limit} (ulimit -n)")]
    OpenFiles { connections: u64, needed: u64, limit: u64 },
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Run(#[from] BenchError),
}

impl ToolError for BenchToolError {
    fn exit_code(&self) -> u8 {
        if matches!(self, BenchToolError::Run(BenchError::Refused { .. })) { EXIT_NEGATIVE } else { EXIT_FAILED }
    }
}

pub(super) fn run(args: &BenchArgs) -> Result<ExitCode, CliError> {
    let report = measure(args)?;
    finish(print_report(&report, args.json), if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(args: &BenchArgs) -> Result<BenchReport, BenchToolError> {
    let (server, command) = match args.words.split_first() {
        Some((first, rest)) if names_server(first) => (Some(first.as_str()), rest),
        _ => (None, args.words.as_slice()),
    };
    let command = args.command(command)?;
    let endpoint = args.at.endpoint(server, TIMEOUT_MS_DEFAULT)?;
    let workload = Workload::new(&command, args.transaction, args.pipeline)?;
    allow_open_files(u64::from(args.connections))?;
    // Opens the files before minutes of load, so that a bad path fails at once.
    let csv_file = args.csv.as_deref().map(open_for_writing).transpose()?;
    let svg_file = args.svg.as_deref().map(open_for_writing).transpose()?;
    let server = args.pid.map(ServerUsage::of).transpose()?;

    let unit_requests = u64::from(workload.unit_requests());
    let length = args.requests.filter(|_| args.seconds.is_none());
    let bar = progress_bar(length, args.seconds.unwrap_or(SECONDS_DEFAULT));
    let plan = Arc::new(BenchPlan {
        endpoint,
        workload,
        keep_going: args.keep_going,
        units_left: AtomicU64::new(0),
        shows_progress: !bar.is_hidden(),
        replies_seen: AtomicU64::new(0),
    });
    let generator = LoadGenerator::connect(&plan, args.connections, args.threads)?;
    let end_after = |seconds: f64| RunEnd::Time(Instant::now() + Duration::from_secs_f64(seconds));
    if let Some(seconds) = args.warm_up {
        bar.set_message("warming up");
        generator.run(end_after(seconds), |_| bar.tick())?;
    }

    std::thread::sleep(SETTLE);
    let before = server.as_ref().map(ServerUsage::read).transpose()?;
    let run_end = match (args.seconds, args.requests) {
        (None, Some(requests)) => RunEnd::Units(requests.div_ceil(unit_requests)),
        (seconds, _) => end_after(seconds.unwrap_or(SECONDS_DEFAULT)),
    };
    let started = Instant::now();
    let watched = if draws_unnamed(&command) { &[&plan.endpoint][..] } else { &[] };
    let note_progress = |replies: u64| show_progress(&bar, run_end, started.elapsed(), replies);
    let (tally, mut at_limit) = at_limit::watch_while(watched, || generator.run(run_end, note_progress));
    bar.finish_and_clear();
    let tally = tally?;
    std::thread::sleep(SETTLE);
    let after = server.as_ref().map(ServerUsage::read).transpose()?;
    let used = before.zip(after).map(|(before, after)| after.since(args.pid.unwrap_or_default(), &before));
    let points = report::curve(&tally.latency_ns);
    let report = BenchReport::new(args.options(), &plan, command, tally, used, at_limit.pop().flatten());
    if let Some((path, file)) = args.csv.as_deref().zip(csv_file) {
        write_file(path, file, &csv(&points))?;
    }
    if let Some((path, file)) = args.svg.as_deref().zip(svg_file) {
        write_file(path, file, &svg(&report.title(), &report.subtitle(), &points, &report.marks()))?;
    }
    Ok(report)
}

fn show_progress(bar: &ProgressBar, run_end: RunEnd, elapsed: Duration, replies: u64) {
    bar.set_position(match run_end {
        RunEnd::Units(_) => replies,
        RunEnd::Time(_) => u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
    });
    let rate = u128::from(replies) * 1000 / elapsed.as_millis().max(1);
    let rate = thousands(u64::try_from(rate).unwrap_or(u64::MAX));
    bar.set_message(format!("{} requests, {rate} a second", thousands(replies)));
}

/// Whether a command draws IDs of the unnamed generator, whose layout the server reports.
fn draws_unnamed(command: &[String]) -> bool {
    match command {
        [word] => word.eq_ignore_ascii_case("GETID"),
        [word, _] => word.eq_ignore_ascii_case("MGETID"),
        _ => false,
    }
}

/// Opens a file without truncating it, so that its old content stays until the new text is written.
fn open_for_writing(path: &Path) -> Result<File, BenchToolError> {
    let opened = File::options().write(true).create(true).truncate(false).open(path);
    opened.map_err(|error| BenchToolError::File { path: path.to_owned(), error })
}

fn write_file(path: &Path, mut file: File, text: &str) -> Result<(), BenchToolError> {
    let emptied = if file.metadata().is_ok_and(|metadata| metadata.is_file()) { file.set_len(0) } else { Ok(()) };
    let written = emptied.and_then(|()| file.write_all(text.as_bytes()));
    written.map_err(|error| BenchToolError::File { path: path.to_owned(), error })
}

/// Raises the limit of open files, as far as the system permits it to an unprivileged process.
fn allow_open_files(connections: u64) -> Result<(), BenchToolError> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let needed = connections + RESERVED_FILES;
    let Ok((soft, limit)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= needed || setrlimit(Resource::RLIMIT_NOFILE, needed, limit).is_ok() {
        return Ok(());
    }
    Err(BenchToolError::OpenFiles { connections, needed, limit })
}
