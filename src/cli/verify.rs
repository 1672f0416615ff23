//! `getid verify`: draws IDs as clients do, and judges them.
//!
//! This file has the arguments and the order of the steps: connect, draw, judge, report. The load, the checks and the
//! report are in [`getid_tools::verify`].

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;

use super::exit::{CliError, EXIT_FAILED, ToolError, finish};
use super::generator_args::{FieldArgs, FieldError};
use super::layout_args::{SubjectArgs, SubjectArgsError};
use super::output::{print_report, progress_bar};
use super::server_args::{SERVER_HELP, ServerArgs, ServerArgsError, TIMEOUT_MS_DEFAULT};
use getid_text::plural::{counted, thousands};
use getid_tools::at_limit;
use getid_tools::client::{ClientError, Endpoint};
use getid_tools::subject::Subject;
use getid_tools::verify::load::{RunResult, VerifyConnection, VerifyPlan};
use getid_tools::verify::record::{RecordError, RecordReader, RecordWriter};
use getid_tools::verify::report::{VerifyOptions, VerifyReport};
use getid_tools::verify::{
    EarlierRun, JudgeError, JudgeOptions, MODULUS_MAX, Promises, ServerWatch, Watch, WatchOptions, judge, layout_text,
};

/// Duration of a run without `--seconds` and `--count`, s.
const SECONDS_DEFAULT: f64 = 10.0;

/// Arguments of `getid verify`.
#[derive(Args)]
#[command(after_help = format!("\
{SERVER_HELP}

What is checked:
  no id twice               over all connections, servers and earlier runs
  order on each connection  each id is larger than the one before
  real-time order           an id requested after another's reply is larger
  server-id                 one for each server, or those of --server-id
  time against the clock    between request and reply, give or take the tolerance
  evenness                  over id % N of --mod; exactly even with --exclusive
  later than earlier runs   with --after: larger than those of --against; of a sequence or serial, of the same server
  replies as requested      one to GETID, so many to MGETID

For a named generator (--generator NAME, with the servers' --config FILE) the promises of its kind are checked: order if its IDs
ascend, time if they contain it, evenness if their lowest bits are random; for serial numbers and sequences the order on each
server, by period and value. Without the servers' file, --layout 'generator NAME KIND ...' declares the generator.

Each SERVER must be one server, not a balancer in front of several. Error replies such as BUSY or MISCONF are counted and
reported. They are no violation. Exit code 0: no violation; 1: a violation; 2: the command line is wrong, or a
connection failed. With --json ids are strings, for they are larger than 2^53.

Examples:
  getid verify
  getid verify -c 50 --pipeline 16 --seconds 30 127.0.0.1:7890
  getid verify --batch 100 -n 100000000 /run/getid/getid.sock
  getid verify --server-id 0,1,2,3 a:7890 b:7890 c:7890 d:7890
  getid verify --record before.ids --tolerate-disconnects    # and kill -9 the server meanwhile
  getid verify --against before.ids --after
  getid verify --generator lua --field shard=53 --config /etc/getid/getid.conf
  getid verify --layout 'generator trace uuid7' -c 50 -n 1000000
  getid verify --generator order --config /etc/getid/getid.conf -n 10000
  getid verify rediss://ids.example.com:7891 --cacert ca.pem"))]
pub(super) struct VerifyArgs {
    /// Addresses of the servers
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// Connections to each server
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: u32,
    /// Seconds to draw [default: 10, unless -n is given]
    #[arg(short, long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// IDs to draw, from all servers together
    #[arg(short = 'n', long = "count", visible_alias = "ids", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    ids: Option<u64>,
    /// Requests in flight on each connection
    #[arg(short = 'P', long, value_name = "DEPTH", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pipeline: u32,
    /// IDs of a request: draw by MGETID instead of GETID
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: Option<u32>,
    /// The server-ids to expect, one for each server
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    server_id: Vec<u64>,
    /// Judge evenness over id % N
    #[arg(long = "mod", visible_alias = "modulus", value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MODULUS_MAX)))]
    modulus: u32,
    /// No other client draws from these servers, so evenness must hold exactly
    #[arg(long)]
    exclusive: bool,
    /// How far an ID's time may lie from this machine's clock
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64 / 2))]
    clock_tolerance_ms: u64,
    /// Write the IDs of this run to a file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The record of an earlier run, checked together with this run; may be given several times
    #[arg(long, value_name = "FILE")]
    against: Vec<PathBuf>,
    /// All IDs must be larger than those of the earlier runs, for each server-id
    #[arg(long, requires = "against")]
    after: bool,
    /// A broken connection is reported, and is no failure
    #[arg(long)]
    tolerate_disconnects: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: ServerArgs,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    subject: SubjectArgs,
}

