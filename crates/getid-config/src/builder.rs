//! A configuration while it is read: sets values one by one, in any order, and checks them against each other at the
//! end.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};

use getid_core::server::is_name;
use getid_core::{LOW_BITS, Layout, LayoutError};

use super::announce;
use super::claim;
use super::conflicts;
use super::directive::{Directive, Secrecy, known_names};
use super::files;
use super::generators::{
    self, GENERATORS_MAX, RANDOM_VALUES_MAX, counter_warning, declaration_warning, key_warning, meeting_warnings,
};
use super::http;
use super::ignored::{self, IgnoredReason};
use super::report::{ConfigProblem, DirectiveConflict, SettingPlace, Warning};
use super::secrets::{self, is_secret};
use super::server_id;
use super::stores;
use super::value_error::ValueError;
use super::values::{Config, ConfigValues, ServerIdSource};
use super::workers;
use getid_text::plural::counted;
use getid_text::suggest::did_you_mean;

/// One line of any source: a directive and its words.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Name of the directive, in lower case.
    pub(super) name: String,
    pub(super) words: Vec<String>,
    pub(super) place: SettingPlace,
    /// Places of options that have their own, by their names.
    pub(super) options: Vec<(String, SettingPlace)>,
}

impl Setting {
    pub(super) fn new(name: String, words: Vec<String>, place: SettingPlace) -> Setting {
        Setting { name, words, place, options: Vec::new() }
    }

    /// Returns the place of an error.
    fn place_of(&self, error: &ValueError) -> &SettingPlace {
        let option = match error {
            ValueError::Declaration(error) => error.option(),
            ValueError::Counter(error) => error.option(),
            _ => None,
        };
        let place = self.options.iter().find(|(name, _)| option == Some(name.as_str()));
        place.map_or(&self.place, |(_, place)| place)
    }
}

/// The values read so far, and the errors in them.
pub(super) struct Builder {
    pub(super) values: ConfigValues,
    /// Place where each directive was last set.
    set_at: HashMap<&'static str, SettingPlace>,
    /// Lines of files that a stronger source may override, by directive: the last line, or all lines of a table.
    file_lines: HashMap<&'static str, Vec<(Vec<String>, SettingPlace)>>,
    /// Place where each named item was declared, by the directive and the first word of the line.
    declared_at: HashMap<(&'static str, String), SettingPlace>,
    /// The last line that set several directives, with the name of its own directive.
    parts_at: Option<(&'static str, SettingPlace)>,
    /// Directives with a refused value: no check uses them.
    refused: HashSet<&'static str>,
    problems: Vec<ConfigProblem>,
    warnings: Vec<Warning>,
    /// Subjects of the warnings.
    warned: HashSet<String>,
    /// Directives of Redis without a meaning here, by reason, with the place of the first one.
    ignored: Vec<(IgnoredReason, SettingPlace, Vec<String>)>,
    /// Lines of files that contain a password.
    secrets: Vec<(String, SettingPlace)>,
    /// The host's name, if it gives the server its number.
    host_name: Option<String>,
}

/// Prefix of the variables that set directives.
pub(super) const ENVIRONMENT_PREFIX: &str = "GETID_";

/// Number of errors after which reading stops. Finding a suggestion for an unknown word takes some 100 us.
const PROBLEMS_MAX: usize = 1000;

/// Largest length of directive names without an effect in one warning, bytes: all of one reason in Debian's redis.conf
/// fit.
const IGNORED_BYTES_MAX: usize = 360;

/// The directives that make the layout.
const WIDTHS: [&str; 3] = ["id-range", "shard-range", "random-range"];

/// Largest number of generators with a warning of their own.
const GENERATOR_WARNINGS_MAX: usize = 10;

impl Builder {
    pub(super) fn new() -> Builder {
        Builder::of(&Config::default())
    }

    /// Returns a builder that begins with the configuration in force, for changes of it.
    pub(super) fn of(config: &Config) -> Builder {
        Builder {
            values: ConfigValues::of(config),
            set_at: HashMap::new(),
            file_lines: HashMap::new(),
            declared_at: HashMap::new(),
            parts_at: None,
            refused: HashSet::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            warned: HashSet::new(),
            ignored: Vec::new(),
            secrets: Vec::new(),
            host_name: None,
        }
    }

    /// Notes where a directive was set, for the checks between values.
    pub(super) fn note_place(&mut self, name: &'static str, place: &SettingPlace) {
        self.set_at.insert(name, place.clone());
    }

    /// Returns the directives that were set, with the four of an `id-generator` line under their own names.
    pub(super) fn names_set(&self) -> HashSet<&'static str> {
        self.set_at.keys().copied().collect()
    }

    /// Returns a line of each file that contains a password, with its directive.
    pub(super) fn secrets(&self) -> &[(String, SettingPlace)] {
        &self.secrets
    }

    /// Returns the place where a directive was last set.
    pub(super) fn place_of(&self, name: &str) -> Option<&SettingPlace> {
        self.set_at.get(name)
    }

    /// Returns the errors in single lines.
    pub(super) fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }

