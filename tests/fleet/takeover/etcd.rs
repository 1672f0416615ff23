//! The same on etcd: three members where it is about elections, one where its data is put back.

use std::time::Instant;

use super::fleet::{ClaimStore, median};
use super::{cable_is_cut, is_long, killed, stands_still, stopped, store_goes_back, store_stops, two};
use crate::support::etcd::EtcdCluster;
use crate::support::eventually;
use crate::support::proxy::{Proxy, Target};

impl ClaimStore for EtcdCluster {
    fn url(&self) -> String {
        EtcdCluster::url(self)
    }

    fn folder(&self) -> std::path::PathBuf {
        self.members[0].data()
    }

    fn stop(&mut self) {
        self.kill();
    }

    fn start(&mut self) {
        self.start_again();
    }
}

#[test]
#[ignore = "needs etcd"]
fn a_holder_on_etcd_is_killed() {
    killed(&EtcdCluster::start(3, &[]));
}

#[test]
#[ignore = "needs etcd"]
fn a_holder_on_etcd_stops() {
    stopped(&EtcdCluster::start(3, &[]));
}

#[test]
#[ignore = "needs etcd"]
fn a_holder_on_etcd_stands_still() {
    stands_still(&EtcdCluster::start(3, &[]));
}

#[test]
#[ignore = "needs etcd"]
fn the_cable_to_etcd_is_cut() {
    let cluster = EtcdCluster::one(&[]);
    let proxies = [(), ()].map(|()| Proxy::to(Target::Port(cluster.members[0].port)));
    let urls = [0, 1].map(|at: usize| format!("etcd://127.0.0.1:{}/getid", proxies[at].port));
    cable_is_cut(&cluster, &proxies, &urls);
}

#[test]
#[ignore = "needs etcd"]
fn etcd_stops_with_the_claims() {
    store_stops(&mut EtcdCluster::start(3, &[]));
}

#[test]
#[ignore = "needs etcd"]
fn etcd_goes_back_with_the_claims() {
    store_goes_back(&mut EtcdCluster::one(&[]));
}

/// An election, and a takeover: etcd's own leases would wait for both, one after the other.
#[test]
#[ignore = "needs etcd"]
fn the_leader_of_etcd_is_killed_together_with_the_holder() {
    let mut cluster = EtcdCluster::start(3, &[]);
    let mut fleet = two(&cluster);
    let load = fleet.load(4);
    let mut times = Vec::new();
    for _ in 0..if is_long() { 10 } else { 2 } {
        let holder = fleet.holder();
        let before = load.count();
        eventually("a load", || load.count() > before + 1000);
        let leader = cluster.leader();
        let begin = Instant::now();
        cluster.members[leader].kill();
        fleet.kill(holder);
        times.push(load.first_of_others(holder, begin, &mut fleet) - begin);
        cluster.start_again();
        fleet.start_again(holder);
    }
    load.judge();
    let median = median(&mut times);
    let most = times.last().expect("some");
    println!("figure: leader and holder killed together, {} takeovers: median {median:?}, max {most:?}", times.len());
}
