//! Runs the commands of docs/fleet.md that try a fleet on one machine, as printed except for ports and folder.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::support::haproxy::HaProxy;
use crate::support::http::Http;
use crate::support::{eventually, folder, free_port, getid, in_time};

/// Ports in the page and in `examples/fleet/haproxy.cfg`, the proxy's first.
const PORTS: [&str; 5] = ["7899", "7890", "7891", "7880", "7881"];

/// The servers of the page, and its remaining commands.
struct Walk {
    /// The active server and the standby.
    servers: [Server; 2],
    ports: Vec<(&'static str, u16)>,
    /// The commands of the proxy and of the client.
    rest: Vec<String>,
    _dir: TempDir,
}

/// A server process that is killed when this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Walk {
    /// Runs the page's commands up to the proxy.
    fn begin() -> Walk {
        let (dir, ports) = (folder(), PORTS.map(|port| (port, free_port())).to_vec());
        let page = include_str!("../../../docs/fleet.md");
        let (_, behind) = page.split_once("### All of it on one machine").expect("the heading");
        let (_, fence) = behind.split_once("```sh\n").expect("its commands");
        let (fence, _) = fence.split_once("```").expect("their end");
        let place = dir.path().join("fleet").display().to_string();
        let shown = fence.replace("/tmp/fleet", &place);
        let lines: Vec<_> = shown.lines().map(|line| with_ports(line, &ports)).collect();
        let [make, init, first, second, rest @ ..] = lines.as_slice() else { panic!("{fence}") };
        assert_eq!(*make, format!("mkdir {place}"));
        std::fs::create_dir(&place).expect("made");
        assert!(command(init).status().expect("the program runs").success(), "{init}");
        let start = |line: &str| Server(command(line).stdout(Stdio::null()).spawn().expect("the program runs"));
        let active = start(first);
        eventually("the first server has the claim", || readyz(port(&ports, "7880")) == Some(200));
        let standby = start(second);
        eventually("the second server is a standby", || readyz(port(&ports, "7881")) == Some(503));
        Walk { servers: [active, standby], ports, rest: rest.to_vec(), _dir: dir }
    }

    fn stop_first(&mut self) {
        let Server(first) = &mut self.servers[0];
        kill(Pid::from_raw(i32::try_from(first.id()).expect("a pid")), Signal::SIGINT).expect("sent");
        assert!(first.wait().expect("its status").success());
    }
}

fn port(ports: &[(&str, u16)], shown: &str) -> u16 {
    ports.iter().find(|(from, _)| *from == shown).expect("a port of the page").1
}

/// Returns a command with the ports of this test.
fn with_ports(line: &str, ports: &[(&str, u16)]) -> String {
    let words = line.split(' ').map(|word| match ports.iter().find(|(from, _)| *from == word) {
        Some((_, to)) => to.to_string(),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn command(line: &str) -> Command {
    let mut words = line.split(' ');
    assert_eq!(words.next(), Some("getid"), "{line}");
    let mut command = getid();
    command.args(words).stdin(Stdio::null());
    command
}

/// Returns the status of `/readyz`, or `None` if no server listens yet.
fn readyz(port: u16) -> Option<u16> {
    std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    Some(Http::connect(port).ask("GET /readyz", &[], "").status)
}

/// HAProxy's configuration checks the ports of the servers, and distinguishes the holder of the claim from the standby.
#[test]
fn its_servers_are_where_the_proxy_asks() {
    let mut walk = Walk::begin();
    let config = super::read("haproxy.cfg");
    for server in ["127.0.0.1:7890 port 7880", "127.0.0.1:7891 port 7881"] {
        assert!(config.contains(server), "{server}");
    }
    let standby = port(&walk.ports, "7881");
    walk.stop_first();
    eventually("the second server has the claim", || readyz(standby) == Some(200));
}

#[test]
#[ignore = "needs haproxy"]
fn it_ends_at_the_holder_of_the_claim() {
    let mut walk = Walk::begin();
    let [proxy, get] = walk.rest.as_slice() else { panic!("{:?}", walk.rest) };
    assert_eq!(proxy, "haproxy -f examples/fleet/haproxy.cfg");
    let _proxy = HaProxy::of("fleet/haproxy.cfg", &walk.ports);
    let get = get.clone();
    let an_id = || {
        let output = command(&get).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then(|| text.parse::<u64>().expect("an ID"))
    };
    let before = in_time("an ID of the first one", an_id);
    walk.stop_first();
    let after = in_time("an ID of the other one", an_id);
    assert!(after > before, "{before} {after}");
}