    /// Takes the number at the end of the host's name, if it is configured to be the server's number.
    pub(super) fn take_ordinal(&mut self, host_name: &str) {
        let config = &mut self.values.config;
        if config.server_id_from != ServerIdSource::UnknownHostName {
            return;
        }
        if let Some(server_id) = server_id::ordinal(host_name) {
            (config.server_id, config.server_id_from) = (server_id, ServerIdSource::HostName);
            self.host_name = Some(host_name.to_owned());
            return;
        }
        let (sentence, help) = server_id::no_ordinal(host_name);
        let problem = ConfigProblem::new(self.places(&["server-id"]), "", sentence).with_help(Some(help.to_owned()));
        self.problems.push(problem);
        self.refused.insert("server-id");
    }

    /// Replaces the generators by those of another builder.
    pub(super) fn take_generators(&mut self, other: &Builder) {
        self.values.config.generators.clone_from(&other.values.config.generators);
        self.values.config.counters.clone_from(&other.values.config.counters);
        self.declared_at.clone_from(&other.declared_at);
    }

    /// Applies one line; an error is kept for the report.
    pub(super) fn apply(&mut self, setting: &Setting) {
        if let Some(directive) = Directive::find(&setting.name) {
            if directive.parts().is_empty() {
                let subject = match setting.words.first() {
                    Some(name) if directive.declares() && is_name(name) => format!("{} {name}", directive.name),
                    _ => directive.name.to_owned(),
                };
                self.set(directive, &subject, &setting.words, setting);
            } else {
                self.apply_parts(directive, setting);
            }
        } else if let Some(known) = ignored::find(&setting.name) {
            if self.warned.insert(setting.name.clone()) {
                self.note_ignored(known.reason, setting);
            }
            self.note_secret(&setting.name, &setting.words, &setting.place);
        } else {
            self.problems.push(unknown(setting));
        }
    }

