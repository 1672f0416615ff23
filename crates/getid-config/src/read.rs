//! Reads the sources into settings: files in either syntax with their includes, the environment, the command line.
//!
//! No function here opens a file: the caller's [`Files`] does. Every source is bounded, and an error in one line does
//! not stop the reading of the next.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::builder::{Builder, ENVIRONMENT_PREFIX, Setting, variable_of};
use super::conf_syntax::{SyntaxError, lines_in, quote, words_of};
use super::directive::Directive;
use super::files::{Files, is_toml};
use super::report::{ConfigProblem, SettingPlace};
use super::row::ValueShape;
use super::secrets::{is_secret, without_secrets};
use super::value_error::ValueError;
use super::{ignored, toml};
use getid_text::glob;
use getid_text::suggest::did_you_mean;

/// Sources of settings, the strongest last.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file; TOML if its name ends in `.toml`, else redis.conf syntax.
    pub file: Option<PathBuf>,
    /// All variables of the environment; those that start with `GETID_` count.
    pub environment: Vec<(OsString, OsString)>,
    /// The words after `serve [FILE]`: `--port 7000 --bind 127.0.0.1 ::1`.
    pub words: Vec<String>,
    /// The name of the host, which gives `server-id auto-ordinal` its number; `None` if no number is needed.
    pub host_name: Option<String>,
}

/// Largest size of one file, bytes. The documented example has 20 KB.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Largest depth of includes: `a` includes `b` includes `c`.
pub const INCLUDE_DEPTH_MAX: usize = 16;

/// Largest number of files of one configuration, so at most 256 MiB are read.
pub const FILES_MAX: usize = 256;

/// Reads all sources into a builder, in the order of their precedence.
pub(super) fn read_all(sources: &Sources, files: &dyn Files, builder: &mut Builder) {
    let mut reader = SourceReader { files, builder, open: Vec::new(), files_read: 0 };
    if let Some(path) = &sources.file {
        reader.file(path, None);
    }
    reader.environment(&sources.environment);
    reader.command_line(&sources.words);
    if let Some(host_name) = &sources.host_name {
        builder.take_ordinal(host_name);
    }
}

struct SourceReader<'a> {
    files: &'a dyn Files,
    builder: &'a mut Builder,
    /// Files that are being read, the outermost first.
    open: Vec<PathBuf>,
    files_read: usize,
}

