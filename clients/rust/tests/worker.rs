//! Workers against a scripted server.

#![allow(clippy::unwrap_used)]

mod support;

use std::thread;
use std::time::Duration;

use getid_client::{Error, Layout, Worker, WorkerOptions};
use support::{Fixture, NOW_MS, Step, lease, until};

fn ms_layout() -> Layout {
    Layout::new(41, 10, 2).unwrap().epoch_ms(1_700_000_000_000).unwrap()
}

/// Returns the time after `NOW_MS`, the worker id and the counter of the next ID.
fn next(worker: &Worker) -> (i64, u32, u32) {
    let parts = worker.layout().unwrap().parts(worker.next().unwrap()).unwrap();
    (parts.unix_ms - NOW_MS, parts.worker, parts.counter)
}

fn end(ms: i64) -> Step {
    Step::text(&format!("*1\r\n:{}\r\n", NOW_MS + ms))
}

#[test]
fn a_full_counter_advances_the_time() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    let ids: Vec<_> = (0..6).map(|_| next(&worker)).collect();
    assert_eq!(ids, [(0, 7, 0), (0, 7, 1), (0, 7, 2), (0, 7, 3), (1, 7, 0), (1, 7, 1)]);
    let request = fixture.server.wait("WORKERID", 1);
    assert!(request.starts_with("WORKERID LEASE orders"), "{request}");
    // A clock that goes back changes nothing.
    fixture.clock.shift(-500, 0);
    assert_eq!(next(&worker), (1, 7, 2));
    assert_eq!(worker.take(2000).unwrap().len(), 2000);
    assert_eq!(worker.stats().unwrap().values, 2007);
}

#[test]
fn ids_end_with_the_lease_until_a_renewal_returns_a_later_end() {
    let fixture = Fixture::new();
    fixture.server.set_worker(3, 1000);
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.warm_up().unwrap();
    // 1000 units of 4 IDs.
    let ids = worker.take(4000).unwrap();
    assert!(ids.is_sorted_by(|a, b| a < b));
    fixture.server.then(Step::GatedModel);
    assert_eq!(worker.try_next(), Ok(None));
    let renewal = fixture.server.wait("WORKERID RENEW", 1);
    assert_eq!(renewal, format!("WORKERID RENEW orders 3 token LAST {}", NOW_MS + 999));
    fixture.server.open_gate();
    fixture.event("renewed", 1);
    assert_eq!(next(&worker), (1000, 3, 0));
}

#[test]
fn a_renewal_is_due_after_a_third_of_the_lease_and_after_a_jump_of_the_wall_clock() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.next().unwrap();
    fixture.server.pass(9_999);
    assert!(worker.try_next().unwrap().is_some());
    assert_eq!(fixture.server.requests("WORKERID RENEW").len(), 0);
    fixture.server.pass(1);
    assert_eq!(
        fixture.server.wait("WORKERID RENEW", 1),
        format!("WORKERID RENEW orders 7 token LAST {}", NOW_MS + 9_999)
    );
    fixture.event("renewed", 1);
    // The wall clock is set, and a second after the last renewal has passed.
    fixture.server.pass(1_000);
    fixture.clock.shift(-5_000, 0);
    worker.next().unwrap();
    fixture.server.wait("WORKERID RENEW", 2);
}

#[test]
fn a_coarse_unit_is_used_only_if_the_lease_covers_all_of_it() {
    let fixture = Fixture::new();
    // The lease is from 3 ms to 49 ms after a unit's begin: the units at 10, 20 and 30 ms are covered.
    fixture.server.then(Step::Reply(lease(5, NOW_MS + 3, NOW_MS + 49, 3000)));
    let layout = Layout::new(39, 16, 1).unwrap().unit_ms(10).unwrap().epoch_ms(1_700_000_000_000).unwrap();
    let worker = fixture.client.worker("orders", layout.counter_first()).unwrap();
    let ids: Vec<_> = (0..6).map(|_| next(&worker)).collect();
    assert_eq!(ids, [(10, 5, 0), (10, 5, 1), (20, 5, 0), (20, 5, 1), (30, 5, 0), (30, 5, 1)]);
    assert_eq!(worker.try_next(), Ok(None));
    assert_eq!(fixture.server.wait("WORKERID RENEW", 1), format!("WORKERID RENEW orders 5 token LAST {}", NOW_MS + 39));
}

#[test]
fn a_clock_that_is_ahead_is_sent_as_last_and_reported_if_that_is_refused() {
    let fixture = Fixture::new();
    fixture.clock.shift(3_600_000, 0);
    // By the server's clock the lease ends 30 s after NOW_MS.
    fixture.server.then(Step::Reply(lease(1, NOW_MS, NOW_MS + 30_000, 30_000)));
    fixture.server.then(Step::error("ERR LAST is more than an hour past the server's time")).then(end(30_001));
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    let Err(Error::Clock { difference_ms, message }) = worker.next() else { panic!("no error of the clock") };
    assert_eq!(difference_ms, 3_569_999);
    assert!(message.contains("at least 3569.999 s ahead") && message.contains("timedatectl"), "{message}");
    let renewals = fixture.server.requests("WORKERID RENEW");
    let last = |ms: i64| format!("WORKERID RENEW orders 1 token LAST {}", NOW_MS + ms);
    assert_eq!(renewals, [last(3_599_999), last(-1)]);
    let event = fixture.event("clock", 1);
    assert_eq!((event.difference_ms, event.object.as_str()), (3_569_999, "orders"));
    assert_eq!(worker.stats().unwrap().clock_ahead_ms, 3_569_999);
}

