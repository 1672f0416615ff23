//! The reload by SIGHUP: the log, the password's file, certificates, and the declarations of generators in the
//! configuration.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use super::Server;
use crate::config_files::FilesFrom;
use getid_config::directive::{ChangeMode, Directive};
use getid_config::{Config, ReloadResult};
use getid_redis::acl::DEFAULT_USER;
use getid_redis::session::Settings;
use getid_seal::Sealer;

impl Server {
    /// Handles SIGHUP: opens the log and loads certificates again, on a thread that may wait for the disk.
    ///
    /// It counts as a change: a `CONFIG SET tls-cert-file` comes before it or after it, and is not undone.
    pub async fn reopen_files(self: Arc<Self>) {
        // The log's own thread does that.
        self.log.reopen();
        let server = Arc::clone(&self);
        let reopened = self.changes.make("the reload by SIGHUP", move || {
            server.reload_password();
            server.reload_config();
            if let Some(tls) = &server.tls {
                match tls.reload() {
                    Ok(()) => tracing::info!("SIGHUP: the certificates are reloaded, for new connections"),
                    Err(error) => tracing::error!("SIGHUP: the certificates are unchanged: {error}"),
                }
            }
        });
        if let Err(error) = reopened.await {
            tracing::error!("SIGHUP: {error}");
        }
    }

    /// Reads the configuration's sources again, for the generators.
    fn reload_config(&self) {
        let old = self.config.get();
        let mut sources = self.process.sources.clone();
        sources.file = Some(&self.process.config_file).filter(|file| !file.is_empty()).map(PathBuf::from);
        let reloaded = old.reloaded(&sources, &FilesFrom(self.process.started_in.clone()));
        let ReloadResult { config, warnings, kept } = match reloaded {
            Ok(reloaded) => reloaded,
            Err(report) => {
                let mistakes = report.in_a_line(MISTAKES_LOGGED_MAX);
                tracing::error!("SIGHUP: the configuration is invalid, and the generators are unchanged: {mistakes}");
                return;
            }
        };
        if let Some(kept) = kept_values(&kept) {
            tracing::warn!("SIGHUP: the configuration has new values that are not applied: {kept}");
        }
        let Some(changes) = changes(&declared(&old), &declared(&config), &rekeyed(&old, &config)) else {
            log_seals(&old);
            return;
        };
        match self.reload_generators(&config) {
            Ok(()) => {
                tracing::info!("SIGHUP: generators: {changes}");
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
                for name in with_other_alphabets(&old, &config) {
                    tracing::warn!(
                        "SIGHUP: generator {name} has another alphabet: texts that were given before do not open any \
                         more, or open as other IDs"
                    );
                }
                log_seals(&config);
            }
            Err(error) => tracing::error!("SIGHUP: the generators are unchanged: {error}"),
        }
    }

    /// Reads the password's file again, if there is one.
    fn reload_password(&self) {
        let old = self.config.get();
        let Some(path) = &old.password_file else { return };
        let files = FilesFrom(self.process.started_in.clone());
        match getid_config::read_password_file(path, &files) {
            Ok(password) if old.requirepass.as_deref() == Some(&*password) => {}
            Ok(password) => {
                // As at the start, an own line of the default user takes precedence.
                let is_ignored = old.aclfile.is_some() || old.users.iter().any(|line| line.name == DEFAULT_USER);
                let Ok(()) = self.config.update(|now| {
                    Ok::<_, Infallible>(Config { requirepass: Some(password.clone()), ..Config::clone(now) })
                });
                if !is_ignored {
                    let Ok(()) = self.settings.update(|now| {
                        let users = Arc::new(now.users.with_default_password(Some(&password)));
                        Ok::<_, Infallible>(Settings { users, ..now.clone() })
                    });
                }
                tracing::info!("SIGHUP: the password in {} has changed", path.display());
            }
            Err(error) => tracing::error!("SIGHUP: the password is unchanged: {error}"),
        }
    }
}

/// Maximum number of mistakes of a configuration in one line of the log, each of up to 1 KB.
const MISTAKES_LOGGED_MAX: usize = 5;

/// Maximum number of names in one line of the log.
const NAMES_LOGGED_MAX: usize = 10;

/// Returns the directives whose values in the files differ, and how they can be changed; `None` without any.
fn kept_values(kept: &[&Directive]) -> Option<String> {
    let names = |at_start| {
        let rows = kept.iter().filter(move |row| (row.change == ChangeMode::AtStart) == at_start);
        rows.map(|row| row.name).collect::<Vec<_>>()
    };
    format_groups(&[("to apply with CONFIG SET", names(false)), ("to apply with a restart", names(true))])
}