impl SourceReader<'_> {
    fn file(&mut self, path: &Path, included_from: Option<&Arc<SettingPlace>>) {
        let whole = SettingPlace::in_file(path, 0, "", included_from.cloned());
        self.files_read += 1;
        if let Some(sentence) = self.not_readable(path) {
            self.builder.problem(ConfigProblem::new(vec![whole], "", sentence));
            return;
        }
        let bytes = match self.files.read(path, FILE_BYTES_MAX) {
            Ok(bytes) if bytes.len() <= FILE_BYTES_MAX => bytes,
            Ok(_) => {
                let sentence = format!("is larger than {FILE_BYTES_MAX} bytes; is it a configuration file?");
                self.builder.problem(ConfigProblem::new(vec![whole], "", sentence));
                return;
            }
            Err(error) => {
                let help = (included_from.is_some() && path.is_relative())
                    .then(|| "the path of an include is relative to the folder in which getid was started".to_owned());
                let problem = ConfigProblem::new(vec![whole], "", format!("cannot be read: {error}"));
                self.builder.problem(problem.with_help(help));
                return;
            }
        };
        self.open.push(path.to_owned());
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        if is_toml(path) {
            self.toml_file(path, bytes, included_from);
        } else {
            self.conf_file(path, bytes, included_from);
        }
        self.open.pop();
    }

    /// Returns why a file must not be read now.
    fn not_readable(&self, path: &Path) -> Option<String> {
        if self.open.iter().any(|open| open == path) {
            return Some("includes itself".to_owned());
        }
        if self.open.len() >= INCLUDE_DEPTH_MAX {
            return Some(format!("is included {INCLUDE_DEPTH_MAX} files deep; do the files include each other?"));
        }
        if self.files_read > FILES_MAX {
            return Some(format!("is one file too many: a configuration has at most {FILES_MAX}"));
        }
        None
    }

    fn conf_file(&mut self, path: &Path, bytes: &[u8], included_from: Option<&Arc<SettingPlace>>) {
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if self.builder.has_too_many_problems() {
                return;
            }
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let text = without_secrets(&String::from_utf8_lossy(line));
            let place = SettingPlace::in_file(path, index + 1, &text, included_from.cloned());
            match words_of(line) {
                Ok(words) => self.line(words, place),
                Err(error) => self.builder.problem(ConfigProblem::new(vec![place], "", error)),
            }
        }
    }

    fn toml_file(&mut self, path: &Path, bytes: &[u8], included_from: Option<&Arc<SettingPlace>>) {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
                let place = SettingPlace::in_file(path, line, "", included_from.cloned());
                self.builder.problem(ConfigProblem::new(vec![place], "", SyntaxError::LineNotUtf8));
                return;
            }
        };
        for item in toml::read(text) {
            if self.builder.has_too_many_problems() {
                return;
            }
            let place = SettingPlace::in_file(path, item.line, &item.text, included_from.cloned());
            let option = |(name, line, text): (String, usize, String)| {
                (name, SettingPlace::in_file(path, line, &text, included_from.cloned()))
            };
            let options = item.options.into_iter().map(option).collect();
            match item.found {
                Ok((name, words)) => self.setting(Setting { name, words, place, options }),
                Err(error) => self.builder.problem(ConfigProblem::new(vec![place], item.subject, error)),
            }
        }
    }

    fn environment(&mut self, variables: &[(OsString, OsString)]) {
        let mut variables: Vec<_> = variables
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?, value.as_os_str())))
            .filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX))
            .collect();
        variables.sort_unstable();
        for (variable, value) in variables {
            self.variable(variable, value);
        }
    }

    fn variable(&mut self, variable: &str, value: &OsStr) {
        if is_foreign_variable(variable, value) {
            return;
        }
        let name = variable[ENVIRONMENT_PREFIX.len()..].to_ascii_lowercase().replace('_', "-");
        let text = without_secrets(&format!("{variable}={}", value.to_string_lossy()));
        let place = SettingPlace::in_environment(&text);
        let Some(value) = value.to_str() else {
            self.builder.problem(ConfigProblem::new(vec![place], variable, SyntaxError::ValueNotUtf8));
            return;
        };
        if Directive::find(&name).is_none() && ignored::find(&name).is_none() {
            // The variable may belong to another program, and contain a secret.
            let place = SettingPlace::in_environment(&format!("{variable}=(hidden)"));
            let sentence = "no directive has this name";
            let meant = did_you_mean(&name, Directive::ALL.iter().map(|row| row.name));
            let help = match meant {
                Some(meant) => format!("did you mean {}?", variable_of(meant)),
                None => "variables that start with GETID_ set directives; unset this one if it is not meant for \
                     getid"
                    .to_owned(),
            };
            self.builder.problem(ConfigProblem::new(vec![place], variable, sentence).with_help(Some(help)));
            return;
        }
        if Directive::find(&name).is_some_and(Directive::has_lines_in_variable) {
            for line in lines_in(value) {
                let place = SettingPlace::in_environment(&format!("{variable}={line}"));
                self.setting(Setting::new(name.clone(), vec![line.to_owned()], place));
            }
            return;
        }
        if Directive::find(&name).is_some_and(Directive::has_values) && value.contains('\n') {
            for line in value.lines().map(str::trim).filter(|line| !line.is_empty()) {
                self.setting(Setting::new(name.clone(), vec![line.to_owned()], place.clone()));
            }
            return;
        }
        self.setting(Setting::new(name, vec![value.to_owned()], place));
    }

    fn command_line(&mut self, words: &[String]) {
        let mut rest = words;
        while let [first, tail @ ..] = rest {
            let Some(option) = first.strip_prefix("--").filter(|name| !name.is_empty()) else {
                let place = SettingPlace::on_command_line(&quote(first.as_bytes()));
                let problem = ConfigProblem::new(vec![place], "", "must be a directive, such as --port 7890");
                self.builder.problem(problem);
                return;
            };
            if option.split(['=', ' ']).next() == Some("config") {
                // The first one was taken as the file.
                let sentence = "names the configuration file, which may be named once";
                let help = "write 'getid serve FILE', or 'getid serve --config FILE'".to_owned();
                let place = SettingPlace::on_command_line(&quote(first.as_bytes()));
                self.builder.problem(ConfigProblem::new(vec![place], "config", sentence).with_help(Some(help)));
                return;
            }
            let count = tail.iter().position(|word| word.starts_with("--")).unwrap_or(tail.len());
            let (values, next) = tail.split_at(count);
            rest = next;
            let (name, mut words) = match option.split_once(['=', ' ']) {
                // As in Redis, one word may be a whole line: "--port 7890".
                Some((name, line)) if option[name.len()..].starts_with(' ') => match words_of(line.as_bytes()) {
                    Ok(words) => (name, words),
                    Err(error) => {
                        let place = SettingPlace::on_command_line(&without_secrets(first));
                        self.builder.problem(ConfigProblem::new(vec![place], name, error));
                        continue;
                    }
                },
                Some((name, value)) => (name, vec![value.to_owned()]),
                None => (option, Vec::new()),
            };
            words.extend_from_slice(values);
            let shown: Vec<_> = words.iter().map(|word| quote(word.as_bytes())).collect();
            let place = if is_secret(name) {
                SettingPlace::on_command_line(&format!("--{name} (hidden)"))
            } else {
                SettingPlace::on_command_line(format!("--{name} {}", shown.join(" ")).trim_end())
            };
            self.setting(Setting::new(name.to_ascii_lowercase(), words, place));
        }
    }

    /// Applies the words of a redis.conf line.
    fn line(&mut self, words: Vec<String>, place: SettingPlace) {
        let mut words = words.into_iter();
        if let Some(name) = words.next() {
            self.setting(Setting::new(name.to_ascii_lowercase(), words.collect(), place));
        }
    }

    fn setting(&mut self, mut setting: Setting) {
        // As in Redis, one value may contain several words: --bind "127.0.0.1 ::1", or a variable.
        let directive = Directive::find(&setting.name);
        if let Some(directive) = directive
            && let Some(words) = directive.words_in(&setting.words)
        {
            match words {
                Ok(words) => setting.words = words,
                Err(error) => {
                    self.builder.problem(ConfigProblem::new(vec![setting.place], directive.name, error));
                    return;
                }
            }
        }
        self.builder.apply(&setting);
        if let (Some(directive), [path]) = (directive, setting.words.as_slice())
            && matches!(directive.shape, ValueShape::Include)
        {
            self.include(directive.name, path, setting.place);
        }
    }

    fn include(&mut self, directive: &str, path: &str, place: SettingPlace) {
        if path.is_empty() {
            self.builder.problem(ConfigProblem::new(vec![place], directive, ValueError::Empty));
            return;
        }
        let included_from = Arc::new(place);
        if !glob::is_pattern(path) {
            self.file(Path::new(path), Some(&included_from));
            return;
        }
        // A pattern without matches is an empty conf.d, and no error.
        match self.files.matching(path) {
            Ok(paths) => paths.iter().for_each(|path| self.file_unless_full(path, &included_from)),
            Err(error) => {
                let place = SettingPlace::clone(&included_from);
                self.builder.problem(ConfigProblem::new(
                    vec![place],
                    directive,
                    format!("cannot list '{path}': {error}"),
                ));
            }
        }
    }

    /// Reads one of many files. Only the first file above the limit is reported.
    fn file_unless_full(&mut self, path: &Path, included_from: &Arc<SettingPlace>) {
        if self.files_read <= FILES_MAX {
            self.file(path, Some(included_from));
        }
    }
}

