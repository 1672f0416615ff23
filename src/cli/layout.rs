//! `getid layout`: explains a layout's capacity, end and limits, or proposes a layout for a load.

use std::fmt;
use std::process::ExitCode;

use clap::Args;
use getid_core::server::COUNTER_KINDS;
use getid_core::{IDS_PER_S_MAX, KINDS, MODULUS_MAX, NoProposal, SERVERS_MAX, propose};
use serde::Serialize;

use super::exit::{CliError, EXIT_NEGATIVE, ToolError, finish};
use super::layout_args::{SubjectArgs, SubjectArgsError, parse_declared};
use super::output::print_report;
use getid_core::server::counter_doc;
use getid_system::clock::wall_unix_ms;
use getid_text::plural::{counted, thousands};
use getid_tools::counted::CounterExplanation;
use getid_tools::explanation::{EvennessScope, Explanation};
use getid_tools::subject::Subject;

/// Arguments of `getid layout`.
#[derive(Args)]
#[command(
    override_usage = "getid layout [KIND [OPTION VALUE]...] [OPTIONS]
       getid layout NAME --config FILE
       getid layout --servers N --rate N [--mod N]
       getid layout --list",
    after_help = "\
Without a kind or a generator, the layout is that of the unnamed generator, as configured. WORDs are those after the name in a
line of the configuration; constants need no values. NAME is a generator of the configuration, as with --generator NAME.

Evenness is the distribution of IDs over tables when a row's table is id % n: even, or the shares of the emptiest and the fullest
table.

With --servers and --rate a layout is proposed, with the line for the configuration and the reason for each field.

Examples:
  getid layout twitter
  getid layout 'serial ORD{yyyyMMdd}-{n:6} zone UTC'
  getid layout layout time:41@1ms server-id:7 counter:12 epoch 2026-01-01T00:00:00Z
  getid layout tweets --config /etc/getid/getid.conf --mod 100 --rate 500
  getid layout --servers 20 --rate 50000 --mod 1024
  getid layout --list"
)]
pub(super) struct ExplainArgs {
    /// A kind and its options, or a generator of the configuration
    #[arg(value_name = "WORD", allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["words", "generator", "id_range", "shard_range", "random_range", "epoch"])]
    kind: Vec<String>,
    /// Show all kinds
    #[arg(long, conflicts_with_all = ["kind", "words", "generator", "config", "servers", "rate", "modulus"])]
    #[arg(conflicts_with_all = ["id_range", "shard_range", "random_range", "epoch"])]
    list: bool,
    /// Number of servers to propose a layout for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SERVERS_MAX))]
    #[arg(requires = "rate", conflicts_with_all = ["kind", "words", "generator", "config"])]
    #[arg(conflicts_with_all = ["id_range", "shard_range", "random_range", "epoch"])]
    servers: Option<u64>,
    /// IDs a second: with --servers of all together, else of one server, for the evenness
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=IDS_PER_S_MAX))]
    rate: Option<u64>,
    /// Tables: IDs are to spread evenly over id % N
    #[arg(long = "mod", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MODULUS_MAX))]
    modulus: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

/// Reason why no layout is explained or proposed.
#[derive(Debug, thiserror::Error)]
enum ExplainError {
    #[error(transparent)]
    Subject(#[from] SubjectArgsError),
    #[error(transparent)]
    NoProposal(#[from] NoProposal),
    #[error("the layout can't be shown")]
    NoDeclaration,
}

impl ToolError for ExplainError {
    fn exit_code(&self) -> u8 {
        EXIT_NEGATIVE
    }
}

/// Explains or proposes a layout. The exit code is 1 if the declaration is wrong, or if no layout fits.
pub(super) fn run(args: &ExplainArgs) -> Result<ExitCode, CliError> {
    let printed = if args.list {
        print_report(&KindList::new(), args.json)
    } else if let Some((servers, rate)) = args.servers.zip(args.rate) {
        print_report(&ProposalReport::new(servers, rate, args.modulus.unwrap_or(1))?, args.json)
    } else {
        print_report(&explain(args)?, args.json)
    };
    finish(printed, ExitCode::SUCCESS)
}

fn explain(args: &ExplainArgs) -> Result<LayoutExplanation, ExplainError> {
    let subject = match args.kind.as_slice() {
        [] => args.subject.subject(),
        [word] => args.subject.generator_or_kind(word),
        words => parse_declared("the layout", &words.join(" ")),
    }?;
    explain_subject(&subject, EvennessScope { modulus: args.modulus, ids_per_s: args.rate })
}

/// Explanation of a generator.
#[derive(Serialize)]
#[serde(untagged)]
enum LayoutExplanation {
    Clock(Box<Explanation>),
    Counter(Box<CounterExplanation>),
}

impl fmt::Display for LayoutExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutExplanation::Clock(explanation) => explanation.fmt(f),
            LayoutExplanation::Counter(explanation) => explanation.fmt(f),
        }
    }
}

