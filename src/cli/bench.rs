//! `getid bench`: a load generator for any server that speaks Redis's protocol.
//!
//! The question: how many requests a second does a server answer, how long does a batch of them take, and what does a
//! request cost in CPU time? The last is the steady figure on a machine with other work: it hardly depends on how fast
//! the other side was.
//!
//! The load is closed: each connection sends its next batch when the last reply of the one before is there. So the
//! latency is that of a server under as much load as it takes; it says nothing of a server at a given rate.
//!
//! A run goes from idle to idle: nothing is in flight when it starts, and it ends with the last reply. So CPU time and
//! replies belong together to the last one.

mod load;
mod report;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use clap::Args;

use self::load::{Crew, Login, Plan, Target, Until};
use self::report::Report;
use self::usage::{PID_MAX, ServerUsage};
use super::output::{complain, finish, print};
use super::ping::{password_variable, port};
use super::verify::seconds;
use crate::bench::Workload;

/// How long a run is when nobody says.
const SECONDS_DEFAULT: f64 = 5.0;

/// Exit code when the command line is wrong or the run could not be made.
const EXIT_FAILED: u8 = 2;

/// Descriptors for everything that is no connection.
const RESERVED_FILES: u64 = 32;

/// A process that has just answered goes to sleep, and its CPU time is counted up, within this.
const SETTLE: Duration = Duration::from_millis(2);

/// Arguments of `getid bench`.
#[derive(Args)]
#[command(after_help = "\
Words:
  request     one command, which gets one reply; MULTI and EXEC are requests too
  batch       what a connection has in flight: --pipeline commands, or as many transactions. One write sends it, and
              the next follows when its last reply has come
  latency     of a batch: from its write to its last reply
  busy        share of the run in which the busiest thread ran
  waited      share in which it could have run but something else had the processor: on a quiet machine 0 %

With --pid the CPU time of the server is told too, from which its cost per request follows. It must run on this machine.
Keep load and server on different processors (taskset), or each measures the other.

The last line says what was the limit. If it was the load generator itself, the requests per second are its own.
It does not speak TLS. Exit code 0: done; 1: the server sent error replies; 2: the command line is wrong, or a connection
failed.

Examples:
  getid bench
  getid bench -c 50 -P 16 --seconds 10 --pid $(pidof getid)
  getid bench -P 100 MGETID 100
  getid bench --transaction 16 GETID               # MULTI, 16 GETID, EXEC
  getid bench --port 6379 -c 50 INCR counter       # any server that speaks Redis's protocol
  taskset -c 1 getid bench --json --unixsocket /run/getid/getid.sock")]
pub(super) struct BenchArgs {
    /// The command to send, word by word
    #[arg(value_name = "COMMAND", default_values_t = ["GETID".to_owned()], trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
    /// Host name or address
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port [default: `GETID_PORT` or 7890]
    #[arg(long)]
    port: Option<u16>,
    /// Unix socket, in place of host and port
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    unixsocket: Option<PathBuf>,
    /// Connections
    #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Commands in flight on each connection, or transactions
    #[arg(short = 'P', long, value_name = "DEPTH", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pipeline: u32,
    /// Send MULTI, N times the command, EXEC
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    transaction: Option<u32>,
    /// Send for so many seconds [default: 5, unless --requests is given]
    #[arg(short, long, value_name = "S", value_parser = seconds, conflicts_with = "requests")]
    seconds: Option<f64>,
    /// Send so many requests, or as many more as whole transactions take
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Send for so many seconds before anything is measured
    #[arg(long, value_name = "S", value_parser = seconds)]
    warm_up: Option<f64>,
    /// Threads that share the connections; more than one only with processors to spare
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// The server's process, to tell its CPU time
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..=i64::from(PID_MAX)))]
    pid: Option<i32>,
    /// How long to wait for a connection, and for a reply
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: u64,
    /// User, where the server has users (ACL)
    #[arg(long)]
    user: Option<String>,
    /// Password [default: `REDISCLI_AUTH` or `GETID_REQUIREPASS`]
    #[arg(long)]
    password: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Sends, counts, reports.
pub(super) fn run(args: &BenchArgs) -> ExitCode {
    match measure(args) {
        Ok(report) => {
            let printed = print(|out| {
                if args.json {
                    serde_json::to_writer(&mut *out, &report)?;
                    writeln!(out)
                } else {
                    write!(out, "{report}")
                }
            });
            finish(printed, if report.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(message) => {
            complain(&message);
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn measure(args: &BenchArgs) -> Result<Report, String> {
    let target = match &args.unixsocket {
        Some(path) => Target::Unix(path.clone()),
        None => Target::resolve(&args.host, args.port.map_or_else(port, Ok)?)?,
    };
    let workload = Workload::new(&args.command, args.transaction, args.pipeline).map_err(|error| error.to_string())?;
    allow_open_files(u64::from(args.connections))?;
    let server = args.pid.map(ServerUsage::of).transpose()?;

    let unit_requests = u64::from(workload.unit_requests());
    let plan = Arc::new(Plan {
        target,
        workload,
        timeout: Duration::from_millis(args.timeout_ms),
        login: args
            .password
            .clone()
            .or_else(password_variable)
            .map(|password| Login { user: args.user.clone(), password }),
        units_left: AtomicU64::new(0),
    });
    let crew = Crew::connect(&plan, args.connections, args.threads)?;
    let until_after = |seconds: f64| Until::Time(Instant::now() + Duration::from_secs_f64(seconds));
    if let Some(seconds) = args.warm_up {
        crew.run(until_after(seconds))?;
    }

    std::thread::sleep(SETTLE);
    let before = server.as_ref().map(ServerUsage::read).transpose()?;
    let tally = crew.run(match (args.seconds, args.requests) {
        (None, Some(requests)) => Until::Units(requests.div_ceil(unit_requests)),
        (seconds, _) => until_after(seconds.unwrap_or(SECONDS_DEFAULT)),
    })?;
    std::thread::sleep(SETTLE);
    let after = server.as_ref().map(ServerUsage::read).transpose()?;
    let used = before.zip(after).map(|(before, after)| after.since(args.pid.unwrap_or_default(), &before));
    Ok(Report::new(args, &plan, tally, used))
}

/// Raises the limit of open files, as far as the system lets a process do so itself.
fn allow_open_files(connections: u64) -> Result<(), String> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let wanted = connections + RESERVED_FILES;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        return Ok(());
    }
    Err(format!("{connections} connections need {wanted} open files, the limit is {hard} (ulimit -n)"))
}