#[test]
fn a_clock_that_is_a_little_ahead_gets_a_lease_that_suits_it() {
    let fixture = Fixture::new();
    fixture.clock.shift(40_000, 0);
    fixture.server.then(Step::Reply(lease(1, NOW_MS, NOW_MS + 30_000, 30_000))).then(end(60_000));
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    assert_eq!(next(&worker), (40_000, 1, 0));
    assert_eq!(
        fixture.server.wait("WORKERID RENEW", 1),
        format!("WORKERID RENEW orders 1 token LAST {}", NOW_MS + 39_999)
    );
}

#[test]
fn a_lost_lease_is_used_to_its_end_and_replaced() {
    for code in ["EXPIRED", "REVOKED", "WRONGTOKEN"] {
        let fixture = Fixture::new();
        let worker = fixture.client.worker("orders", ms_layout()).unwrap();
        worker.next().unwrap();
        fixture.server.then(Step::error(&format!("{code} x")));
        fixture.server.pass(10_000);
        fixture.event("lease_lost", 1);
        assert_eq!(next(&worker), (10_000, 7, 0));
        fixture.server.set_worker(8, 30_000);
        fixture.server.pass(20_000);
        assert_eq!(next(&worker), (30_000, 8, 0));
        assert_eq!(fixture.server.requests("WORKERID RENEW").len(), 1);
        assert_eq!(fixture.client.close(), Ok(true));
        // Only the second lease is released.
        assert_eq!(fixture.server.requests("WORKERID RELEASE").len(), 1);
    }
}

#[test]
fn a_new_lease_starts_above_the_newest_unit() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.take(402).unwrap();
    fixture.client.discard().unwrap();
    fixture.server.set_worker(2, 30_000);
    assert_eq!(next(&worker), (101, 2, 0));
    assert_eq!(worker.stats().unwrap().leases, 2);
}

#[test]
fn a_failed_renewal_is_retried_and_the_lease_goes_on() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.next().unwrap();
    fixture.server.then(Step::error("MISCONF store is away"));
    fixture.server.pass(10_000);
    fixture.event("renew_failed", 1);
    assert!(worker.try_next().unwrap().is_some());
    fixture.server.pass(999);
    assert!(worker.try_next().unwrap().is_some());
    assert_eq!(fixture.server.requests("WORKERID RENEW").len(), 1);
    fixture.server.pass(1);
    fixture.event("renewed", 1);
}

#[test]
fn a_lost_reply_to_a_lease_is_retried_after_a_second() {
    let fixture = Fixture::new();
    fixture.server.then(Step::Close).then(Step::error("EXHAUSTED x"));
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    let call = thread::spawn({
        let worker = worker.clone();
        move || worker.next()
    });
    fixture.event("fetch_failed", 1);
    fixture.server.pass(1000);
    fixture.event("fetch_failed", 2);
    fixture.server.pass(1999);
    assert_eq!(worker.try_next(), Ok(None));
    assert_eq!(fixture.server.requests("WORKERID LEASE").len(), 2);
    fixture.server.pass(1);
    call.join().unwrap().unwrap();
}

#[test]
fn a_lease_of_unexpected_form_closes_the_connection() {
    for reply in [
        "*4\r\n:1\r\n$1\r\nt\r\n:1\r\n:9\r\n",
        "*5\r\n:-1\r\n$1\r\nt\r\n:1\r\n:9\r\n:1\r\n",
        "*5\r\n:1\r\n$0\r\n\r\n:1\r\n:9\r\n:1\r\n",
        "*5\r\n:1\r\n$1\r\nt\r\n:9\r\n:9\r\n:1\r\n",
        "*5\r\n:1\r\n$1\r\nt\r\n:1\r\n:9\r\n:-1\r\n",
        "+OK\r\n",
        "*5\r\n:1\r\n$1\r\nt\r\n:9223372036854775806\r\n:9223372036854775807\r\n:1\r\n",
    ] {
        let fixture = Fixture::new();
        fixture.server.then(Step::text(reply));
        let worker = fixture.client.worker("orders", ms_layout()).unwrap();
        assert_eq!(worker.try_next(), Ok(None));
        let event = fixture.event("fetch_failed", 1);
        assert!(event.reason.contains("unexpected reply") && !event.reason.contains("$1"), "{event:?}");
    }
}

