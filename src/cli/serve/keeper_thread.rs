//! The thread of the watermark's keeper.
//!
//! It has its own runtime, so that load on the other threads does not delay it. It samples the clock, saves, and serves
//! waiting draws.

use std::io;
use std::sync::{Arc, mpsc};

use getid_core::SavePoint;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::error::ServeError;
use getid_engine::claim::Claim;
use getid_engine::generators::{Keeper, KeeperError};
use getid_server::Server;
use getid_system::clock::SystemClock;
use getid_system::threads;

/// A thread with a runtime, ready for its keeper. It ends if this value is dropped before [`KeeperThread::keep`].
pub(super) struct KeeperThread<S: Claim<Point = SavePoint>> {
    work: mpsc::Sender<KeeperJob<S>>,
}

struct KeeperJob<S: Claim<Point = SavePoint>> {
    keeper: Keeper<SystemClock, S>,
    stopped: oneshot::Receiver<()>,
    stop_guard: StopServerGuard,
    result_sender: oneshot::Sender<Result<(), KeeperError>>,
}

impl<S: Claim<Point = SavePoint>> KeeperThread<S> {
    /// Starts the thread; `runtime` creates its runtime there.
    pub(super) fn start(runtime: fn() -> io::Result<Runtime>) -> Result<Self, ServeError> {
        let no_thread = |error| ServeError::thread("the thread of the watermark's keeper", error);
        let (work, jobs) = mpsc::channel::<KeeperJob<S>>();
        let (ready, is_ready) = mpsc::channel();
        let run = move || {
            // Created on this thread: a runtime may not be dropped on a thread that runs another one.
            let runtime = match runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(()));
            let Ok(KeeperJob { keeper, stopped, stop_guard, result_sender }) = jobs.recv() else { return };
            let stop = async {
                // A dropped sender also means the end.
                let _ = stopped.await;
            };
            let result = runtime.block_on(keeper.run(stop));
            drop(stop_guard);
            // The receiver is gone when the process ends without waiting for the last save.
            let _ = result_sender.send(result);
            // A save that hangs must not keep the process alive.
            runtime.shutdown_background();
        };
        threads::spawn("getid-keeper", run).map_err(no_thread)?;
        is_ready.recv().unwrap_or_else(|ended| Err(io::Error::other(ended))).map_err(no_thread)?;
        Ok(KeeperThread { work })
    }

    /// Runs the keeper on the thread. The receiver gets its result, or closes if it panicked.
    pub(super) fn keep(
        self,
        keeper: Keeper<SystemClock, S>,
        stopped: oneshot::Receiver<()>,
        stop_guard: StopServerGuard,
    ) -> oneshot::Receiver<Result<(), KeeperError>> {
        let (result_sender, ended) = oneshot::channel();
        // If the thread had ended, the keeper would be dropped here, which closes the issuer and stops the server.
        let _ = self.work.send(KeeperJob { keeper, stopped, stop_guard, result_sender });
        ended
    }
}

/// Stops the server when dropped. A keeper that panics leaves a server that can only refuse. An exit with an error is
/// better, because the supervisor restarts the server.
pub(super) struct StopServerGuard(pub(super) Arc<Server>);

impl Drop for StopServerGuard {
    fn drop(&mut self) {
        self.0.request_stop();
    }
}
