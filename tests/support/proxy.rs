//! A proxy between a client and a server, which passes bytes on until a test makes it lose them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The server behind a proxy.
#[derive(Clone, Debug)]
pub enum Target {
    /// A port on loopback.
    Port(u16),
    /// A Unix socket at this path.
    Socket(PathBuf),
}

/// A proxy on a new port. It ends with the process: tests of a binary are few.
pub struct Proxy {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// A request ends the connection instead of being passed on.
    drops_requests: AtomicBool,
    /// A reply ends the connection instead of being passed on.
    drops_replies: AtomicBool,
    /// Nothing is passed on, and no connection ends, as after a cut of the cable.
    is_cut: AtomicBool,
    dropped: AtomicU64,
    ends: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl Proxy {
    pub fn to(target: Target) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = Proxy { port: listener.local_addr().expect("its address").port(), state: Arc::default() };
        let state = Arc::clone(&proxy.state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let _ = client.set_nodelay(true);
                match &target {
                    Target::Port(port) => {
                        let Ok(server) = TcpStream::connect(("127.0.0.1", *port)) else { continue };
                        let _ = server.set_nodelay(true);
                        let (Ok(back), Ok(end)) = (server.try_clone(), server.try_clone()) else { continue };
                        join(&state, client, server, back, move || drop(end.shutdown(Shutdown::Both)));
                    }
                    Target::Socket(path) => {
                        let Ok(server) = UnixStream::connect(path) else { continue };
                        let (Ok(back), Ok(end)) = (server.try_clone(), server.try_clone()) else { continue };
                        join(&state, client, server, back, move || drop(end.shutdown(Shutdown::Both)));
                    }
                }
            }
        });
        proxy
    }

    /// Sets whether the next request is lost, with its connection.
    pub fn drop_requests(&self, drops: bool) {
        self.state.drops_requests.store(drops, Ordering::SeqCst);
    }

    /// Sets whether the next reply is lost, with its connection.
    pub fn drop_replies(&self, drops: bool) {
        self.state.drops_replies.store(drops, Ordering::SeqCst);
    }

    /// Sets whether bytes of both directions are held back.
    pub fn cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, Ordering::SeqCst);
    }

    /// Returns the number of losses so far.
    pub fn dropped(&self) -> u64 {
        self.state.dropped.load(Ordering::SeqCst)
    }

    /// Ends all connections.
    pub fn end_connections(&self) {
        for end in self.state.ends.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            end();
        }
    }
}

fn join<S: Read + Write + Send + 'static>(
    state: &Arc<State>,
    client: TcpStream,
    server: S,
    back: S,
    end_server: impl Fn() + Send + 'static,
) {
    let (Ok(client_back), Ok(client_end)) = (client.try_clone(), client.try_clone()) else { return };
    let end_server: Arc<Mutex<dyn Fn() + Send>> = Arc::new(Mutex::new(end_server));
    let end = move || {
        let _ = client_end.shutdown(Shutdown::Both);
        end_server.lock().unwrap_or_else(PoisonError::into_inner)();
    };
    let end: Arc<Mutex<dyn Fn() + Send>> = Arc::new(Mutex::new(end));
    let ends = |end: &Arc<Mutex<dyn Fn() + Send>>| {
        let end = Arc::clone(end);
        move || end.lock().unwrap_or_else(PoisonError::into_inner)()
    };
    state.ends.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(ends(&end)));
    let (requests, replies) = (Arc::clone(state), Arc::clone(state));
    let (end_of_requests, end_of_replies) = (ends(&end), ends(&end));
    std::thread::spawn(move || {
        pass(client, server, &requests, &requests.drops_requests);
        end_of_requests();
    });
    std::thread::spawn(move || {
        pass(back, client_back, &replies, &replies.drops_replies);
        end_of_replies();
    });
}

/// Passes bytes on until one side ends, or until bytes arrive while `drops` is set.
fn pass(mut from: impl Read, mut to: impl Write, state: &State, drops: &AtomicBool) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(read @ 1..) = super::read(&mut from, &mut bytes) {
        while state.is_cut.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if drops.load(Ordering::SeqCst) {
            state.dropped.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if to.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}