#[test]
fn a_worker_id_that_does_not_fit_is_released_and_refused() {
    let fixture = Fixture::new();
    fixture.server.set_worker(1024, 30_000);
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    let Err(Error::Refused { code, message }) = worker.next() else { panic!("not refused") };
    assert_eq!(code, "");
    assert!(message.contains("worker id 1024") && message.contains("worker-pool orders size 1024"), "{message}");
    fixture.event("released", 1);
    assert_eq!(
        fixture.server.wait("WORKERID RELEASE", 1),
        format!("WORKERID RELEASE orders 1024 token LAST {}", NOW_MS - 1)
    );
}

#[test]
fn closing_releases_with_the_newest_millisecond_and_ignores_a_late_renewal() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.take(5).unwrap();
    fixture.server.then(Step::Gated(format!("*1\r\n:{}\r\n", NOW_MS + 90_000).into_bytes()));
    fixture.server.pass(10_000);
    fixture.server.wait("WORKERID RENEW", 1);
    assert_eq!(fixture.client.close(), Ok(true));
    fixture.server.open_gate();
    let release = fixture.server.wait("WORKERID RELEASE", 1);
    assert_eq!(release, format!("WORKERID RELEASE orders 7 token LAST {}", NOW_MS + 1));
    assert_eq!(worker.next(), Err(Error::Closed));
    assert_eq!(worker.stats().unwrap().not_after_ms, None);
    fixture.event("released", 1);
    assert_eq!(fixture.events.all().iter().filter(|event| event.kind.as_str() == "renewed").count(), 0);
}

#[test]
fn a_release_whose_last_is_refused_is_sent_without_it() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.next().unwrap();
    fixture.server.then(Step::error("ERR LAST is more than an hour past the server's time"));
    assert_eq!(fixture.client.close(), Ok(true));
    assert_eq!(fixture.server.wait("WORKERID RELEASE", 2), "WORKERID RELEASE orders 7 token");
}

#[test]
fn all_leases_are_released_though_one_is_lost_or_refused() {
    for (reply, is_released) in [("REVOKED x", true), ("NOPERM x", false)] {
        let fixture = Fixture::new();
        for pool in ["a", "b", "c"] {
            fixture.client.worker(pool, ms_layout()).unwrap().next().unwrap();
        }
        fixture.server.then(Step::error(reply));
        assert_eq!(fixture.client.close(), Ok(is_released), "{reply}");
        assert_eq!(fixture.server.requests("WORKERID RELEASE").len(), 3);
    }
}

#[test]
fn a_renewal_to_a_time_out_of_range_closes_the_connection() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.next().unwrap();
    fixture.server.then(Step::text("*1\r\n:9223372036854775807\r\n"));
    fixture.server.pass(10_000);
    assert!(fixture.event("renew_failed", 1).reason.contains("unexpected reply"));
    assert_eq!(next(&worker), (10_000, 7, 0));
}

#[test]
fn closing_ends_within_its_time_out() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.next().unwrap();
    fixture.server.then(Step::Hang);
    assert_eq!(fixture.client.close_timeout(Duration::from_millis(20)), Ok(false));
    assert_eq!(fixture.client.close(), Ok(false));
    fixture.server.open_gate();
}

#[test]
fn a_dropped_client_releases_nothing() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", ms_layout()).unwrap();
    worker.next().unwrap();
    let support::Fixture { client, server, .. } = fixture;
    drop((client, worker));
    server.log.wait(1, |entry| entry == "END");
    assert_eq!(server.requests("WORKERID RELEASE").len(), 0);
}

#[test]
fn one_pool_serves_one_layout() {
    let fixture = Fixture::new();
    fixture.client.worker("orders", Layout::TWITTER).unwrap();
    assert!(fixture.client.worker("orders", Layout::DISCORD).is_err());
    assert!(fixture.client.worker_with("a", Layout::TWITTER, WorkerOptions::default().ttl_s(0)).is_err());
}

#[test]
fn a_name_is_cleaned_and_cut() {
    for (name, sent) in [
        ("api 1ö", "NAME api_1__".to_owned()),
        ("", String::new()),
        (&"x".repeat(65), format!("NAME {}-{}", "x".repeat(55), "9537c5fd")),
    ] {
        let fixture = Fixture::new();
        let options = WorkerOptions::default().name(name).ttl_s(60);
        let worker = fixture.client.worker_with("orders", ms_layout(), options).unwrap();
        worker.next().unwrap();
        let expected = format!("WORKERID LEASE orders {sent} TTL 60").replace("  ", " ");
        assert_eq!(fixture.server.wait("WORKERID LEASE", 1), expected);
    }
}

#[test]
fn the_time_of_a_layout_ends() {
    let fixture = Fixture::new();
    let worker = fixture.client.worker("orders", Layout::new(1, 10, 2).unwrap().epoch_ms(1_000).unwrap()).unwrap();
    until(|| !matches!(worker.try_next(), Ok(None)));
    let Err(Error::Refused { message, .. }) = worker.try_next() else { panic!("not refused") };
    assert!(message.contains("the time of the layout ended"), "{message}");
}
