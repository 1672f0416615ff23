//! The thread of the watermark's keeper.
//!
//! It has a runtime of its own, so that whatever clients make the other threads do, it samples the clock, saves, and
//! serves waiting draws.

use std::io;
use std::sync::{Arc, mpsc};

use getid_core::SavePoint;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::Failure;
use crate::claim::Claim;
use crate::generators::{Keeper, KeeperError};
use crate::server::Server;
use crate::system::clock::SystemClock;
use crate::system::threads;

/// A thread with a runtime that waits for its keeper. It ends when this is dropped instead.
pub(super) struct KeeperThread<S: Claim<Point = SavePoint>> {
    work: mpsc::Sender<Kept<S>>,
}

struct Kept<S: Claim<Point = SavePoint>> {
    keeper: Keeper<SystemClock, S>,
    stopped: oneshot::Receiver<()>,
    whatever_happens: StopsServer,
    told: oneshot::Sender<Result<(), KeeperError>>,
}

impl<S: Claim<Point = SavePoint>> KeeperThread<S> {
    /// Starts the thread; `runtime` makes its runtime there.
    pub(super) fn start(runtime: fn() -> io::Result<Runtime>) -> Result<Self, Failure> {
        let no_thread = |error| Failure(format!("the keeper of the watermark gets no thread: {error}"));
        let (work, given) = mpsc::channel::<Kept<S>>();
        let (ready, is_ready) = mpsc::channel();
        let run = move || {
            // Made here, as it may not be dropped on a thread that has one of its own.
            let runtime = match runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(()));
            let Ok(Kept { keeper, stopped, whatever_happens, told }) = given.recv() else { return };
            let stop = async {
                // A sender that is dropped means the end as well.
                let _ = stopped.await;
            };
            let result = runtime.block_on(keeper.run(stop));
            drop(whatever_happens);
            // Nobody listens when the process ends without waiting for the last save.
            let _ = told.send(result);
            // A save that hangs must not keep the process alive.
            runtime.shutdown_background();
        };
        threads::spawn("getid-keeper", run).map_err(no_thread)?;
        is_ready.recv()?.map_err(no_thread)?;
        Ok(KeeperThread { work })
    }

    /// Runs the keeper there. How it ended is received; nothing is after a panic.
    pub(super) fn keep(
        self,
        keeper: Keeper<SystemClock, S>,
        stopped: oneshot::Receiver<()>,
        whatever_happens: StopsServer,
    ) -> oneshot::Receiver<Result<(), KeeperError>> {
        let (told, ended) = oneshot::channel();
        // Were the thread gone, the keeper would be dropped here, which closes the issuer and stops the server.
        let _ = self.work.send(Kept { keeper, stopped, whatever_happens, told });
        ended
    }
}

/// Stops the server when dropped. A keeper that ends in a panic leaves a server that can only refuse: better it ends
/// with an error, and its supervisor starts it again.
pub(super) struct StopsServer(pub(super) Arc<Server>);

impl Drop for StopsServer {
    fn drop(&mut self) {
        self.0.request_stop();
    }
}