    /// Whether there are so many errors that further ones are no help, as in a log file given by mistake.
    pub(super) fn has_too_many_problems(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    pub(super) fn problem(&mut self, problem: ConfigProblem) {
        self.problems.push(problem);
    }

    pub(super) fn warn_once(&mut self, subject: &str, sentence: String, place: &SettingPlace) {
        if self.warned.insert(subject.to_owned()) {
            self.warnings.push(Warning { place: place.clone(), subject: subject.to_owned(), sentence });
        }
    }

    /// Checks the values against each other, and returns the configuration.
    pub(super) fn finish(mut self) -> Result<(Config, Vec<Warning>), Vec<ConfigProblem>> {
        let ignored = std::mem::take(&mut self.ignored);
        self.warnings.extend(ignored.into_iter().map(|(reason, place, names)| without_effect(reason, place, &names)));
        self.check_process();
        self.check_layout();
        self.report(conflicts::conflicts(&self.values.config));
        self.check_generators();
        for conflicts_of in
            [stores::conflicts, claim::conflicts, announce::conflicts, workers::conflicts, http::conflicts]
        {
            self.report(conflicts_of(&self.values.config));
        }
        self.warn(stores::warnings(&self.values.config));
        if !self.any_refused(&["claim-store"]) {
            self.warn(claim::warnings(&self.values.config));
            self.warn(announce::warnings(&self.values.config));
            if self.values.config.claim.store.is_none() {
                self.warn_unused(&["claim-", "instance-name", "announce-peers"], "has no effect: claim-store is file");
            }
        }
        if self.values.config.http.port == 0 && !self.any_refused(&["http-port"]) {
            self.warn_unused(&["http-"], "has no effect: http-port is 0");
        }
        if self.problems.is_empty() { Ok((self.values.config, self.warnings)) } else { Err(self.problems) }
    }

    /// Sets one directive to words of a setting.
    fn set(&mut self, directive: &'static Directive, subject: &str, words: &[String], setting: &Setting) {
        let place = &setting.place;
        self.note_secret(directive.name, words, place);
        // A directive that was refused in one line may be valid in a later one.
        self.refused.remove(directive.name);
        if self.is_declared_twice(directive, words, place) {
            return;
        }
        let is_stronger = |before: &SettingPlace| !before.is_of_same_source(place);
        if directive.has_values() && self.set_at.get(directive.name).is_some_and(is_stronger) {
            // An empty value removes the previous ones, and cannot be refused.
            let _ = directive.set(&mut self.values, &[String::new()]);
        }
        if let Err(errors) = directive.set(&mut self.values, words) {
            self.refused.insert(directive.name);
            self.problems.extend(errors.iter().map(|error| refusal(subject, error, words, setting.place_of(error))));
        }
        if place.is_in_file() && !directive.adds_up_over_sources() {
            let lines = self.file_lines.entry(directive.name).or_default();
            if directive.keys().is_empty() && !directive.has_values() {
                lines.clear();
            }
            lines.push((words.to_vec(), place.clone()));
        }
        self.set_at.insert(directive.name, place.clone());
    }

    /// Returns lines of files that would change a value set by the environment or the command line.
    pub(super) fn overridden(&self) -> Vec<Warning> {
        let found = Directive::ALL.iter().filter_map(|directive| {
            let by = self.place_of(directive.name).filter(|place| !place.is_in_file())?;
            let in_force = directive.shown(&self.values);
            let would_change = |(words, _): &&(Vec<String>, SettingPlace)| {
                let mut values = self.values.clone();
                directive.set(&mut values, words).is_ok() && directive.shown(&values) != in_force
            };
            let (_, place) = self.file_lines.get(directive.name)?.iter().rev().find(would_change)?;
            Some(Warning {
                place: place.clone(),
                subject: directive.name.to_owned(),
                sentence: format!("not in force: {} wins", by.with_text()),
            })
        });
        found.collect()
    }

    /// Notes a directive of Redis that has no meaning here.
    fn note_ignored(&mut self, reason: IgnoredReason, setting: &Setting) {
        match self.ignored.iter_mut().find(|(other, ..)| *other == reason) {
            Some((.., names)) => names.push(setting.name.clone()),
            None => self.ignored.push((reason, setting.place.clone(), vec![setting.name.clone()])),
        }
    }

    /// Whether an earlier line of a declaring directive has the same name; the first one counts.
    fn is_declared_twice(&mut self, directive: &'static Directive, words: &[String], place: &SettingPlace) -> bool {
        let (Some(_), Some(name)) = (directive.canonical(), words.first()) else { return false };
        match self.declared_at.entry((directive.name, name.clone())) {
            Entry::Vacant(entry) => {
                entry.insert(place.clone());
                false
            }
            Entry::Occupied(entry) => {
                let places = vec![place.clone(), entry.get().clone()];
                let sentence = format!("'{name}' appears in two lines, must be in one");
                self.problems.push(ConfigProblem::new(places, directive.name, sentence));
                true
            }
        }
    }

    /// Notes a secret, and warns if other users of the machine can see it.
    fn note_secret(&mut self, name: &str, words: &[String], place: &SettingPlace) {
        if !secrets::is_in(name, words) {
            return;
        }
        if place.is_on_command_line() {
            self.warn_once(name, exposure_warning(name), place);
        } else if place.file().is_some() && self.secrets.iter().all(|(_, other)| other.file() != place.file()) {
            self.secrets.push((name.to_owned(), place.clone()));
        }
    }

    /// Applies `id-generator server-id 0 id-range 2 shard-range 9 random-range 10`, in any order. A name that is left
    /// out keeps its value. Each wrong pair is an error of its own.
    fn apply_parts(&mut self, directive: &'static Directive, setting: &Setting) {
        self.parts_at = Some((directive.name, setting.place.clone()));
        let parts = directive.parts();
        let (least, _) = directive.words();
        if setting.words.len() < least {
            if let Err(errors) = directive.set(&mut self.values, &setting.words) {
                let problem = |error| refusal(directive.name, error, &setting.words, &setting.place);
                self.problems.extend(errors.iter().map(problem));
            }
            return;
        }
        let mut used = HashSet::new();
        for pair in setting.words.chunks(2) {
            let word = pair[0].to_ascii_lowercase();
            let Some(name) = parts.iter().copied().find(|name| *name == word) else {
                let error = ValueError::Word { found: pair[0].clone(), words: parts };
                self.problems.push(refusal(directive.name, &error, &setting.words, &setting.place));
                // The rest may be shifted by a word: the same slip is not reported twice.
                if pair.get(1).is_none_or(|value| value.parse::<i64>().is_err()) {
                    self.refused.extend(parts);
                    return;
                }
                continue;
            };
            let error = match pair.get(1) {
                None => Some(ValueError::PartValue { name }),
                Some(_) if !used.insert(name) => Some(ValueError::PartTwice { name }),
                Some(_) => None,
            };
            match (error, Directive::find(name)) {
                (None, Some(row)) => {
                    self.set(row, &format!("{}: {name}", directive.name), &pair[1..], setting);
                }
                (error, _) => {
                    self.refused.insert(name);
                    let problems = error.map(|error| refusal(directive.name, &error, &setting.words, &setting.place));
                    self.problems.extend(problems);
                }
            }
        }
    }

    fn check_process(&mut self) {
        if self.values.daemonize {
            let sentence = "yes is not supported: getid always stays in the foreground";
            let help = "write 'daemonize no', or start it with --daemonize no, and let systemd (supervised systemd), a \
                        container or nohup keep it running";
            let places = self.places(&["daemonize"]);
            self.problems.push(ConfigProblem::new(places, "daemonize", sentence).with_help(Some(help.to_owned())));
        }
    }

    fn check_layout(&mut self) {
        if self.any_refused(&WIDTHS) || self.any_refused(&["id-epoch"]) {
            return;
        }
        let values = &mut self.values;
        let id_range = values.id_range;
        match Layout::new(values.epoch, id_range, values.shard_range, values.random_range) {
            Ok(layout) => values.config.layout = layout,
            Err(error) => {
                let places = self.places(&WIDTHS);
                let help = Some(self.fitting_layout(id_range)).filter(|_| matches!(error, LayoutError::Sum { .. }));
                let subject = self.subject_of(&places);
                self.problems.push(ConfigProblem::new(places, subject, error.to_string()).with_help(help));
                return;
            }
        }
        self.check_server_id();
    }

    fn check_server_id(&mut self) {
        let server_id = self.values.config.server_id;
        if !self.any_refused(&["server-id"]) && !self.values.config.layout.has_server(server_id) {
            let places = self.places(&["server-id", "id-range"]);
            let id_range = self.values.id_range;
            let (sentence, help) = if let Some(host_name) = &self.host_name {
                server_id::range_error(host_name, id_range)
            } else {
                let last = (1u64 << id_range) - 1;
                let sentence = format!("server-id is {server_id}, must be 0 to {last}: id-range is {id_range}");
                (sentence, "choose another server-id")
            };
            let wide_enough = u32::BITS - server_id.leading_zeros();
            let help = if wide_enough <= LOW_BITS {
                let effect = generators::effect_of_id_range(&self.values.config.generators, wide_enough);
                format!("{help}, or {}{}", self.fitting_layout(wide_enough), effect.unwrap_or_default())
            } else {
                help.to_owned()
            };
            let subject = self.subject_of(&places);
            self.problems.push(ConfigProblem::new(places, subject, sentence).with_help(Some(help)));
        }
    }

    /// Returns advice for a line with this id-range and widths that make a layout. Widths that were set are kept if
    /// they fit.
    fn fitting_layout(&self, id_range: u32) -> String {
        let ConfigValues { shard_range, random_range, .. } = self.values;
        let low = LOW_BITS.saturating_sub(id_range);
        let keeps_shard = self.set_at.contains_key("shard-range") && !self.set_at.contains_key("random-range");
        let shard_range = if keeps_shard && shard_range <= low {
            shard_range
        } else {
            // At least one bit counts within a millisecond, if there is one.
            low - random_range.min(low.saturating_sub(1))
        };
        let random_range = low - shard_range;
        let words = format!("id-range {id_range} shard-range {shard_range} random-range {random_range}");
        self.place_for_layout(&words)
    }

    /// Returns where to write these words of an `id-generator` line to put them in force. The strongest source that
    /// sets a width wins over every line of a file.
    fn place_for_layout(&self, words: &str) -> String {
        let set = |names: &[&'static str]| names.iter().filter_map(|name| self.set_at.get(name)).collect::<Vec<_>>();
        let (widths, server_id) = (set(&WIDTHS), set(&["server-id"]));
        // If a replaced line also sets the server's number, the new one keeps it. Without a number, all servers would
        // be 0.
        let kept = |is_replaced: &dyn Fn(&SettingPlace) -> bool| {
            let ConfigValues { config: Config { server_id: number, server_id_from: from, .. }, .. } = self.values;
            let own = if from == ServerIdSource::Number { ", each with its own server-id" } else { "" };
            if server_id.iter().any(|place| is_replaced(place)) {
                (format!("server-id {} {words}", server_id::written(from, number)), own)
            } else {
                (words.to_owned(), "")
            }
        };
        if widths.iter().any(|place| place.is_on_command_line()) {
            return format!("write on all servers, after the other arguments, '--id-generator {words}'");
        }
        if let Some(place) = widths.iter().find(|place| !place.is_in_file()) {
            let (words, own) = kept(&|other| other.is_of_same_source(place));
            return format!(
                "set on all servers{own}, in place of the variables that set widths, GETID_ID_GENERATOR='{words}'"
            );
        }
        let is_toml = |place: &SettingPlace| place.file().is_some_and(files::is_toml);
        if widths.iter().chain(&server_id).any(|place| is_toml(place)) {
            let (words, own) = kept(&is_toml);
            return format!("write on all servers{own}, in place of the present lines, 'id-generator = \"{words}\"'");
        }
        format!("write on all servers, below the other lines, 'id-generator {words}'")
    }

    /// Adds the errors of directives that conflict, unless one of them was refused.
    fn report(&mut self, conflicts: Vec<DirectiveConflict>) {
        for DirectiveConflict { directives, sentence, help } in conflicts {
            if !self.any_refused(&directives) {
                let places = self.places(&directives);
                self.problems.push(ConfigProblem::new(places, "", sentence).with_help(Some(help)));
            }
        }
    }

    /// Adds warnings about directives that were set.
    fn warn(&mut self, warnings: Vec<(&'static str, String)>) {
        for (name, sentence) in warnings {
            if let Some(place) = self.set_at.get(name).cloned() {
                self.warnings.push(Warning { place, subject: name.to_owned(), sentence });
            }
        }
    }

    /// Warns about the directives with one of these prefixes that have other values than the built-in ones.
    fn warn_unused(&mut self, prefixes: &[&str], sentence: &str) {
        let built_in = ConfigValues::of(&Config::default());
        let is_unused = |row: &&Directive| {
            prefixes.iter().any(|prefix| row.name.starts_with(prefix))
                && row.lines(&self.values) != row.lines(&built_in)
        };
        self.warn(Directive::ALL.iter().filter(is_unused).map(|row| (row.name, sentence.to_owned())).collect());
    }

    fn check_generators(&mut self) {
        if let Some(first) = generators::first_excess_generator(&self.values.config) {
            let sentence = format!("there are more than {GENERATORS_MAX} generators, must be at most {GENERATORS_MAX}");
            let places = self.place_of_generator(first).into_iter().collect();
            self.problems.push(ConfigProblem::new(places, "generator", sentence));
        }
        if let Some(first) = generators::first_excess_cycle(&self.values.config.generators) {
            let sentence = format!(
                "those up to '{}' have more than {RANDOM_VALUES_MAX} random values, must have at most so many together: \
                 each takes 4 bytes of memory",
                first.name()
            );
            let places = self.place_of_generator(first.name()).into_iter().collect();
            let help = "give some of them fewer bits of 'random'".to_owned();
            self.problems.push(ConfigProblem::new(places, "generator", sentence).with_help(Some(help)));
        }
        let conflicts = generators::generator_conflicts(&self.values.config, self.values.id_range);
        for conflict in conflicts.into_iter().chain(generators::gapless_conflicts(&self.values.config)) {
            if self.any_refused(&[conflict.directive]) {
                continue;
            }
            let other = self.set_at.get(conflict.directive).cloned();
            let places = self.place_of_generator(&conflict.name).into_iter().chain(other).collect();
            self.problems.push(ConfigProblem::new(places, "", conflict.sentence).with_help(Some(conflict.help)));
        }
        let Config { generators, counters, .. } = &self.values.config;
        let warnings = generators.iter().map(|declaration| (declaration.name(), declaration_warning(declaration)));
        let warnings = warnings.chain(counters.iter().map(|counter| (counter.name(), counter_warning(counter))));
        let warnings = warnings.chain(counters.iter().map(|counter| (counter.name(), key_warning(counter))));
        let meeting = meeting_warnings(counters).into_iter().map(|(name, sentence)| (name, Some(sentence)));
        let warnings = warnings.chain(meeting);
        let warnings = warnings.filter_map(|(name, sentence)| {
            let (sentence, place) = (sentence?, self.place_of_generator(name)?);
            Some(Warning { place, subject: format!("generator {name}"), sentence })
        });
        let mut warnings: Vec<_> = warnings.collect();
        let others = warnings.len().saturating_sub(GENERATOR_WARNINGS_MAX);
        warnings.truncate(GENERATOR_WARNINGS_MAX);
        if let Some(last) = warnings.last_mut().filter(|_| others > 0) {
            last.sentence =
                format!("{}; and the same applies to {}", last.sentence, counted(others as u64, "other generator"));
        }
        self.warnings.extend(warnings);
    }

    /// Returns where the generator of this name is declared.
    pub(super) fn place_of_generator(&self, name: &str) -> Option<SettingPlace> {
        self.declared_at.get(&("generator", name.to_owned())).cloned()
    }

    fn any_refused(&self, names: &[&'static str]) -> bool {
        names.iter().any(|name| self.refused.contains(name))
    }

    /// Returns the places of these directives, without repetition.
    fn places(&self, names: &[&'static str]) -> Vec<SettingPlace> {
        let mut places: Vec<SettingPlace> = Vec::new();
        for place in names.iter().filter_map(|name| self.set_at.get(name)) {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
        places
    }

    /// Returns the directive to name in an error: the one of a line that set all of them.
    fn subject_of(&self, places: &[SettingPlace]) -> &'static str {
        let [place] = places else { return "" };
        self.parts_at.as_ref().filter(|(_, parts_at)| parts_at == place).map_or("", |(name, _)| name)
    }
}

/// Returns one warning about all directives of Redis without an effect for the same reason.
fn without_effect(reason: IgnoredReason, place: SettingPlace, names: &[String]) -> Warning {
    let mut shown = String::new();
    let mut others = names.len();
    for name in names {
        if !shown.is_empty() {
            if shown.len() + name.len() > IGNORED_BYTES_MAX {
                break;
            }
            shown.push_str(", ");
        }
        shown.push_str(name);
        others -= 1;
    }
    if others > 0 {
        shown = format!("{shown} and {others} more");
    }
    let has = if names.len() == 1 { "has" } else { "have" };
    Warning { place, subject: shown, sentence: format!("accepted, but {has} no effect: {}", reason.text()) }
}

/// Returns the environment variable of a directive.
pub(super) fn variable_of(directive: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", directive.to_ascii_uppercase().replace('-', "_"))
}

/// Returns the warning about a secret on a command line.
fn exposure_warning(directive: &str) -> String {
    let (file, variable) = match Directive::find(directive).map(|row| row.secrecy) {
        Some(Secrecy::Addresses) => ("the file that password-file= names", variable_of(directive)),
        _ => ("requirepass-file", variable_of("requirepass")),
    };
    format!(
        "every user of this machine can see the command line, with ps: put the password into {file}, into {variable} \
         or into a configuration file of mode 600"
    )
}

/// Returns the error about a line whose directive cannot have its value.
fn refusal(subject: &str, error: &ValueError, words: &[String], place: &SettingPlace) -> ConfigProblem {
    let habit = match words {
        _ if !place.is_in_file() => None,
        [first, rest @ ..] if (first == "=" || first == ":") && !is_secret(subject) => {
            let line = format!("{subject} {}", rest.join(" "));
            let toml = if first == "=" { "; a TOML file has a name that ends in .toml" } else { "" };
            Some(format!("this syntax has no '{first}' between name and value: write '{}'{toml}", line.trim_end()))
        }
        [first, ..] if first == "=" || first == ":" => {
            Some(format!("this syntax has no '{first}' between name and value"))
        }
        // Unless the word may be a password's digest.
        words if !may_have_digests(subject) && words.iter().any(|word| word.starts_with('#')) => {
            Some("a comment needs a line of its own".to_owned())
        }
        _ => None,
    };
    ConfigProblem::new(vec![place.clone()], subject, error.to_string()).with_help(error.help()).with_help(habit)
}

/// Whether a word that begins with `#` may be a password's digest.
fn may_have_digests(directive: &str) -> bool {
    Directive::find(directive).is_some_and(|row| row.secrecy == Secrecy::Passwords)
}

/// Returns the error about a line with an unknown directive.
fn unknown(setting: &Setting) -> ConfigProblem {
    let name = setting.name.as_str();
    let place = vec![setting.place.clone()];
    let joined = name.split_once(['=', ':']).filter(|(before, _)| known_names().any(|known| known == *before));
    if let Some((before, value)) = joined {
        // The words contain the text after `port:`.
        let words = setting.words.iter().map(String::as_str);
        let value: Vec<_> = [value].into_iter().chain(words).filter(|word| !word.is_empty()).collect();
        let value = if is_secret(before) { "...".to_owned() } else { value.join(" ") };
        let help = format!("write '{}'", format!("{before} {value}").trim_end());
        return ConfigProblem::new(place, before, "a blank must separate the directive from its value")
            .with_help(Some(help));
    }
    if name.starts_with('[') && setting.place.is_in_file() {
        let help = "remove the line; a TOML file has a name that ends in .toml, and no sections either".to_owned();
        return ConfigProblem::new(place, "", "this syntax has no sections").with_help(Some(help));
    }
    let help = did_you_mean(name, known_names()).map(|meant| format!("did you mean '{meant}'?"));
    ConfigProblem::new(place, name, "neither getid nor Redis knows this directive").with_help(help)
}