/// A generator's name, and its declaration.
type Declared = (String, String);

/// Returns the declarations of all generators.
fn declared(config: &Config) -> Vec<Declared> {
    let generators = config.generators.iter().map(|one| (one.name().to_owned(), one.declared_text()));
    generators.chain(config.counters.iter().map(|one| (one.name().to_owned(), one.words().join(" ")))).collect()
}

/// Returns the names of generators whose key file has other keys than before, or seals by another one.
fn rekeyed<'a>(old: &Config, new: &'a Config) -> Vec<&'a str> {
    let is_rekeyed = |sealer: &&Sealer| {
        old.sealers.find(sealer.name().as_bytes()).is_some_and(|before| before.keys() != sealer.keys())
    };
    new.sealers.iter().filter(is_rekeyed).map(Sealer::name).collect()
}

/// Returns the names of sealed generators whose texts have other characters than before.
fn with_other_alphabets<'a>(old: &Config, new: &'a Config) -> Vec<&'a str> {
    let has_another = |sealer: &&Sealer| {
        old.sealers.find(sealer.name().as_bytes()).is_some_and(|before| before.alphabet() != sealer.alphabet())
    };
    new.sealers.iter().filter(has_another).map(Sealer::name).collect()
}

/// Logs the key numbers of each sealed generator, by which an operator compares servers.
fn log_seals(config: &Config) {
    for sealer in config.sealers.iter() {
        tracing::info!("SIGHUP: {}", sealer.summary());
    }
}

/// Returns the differences of a new set of declarations, by name; `None` without any.
fn changes(old: &[Declared], new: &[Declared], rekeyed: &[&str]) -> Option<String> {
    let (before, after) = (by_name(old), by_name(new));
    let is_changed = |(name, text): &Declared| before.get(&**name).is_some_and(|old| old != text);
    format_groups(&[
        ("added", names(new, |(name, _)| !before.contains_key(&**name))),
        ("changed", names(new, is_changed)),
        ("removed", names(old, |(name, _)| !after.contains_key(&**name))),
        ("other keys", rekeyed.to_vec()),
    ])
}

fn by_name(all: &[Declared]) -> HashMap<&str, &str> {
    all.iter().map(|(name, text)| (&**name, &**text)).collect()
}

fn names(all: &[Declared], is_listed: impl Fn(&Declared) -> bool) -> Vec<&str> {
    all.iter().filter(|one| is_listed(one)).map(|(name, _)| &**name).collect()
}

/// Returns the first few names of each group, under its label; `None` without any.
fn format_groups(parts: &[(&str, Vec<&str>)]) -> Option<String> {
    let parts = parts.iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| {
        let (listed, others) = names.split_at(names.len().min(NAMES_LOGGED_MAX));
        let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        format!("{what}: {}{more}", listed.join(", "))
    });
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(lines: &[&str]) -> Vec<Declared> {
        lines.iter().map(|line| (line.split(' ').next().unwrap_or_default().to_owned(), (*line).to_owned())).collect()
    }

    #[test]
    fn changes_are_listed_by_name() {
        let old = declared(&["a uuid7", "b uuid7", "c uuid7"]);
        assert_eq!(changes(&old, &declared(&["c uuid7", "a uuid7", "b uuid7"]), &[]), None);
        let new = declared(&["d uuid4", "b uuid6", "c uuid7", "e uuid4"]);
        assert_eq!(changes(&old, &new, &[]).as_deref(), Some("added: d, e; changed: b; removed: a"));
        assert_eq!(changes(&old, &old, &["b", "c"]).as_deref(), Some("other keys: b, c"));
        let many: Vec<_> = (0..1000).map(|at| format!("g{at} uuid7")).collect();
        let many = declared(&many.iter().map(String::as_str).collect::<Vec<_>>());
        let listed = changes(&[], &many, &[]).expect("a change");
        assert!(listed.ends_with("g8, g9 and 990 more") && listed.len() < 200, "{listed}");
    }

    #[test]
    fn kept_values_are_listed_by_how_they_change() {
        let rows: Vec<_> = ["port", "hz", "timeout"].iter().filter_map(|name| Directive::find(name)).collect();
        let expected = "to apply with CONFIG SET: hz, timeout; to apply with a restart: port";
        assert_eq!(kept_values(&rows).as_deref(), Some(expected));
        assert_eq!(kept_values(&[]), None);
    }
}
