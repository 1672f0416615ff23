//! What SIGHUP has the server read again: the log, the password's file, certificates.

use std::convert::Infallible;
use std::sync::Arc;

use super::Server;
use crate::acl::DEFAULT_USER;
use crate::config::{self, Config, FilesFrom};
use crate::session::Settings;

impl Server {
    /// What SIGHUP asks for: opens the log and loads certificates again, on a thread that may wait for the disk.
    ///
    /// It counts as a change: a `CONFIG SET tls-cert-file` comes before it or after it, and is not undone.
    pub async fn reopen_files(self: Arc<Self>) {
        // The log's own thread does that.
        self.log.reopen();
        let server = Arc::clone(&self);
        let reopened = self.changes.make("the reload by SIGHUP", move || {
            server.reload_password();
            if let Some(tls) = &server.tls {
                match tls.reload() {
                    Ok(()) => tracing::info!("SIGHUP: the certificates are loaded anew, for new connections"),
                    Err(error) => tracing::error!("SIGHUP: the certificates stay as they were: {error}"),
                }
            }
        });
        if let Err(error) = reopened.await {
            tracing::error!("SIGHUP: {error}");
        }
    }

    /// Reads the password's file again, if it has one.
    fn reload_password(&self) {
        let old = self.config.get();
        let Some(path) = &old.password_file else { return };
        let files = FilesFrom(self.process.started_in.clone());
        match config::read_password_file(path, &files) {
            Ok(password) if old.requirepass.as_deref() == Some(&*password) => {}
            Ok(password) => {
                // As at the start, a line of the default user's own wins over it.
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
                tracing::info!("SIGHUP: the password in {} is another one now", path.display());
            }
            Err(error) => tracing::error!("SIGHUP: the password stays as it was: {error}"),
        }
    }
}