/// Whether a variable that starts with `GETID_` is not meant for the server.
///
/// - Kubernetes and Docker describe every service to every container. For a service named `getid` there are
///   `GETID_SERVICE_HOST`, `GETID_PORT=tcp://10.0.0.7:7890` and `GETID_PORT_7890_TCP_ADDR`, and for `getid-orders`
///   there is `GETID_ORDERS_...`. They must not make a start fail, or the server listen on port "tcp".
/// - Images set `GETID_VERSION`.
/// - `GETID_URL` is the address of the servers for programs with a client package, which may share an environment with
///   a server.
/// - `GETID_TEST_*` and `GETID_BENCH_*` control this project's own tests and benches.
fn is_foreign_variable(variable: &str, value: &OsStr) -> bool {
    let described = |scheme: &str| value.as_encoded_bytes().starts_with(scheme.as_bytes());
    let name = &variable[ENVIRONMENT_PREFIX.len()..];
    let name = format!("_{name}");
    let is_link = name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.split("_PORT_").skip(1).any(|rest| {
            let protocol = rest.trim_start_matches(|character: char| character.is_ascii_digit());
            protocol.len() < rest.len() && (protocol.starts_with("_TCP") || protocol.starts_with("_UDP"))
        })
        || (name.ends_with("_PORT") && (described("tcp://") || described("udp://")))
        || name.contains("_ENV_");
    let is_tool = ["_VERSION", "_NAME", "_URL"].contains(&name.as_str())
        || name.starts_with("_TEST_")
        || name.starts_with("_BENCH_");
    is_link || is_tool
}