fn explain_subject(subject: &Subject, load: EvennessScope) -> Result<LayoutExplanation, ExplainError> {
    if let Subject::Counted(counter) = subject {
        return Ok(LayoutExplanation::Counter(Box::new(CounterExplanation::new(counter, wall_unix_ms()))));
    }
    explain_clock_layout(subject, load).map(|explanation| LayoutExplanation::Clock(Box::new(explanation)))
}

fn explain_clock_layout(subject: &Subject, load: EvennessScope) -> Result<Explanation, ExplainError> {
    let declaration = subject.declaration().ok_or(ExplainError::NoDeclaration)?;
    Ok(Explanation::new(&declaration, matches!(subject, Subject::Unnamed(_)), load, wall_unix_ms()))
}

#[derive(Serialize)]
struct KindList {
    kinds: Vec<ListedKind>,
}

#[derive(Serialize)]
struct ListedKind {
    kind: &'static str,
    /// 0 if the declaration sets the width.
    bits: u32,
    fields: String,
    about: &'static str,
}

impl KindList {
    fn new() -> KindList {
        let listed = |kind: &'static getid_core::Kind| ListedKind {
            kind: kind.word,
            bits: kind.fields.iter().map(|(_, bits, _)| bits).sum(),
            fields: kind.fields.iter().map(|(name, bits, _)| format!("{name}:{bits}")).collect::<Vec<_>>().join(" "),
            about: kind.doc,
        };
        let counters = COUNTER_KINDS.iter().map(|&kind| ListedKind {
            kind,
            bits: 0,
            fields: String::new(),
            about: counter_doc(kind),
        });
        KindList { kinds: KINDS.iter().map(listed).chain(counters).collect() }
    }
}

impl fmt::Display for KindList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.kinds.iter().map(|kind| kind.kind.len()).max().unwrap_or(0);
        self.kinds.iter().try_for_each(|ListedKind { kind, bits, fields, about }| {
            let bits = if *bits > 0 { bits.to_string() } else { String::new() };
            writeln!(f, "{kind:<width$}  {bits:>3}  {about}")?;
            if fields.is_empty() { Ok(()) } else { writeln!(f, "{:width$}       {fields}", "") }
        })
    }
}

#[derive(Serialize)]
struct ProposalReport {
    servers: u64,
    ids_per_s: u64,
    modulus: u64,
    /// A line of a configuration, with an example name.
    declaration: String,
    reasons: Vec<String>,
    layout: Explanation,
}

impl ProposalReport {
    fn new(servers: u64, ids_per_s: u64, modulus: u64) -> Result<ProposalReport, ExplainError> {
        let proposal = propose(servers, ids_per_s, modulus)?;
        let declaration = format!("generator orders {}", proposal.words);
        let subject = parse_declared("the proposal", &declaration)?;
        let load = EvennessScope { modulus: Some(modulus), ids_per_s: Some(ids_per_s.div_ceil(servers)) };
        let layout = explain_clock_layout(&subject, load)?;
        Ok(ProposalReport { servers, ids_per_s, modulus, declaration, reasons: proposal.reasons, layout })
    }
}

impl fmt::Display for ProposalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProposalReport { servers, ids_per_s, modulus, declaration, reasons, layout } = self;
        write!(f, "for {} that give {} a second together", counted(*servers, "server"), counted(*ids_per_s, "ID"))?;
        if *modulus > 1 {
            write!(f, ", even over id % {}", thousands(*modulus))?;
        }
        writeln!(f, "\n\n{declaration}\n\nwhy")?;
        reasons.iter().try_for_each(|reason| writeln!(f, "  {reason}"))?;
        write!(f, "\n{layout}")
    }
}