/// An argument in seconds is out of range.
#[derive(Debug, thiserror::Error)]
#[error("must be more than 0 and at most 10000000")]
pub(super) struct SecondsError;

/// Parses an argument in seconds.
pub(super) fn seconds(text: &str) -> Result<f64, SecondsError> {
    text.parse().ok().filter(|&seconds| seconds > 0.0 && seconds <= 1e7).ok_or(SecondsError)
}

/// Reason why there is no report.
#[derive(Debug, thiserror::Error)]
enum VerifyError {
    #[error(transparent)]
    Subject(#[from] SubjectArgsError),
    #[error("the layout can't be judged")]
    NoPromises,
    #[error("generator '{0}' answers with sealed texts: verify needs 'answer integer'")]
    Sealed(String),
    #[error("--after: these IDs do not ascend, so their order is unknown")]
    Unordered,
    #[error(
        "--after: each server reserves these numbers ahead, so a later ID of another server may be lower; verify one \
         server's at a time"
    )]
    ReservedAhead,
    #[error("--server-id: these IDs do not contain a server-id")]
    NoServerId,
    #[error("the field '{0}' comes with each request: --field {0}=VALUE")]
    MissingField(String),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Server(#[from] ServerArgsError),
    #[error("--server-id names {} for {}", counted(*.ids, "server-id"), counted(*.servers, "server"))]
    ServerIds { ids: u64, servers: u64 },
    #[error("starting threads: {0}")]
    Threads(io::Error),
    #[error("{endpoint}: {error}")]
    Connect { endpoint: String, error: ClientError },
    #[error("a connection's task failed: {0}")]
    Task(tokio::task::JoinError),
    #[error("{name}: {error}")]
    Record { name: String, error: RecordError },
    #[error("{name}: its ids have the layout {theirs}, this run's have {ours}")]
    OtherLayout { name: String, theirs: String, ours: String },
    #[error(transparent)]
    Judge(#[from] JudgeError),
}

impl VerifyError {
    fn file(path: &Path, error: io::Error) -> VerifyError {
        VerifyError::Record { name: path.display().to_string(), error: RecordError::Io(error) }
    }
}

impl ToolError for VerifyError {}

pub(super) fn run(args: &VerifyArgs) -> Result<ExitCode, CliError> {
    let (report, code) = verify(args)?;
    finish(print_report(&report, args.json), code)
}

fn verify(args: &VerifyArgs) -> Result<(VerifyReport, ExitCode), VerifyError> {
    let promises = Arc::new(Promises::of(args.subject.subject()?).ok_or(VerifyError::NoPromises)?);
    let words = words(args, &promises)?;
    let targets = targets(args)?;
    // Opens the files before an hour of drawing, so that a bad path fails at once.
    let earlier = args.against.iter().map(|path| open_earlier(path, &promises)).collect::<Result<Vec<_>, _>>()?;
    let mut record = args.record.as_deref().map(|path| RecordFile::create(path, promises.subject())).transpose()?;

    let bar = progress_bar(args.ids, args.seconds.unwrap_or(SECONDS_DEFAULT));
    let plan = Arc::new(VerifyPlan {
        batch: args.batch,
        subject: Arc::clone(promises.subject()),
        words,
        pipeline: args.pipeline as usize,
        ids_left: AtomicU64::new(args.ids.unwrap_or(u64::MAX)),
        ids_seen: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let mut result = draw(args, &plan, &promises, &targets, &bar)?;

    bar.set_message("checking");
    // Replies that were lost are gaps in what the run saw.
    let exclusive = args.exclusive && result.disconnects.is_empty();
    let (modulus, after) = (args.modulus, args.after);
    let options = JudgeOptions { promises: Arc::clone(&promises), modulus, exclusive, after };
    let judged = judge(&result.servers, &mut result.watches, earlier, &options, |id| match &mut record {
        Some(record) => record.writer.add(id),
        None => Ok(()),
    });
    let judged = judged.map_err(|error| match (error, &args.record) {
        (JudgeError::Write(error), Some(path)) => VerifyError::file(path, error),
        (error, _) => VerifyError::Judge(error),
    })?;
    if let Some(record) = record {
        record.finish()?;
    }
    bar.finish_and_clear();
    let run_options = VerifyOptions {
        command: plan.request(args.batch.unwrap_or(1)).join(" "),
        connections: args.connections,
        pipeline: args.pipeline,
        batch: args.batch,
        after: args.after,
        record: args.record.as_ref().map(|path| path.display().to_string()),
    };
    let failed = result.ids() == 0 || (!result.disconnects.is_empty() && !args.tolerate_disconnects);
    let report = VerifyReport::new(run_options, &promises, result, judged);
    let code = match (report.violations, failed) {
        (0, false) => ExitCode::SUCCESS,
        (0, true) => ExitCode::from(EXIT_FAILED),
        _ => ExitCode::FAILURE,
    };
    Ok((report, code))
}

/// Returns the words after GETID: the generator's name, and every field that comes with a request.
fn words(args: &VerifyArgs, promises: &Promises) -> Result<Vec<String>, VerifyError> {
    if promises.answers_sealed() {
        return Err(VerifyError::Sealed(promises.generator().unwrap_or_default().to_owned()));
    }
    if args.after && !promises.ordered() {
        return Err(VerifyError::Unordered);
    }
    if args.after && args.servers.len() > 1 && promises.reserves_ahead() {
        return Err(VerifyError::ReservedAhead);
    }
    if !args.server_id.is_empty() && !promises.names_server() {
        return Err(VerifyError::NoServerId);
    }
    if let Some(field) = promises.request_fields().find(|field| !args.fields.has_field(field)) {
        return Err(VerifyError::MissingField(field.to_owned()));
    }
    Ok(args.fields.words(promises.generator())?)
}

fn targets(args: &VerifyArgs) -> Result<Vec<Arc<Endpoint>>, VerifyError> {
    let targets = args.at.endpoints(&args.servers, TIMEOUT_MS_DEFAULT)?;
    if !args.server_id.is_empty() && args.server_id.len() != targets.len() {
        let (ids, servers) = (args.server_id.len() as u64, targets.len() as u64);
        return Err(VerifyError::ServerIds { ids, servers });
    }
    Ok(targets.into_iter().map(Arc::new).collect())
}

fn draw(
    args: &VerifyArgs,
    plan: &Arc<VerifyPlan>,
    promises: &Arc<Promises>,
    targets: &[Arc<Endpoint>],
    bar: &ProgressBar,
) -> Result<RunResult, VerifyError> {
    let runtime = tokio::runtime::Runtime::new().map_err(VerifyError::Threads)?;
    // A named generator has its own layout.
    let watched: Vec<&Endpoint> =
        targets.iter().map(|target| &**target).filter(|_| promises.generator().is_none()).collect();
    let (result, at_limit) =
        at_limit::watch_while(&watched, || runtime.block_on(draw_all(args, plan, promises, targets, bar)));
    Ok(RunResult { at_limit, ..result? })
}

async fn draw_all(
    args: &VerifyArgs,
    plan: &Arc<VerifyPlan>,
    promises: &Arc<Promises>,
    targets: &[Arc<Endpoint>],
    bar: &ProgressBar,
) -> Result<RunResult, VerifyError> {
    let tolerance = i64::try_from(args.clock_tolerance_ms).unwrap_or(i64::MAX);
    let watch_options = WatchOptions { promises: Arc::clone(promises), clock_tolerance_ms: tolerance };

    // All connections are open before the first ID is drawn, so that they draw at the same time.
    let mut servers = Vec::new();
    let mut connections = Vec::new();
    for (index, target) in targets.iter().enumerate() {
        let server = Arc::new(ServerWatch::new(target.to_string(), args.server_id.get(index).copied()));
        for connection in 1..=args.connections as usize {
            let watch = Watch::new(Arc::clone(&server), connection, watch_options.clone());
            let prepared = VerifyConnection::connect(target, plan, watch).await;
            let endpoint = || target.to_string();
            connections.push(prepared.map_err(|error| VerifyError::Connect { endpoint: endpoint(), error })?);
        }
        servers.push(server);
    }

    let started = Instant::now();
    let seconds = args.seconds.or(args.ids.is_none().then_some(SECONDS_DEFAULT));
    let deadline = seconds.map(|seconds| started + Duration::from_secs_f64(seconds));
    let mut tasks = tokio::task::JoinSet::new();
    for prepared in connections {
        tasks.spawn(prepared.run());
    }
    let mut result = RunResult::of(servers);
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    loop {
        let until = deadline.filter(|_| !plan.stop.load(Ordering::Relaxed));
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => break,
                Some(Ok(outcome)) => result.absorb(outcome),
                Some(Err(error)) => return Err(VerifyError::Task(error)),
            },
            // An interrupted run still reports what it found.
            Ok(()) = tokio::signal::ctrl_c() => plan.stop.store(true, Ordering::Relaxed),
            () = sleep_until(until) => plan.stop.store(true, Ordering::Relaxed),
            _ = tick.tick() => {
                let seen = plan.ids_seen.load(Ordering::Relaxed);
                match args.ids {
                    Some(_) => bar.set_position(seen),
                    None => bar.set_position(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)),
                }
                bar.set_message(format!("{} ids", thousands(seen)));
            }
        }
    }
    result.elapsed = started.elapsed();
    result.watches.sort_by_key(|watch| watch.connection);
    Ok(result)
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn open_earlier(path: &Path, promises: &Promises) -> Result<EarlierRun<'static>, VerifyError> {
    let name = path.display().to_string();
    let opened = File::open(path).map_err(RecordError::Io).and_then(|file| RecordReader::new(BufReader::new(file)));
    let reader = match opened {
        Ok(reader) => reader,
        Err(error) => return Err(VerifyError::Record { name, error }),
    };
    let [theirs, ours] = [reader.subject(), &**promises.subject()].map(layout_text);
    if theirs != ours {
        return Err(VerifyError::OtherLayout { name, theirs, ours });
    }
    Ok(EarlierRun { name, ids: Box::new(reader) })
}

/// A record file with a temporary name until it is complete. So an earlier file of the final name survives a failed
/// run, and this run may read it.
struct RecordFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: RecordWriter<BufWriter<File>>,
}

impl RecordFile {
    fn create(path: &Path, subject: &Subject) -> Result<RecordFile, VerifyError> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        let file = File::create(&unfinished).and_then(|file| RecordWriter::new(BufWriter::new(file), subject));
        let writer = file.map_err(|error| VerifyError::file(&unfinished, error))?;
        Ok(RecordFile { path: path.to_owned(), unfinished, writer })
    }

    fn finish(self) -> Result<(), VerifyError> {
        let RecordFile { path, unfinished, writer } = self;
        let written = writer
            .finish()
            .and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error))
            .and_then(|file| file.sync_all())
            .and_then(|()| std::fs::rename(&unfinished, &path));
        written.map_err(|error| VerifyError::file(&path, error))
    }
}
