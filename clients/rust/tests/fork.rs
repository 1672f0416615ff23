//! Forks of a process whose threads draw, against a scripted server.

#![cfg(unix)]
#![allow(unsafe_code, clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use getid_client::{Layout, TestClock};
use support::{Fixture, Step};

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn _exit(status: i32) -> !;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

/// Runs `child` in a fork of this process. Returns whether it returned true.
fn is_true_in_child(child: impl FnOnce() -> bool) -> bool {
    let process = fork();
    if process == 0 {
        _exit(i32::from(!child()));
    }
    assert!(process > 0);
    let mut status = 0;
    // SAFETY: the status is a valid place for an integer.
    assert_eq!(unsafe { waitpid(process, &raw mut status, 0) }, process);
    status == 0
}

#[test]
fn a_child_continues_above_its_parent_while_threads_hold_the_lock() {
    let fixture = Fixture::with(|builder| builder.clock(TestClock::running()));
    let orders = fixture.client.sequence("orders").unwrap();
    let is_ended = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (orders, is_ended) = (orders.clone(), Arc::clone(&is_ended));
            thread::spawn(move || {
                while !is_ended.load(Ordering::Relaxed) {
                    drop(orders.next());
                }
            })
        })
        .collect();
    for _ in 0..30 {
        let newest = orders.next().unwrap();
        assert!(is_true_in_child(|| {
            let values: Vec<_> = (0..50).map_while(|_| orders.next().ok()).collect();
            values.len() == 50 && values[0] > newest && values.is_sorted_by(|a, b| a < b)
        }));
    }
    is_ended.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_child_releases_nothing_of_its_parent_and_the_parent_keeps_its_connection() {
    let fixture = Fixture::with(|builder| builder.clock(TestClock::running()));
    let worker = fixture.client.worker("orders", Layout::TWITTER).unwrap();
    let id = worker.next().unwrap();
    assert!(is_true_in_child(|| fixture.client.close() == Ok(true) && worker.next().is_err()));
    assert_eq!(fixture.server.requests("WORKERID RELEASE").len(), 0);
    // A child that draws has a lease of its own, and its child too.
    fixture.server.set_worker(9, 30_000);
    assert!(is_true_in_child(|| {
        let own = worker.next().unwrap();
        own > id
            && Layout::TWITTER.parts(own).unwrap().worker == 9
            && is_true_in_child(|| worker.next().is_ok_and(|newer| newer > own))
            && fixture.client.close() == Ok(true)
    }));
    assert_eq!(fixture.server.requests("WORKERID RELEASE").len(), 1);
    assert!(worker.next().unwrap() > id);
    assert_eq!(worker.stats().unwrap().leases, 1);
    assert_eq!(fixture.client.close(), Ok(true));
    // The parent, the child and the grandchild had a connection each; a release has one of its own.
    assert_eq!(fixture.server.requests("CONNECT").len(), 5);
}

#[test]
fn a_client_that_is_dropped_in_a_child_sends_nothing() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence("orders").unwrap();
    orders.next().unwrap();
    let client = fixture.client.clone();
    assert!(is_true_in_child(move || {
        drop((client, orders));
        true
    }));
    assert_eq!(fixture.client.sequence("orders").unwrap().next(), Ok(2));
    assert_eq!(fixture.server.requests("END").len(), 0);
}

#[test]
fn a_call_under_way_ends_in_the_parent_only() {
    let fixture = Fixture::new();
    fixture.server.then(Step::GatedModel);
    let orders = fixture.client.sequence("orders").unwrap();
    let call = {
        let orders = orders.clone();
        thread::spawn(move || orders.next())
    };
    fixture.server.wait("SEQUENCE", 1);
    assert!(is_true_in_child(|| orders.next().is_ok()));
    fixture.server.open_gate();
    assert!(call.join().unwrap().is_ok());
}
