//! Sequences against a scripted server.

#![allow(clippy::unwrap_used)]

mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use getid_client::{Client, Error, IdSource, SequenceOptions, TestClock};
use support::{BOUND, Fixture, NOW_MS, Server, Step, span, until};

fn fresh() -> SequenceOptions {
    SequenceOptions::default().fresh(true)
}

fn prefetch(values: u64) -> SequenceOptions {
    SequenceOptions::default().prefetch_max(values)
}

#[test]
fn values_ascend_over_segments_and_the_prefetch_grows() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence("orders").unwrap();
    let values: Vec<_> = (0..1000).map(|_| orders.next().unwrap()).collect();
    assert_eq!(values, (1..=1000).collect::<Vec<_>>());
    assert_eq!(fixture.server.wait("SEQUENCE", 1), "SEQUENCE NEXT orders COUNT 17");
    let stats = orders.stats().unwrap();
    assert_eq!((stats.values, stats.dropped, stats.failures), (1000, 0, 0));
    assert!(stats.prefetch > 100, "{stats:?}");
    assert_eq!(fixture.server.requests("CONNECT").len(), 1);
}

#[test]
fn a_fetch_starts_when_half_of_the_last_segment_is_left_and_never_by_a_timer() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence("orders").unwrap();
    fixture.client.sequence("idle").unwrap();
    // 17 values are fetched: after 8 of them 9 are left, after 9 of them 8.
    (1..=8).for_each(|value| assert_eq!(orders.next(), Ok(value)));
    fixture.server.pass(1000);
    assert_eq!(orders.stats().unwrap().held, 9);
    orders.next().unwrap();
    fixture.server.wait("SEQUENCE", 2);
    until(|| orders.stats().unwrap().fetches == 2);
    assert_eq!(orders.take(8).unwrap(), (10..=17).collect::<Vec<_>>());
}

#[test]
fn a_segment_is_dropped_when_it_is_old_by_either_clock_or_the_wall_clock_goes_back() {
    for (wall_ms, mono_ms) in [(60_000, 0), (0, 60_000), (-1, 0)] {
        let fixture = Fixture::new();
        let orders = fixture.client.sequence_with("orders", prefetch(9)).unwrap();
        assert_eq!(orders.next().unwrap(), 1);
        // The wall clock is compared after a millisecond of monotonic time.
        fixture.clock.shift(wall_ms, mono_ms + 1);
        assert_eq!(orders.next().unwrap(), 11, "{wall_ms} {mono_ms}");
        assert_eq!(orders.stats().unwrap().dropped, 9);
    }
}

#[test]
fn a_value_that_was_fetched_for_too_long_is_not_returned() {
    let fixture = Fixture::new();
    fixture.server.then(Step::GatedModel);
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    let call = {
        let orders = orders.clone();
        thread::spawn(move || orders.next())
    };
    fixture.server.wait("SEQUENCE", 1);
    fixture.server.pass(60_000);
    fixture.server.open_gate();
    until(|| orders.stats().unwrap().fetches == 1);
    assert_eq!(fixture.server.requests("SEQUENCE").len(), 1);
    let error = orders.next_timeout(Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("later than their hold of 60s"), "{error}");
    fixture.server.pass(10);
    assert_eq!(call.join().unwrap(), Ok(2));
}

#[test]
fn fresh_values_serve_only_calls_that_waited_when_their_request_was_sent() {
    let fixture = Fixture::new();
    fixture.server.then(Step::GatedModel);
    let serial = fixture.client.sequence_with("serial", fresh()).unwrap();
    let first = thread::spawn({
        let serial = serial.clone();
        move || serial.next()
    });
    assert_eq!(fixture.server.wait("SEQUENCE", 1), "SEQUENCE NEXT serial COUNT 1");
    let later: Vec<_> = (0..3)
        .map(|_| {
            let serial = serial.clone();
            thread::spawn(move || serial.next().unwrap())
        })
        .collect();
    until(|| serial.stats().unwrap().waits == 4);
    assert_eq!(serial.try_next(), Ok(None));
    fixture.server.open_gate();
    assert_eq!(first.join().unwrap(), Ok(1));
    assert_eq!(fixture.server.wait("SEQUENCE", 2), "SEQUENCE NEXT serial COUNT 3");
    let mut values: Vec<_> = later.into_iter().map(|call| call.join().unwrap()).collect();
    values.sort_unstable();
    assert_eq!(values, [2, 3, 4]);
    assert_eq!(serial.stats().unwrap().held, 0);
}

#[test]
fn after_a_change_of_the_connection_values_are_above_the_newest_one() {
    let fixture = Fixture::with(|builder| builder.clock(TestClock::running()));
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    assert_eq!(orders.take(10).unwrap().last(), Some(&10));
    fixture.server.cut();
    fixture.server.set_value(4, 1);
    // 5 to 8 are not above 10, and neither are 9 and 10.
    assert_eq!(orders.take(4).unwrap(), [11, 12, 13, 14]);
    let requests = fixture.server.requests("SEQUENCE");
    let above: Vec<_> = requests.iter().filter(|request| request.ends_with("COUNT 4 ABOVE 10")).collect();
    assert!(above.len() >= 2, "{requests:?}");
    assert_eq!(orders.stats().unwrap().dropped, 6);
}

#[test]
fn a_range_of_unexpected_form_closes_the_connection() {
    for reply in [
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n:1\r\n",
        "*3\r\n:2\r\n:1\r\n:1\r\n",
        "*3\r\n:-1\r\n:1\r\n:1\r\n",
        "*3\r\n:1\r\n:9\r\n:1\r\n",
        "*3\r\n:1\r\n:2\r\n:0\r\n",
        "*3\r\n:1\r\n:2\r\n:3\r\n",
        "*3\r\n:1\r\n:1\r\n$1\r\n1\r\n",
        "*3\r\n:1\r\n:1\r\n:99999999999999999999\r\n",
        "*3\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
        "*1000001\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "$1048577\r\n",
        "$2\r\nabc\r\n",
        "x\r\n",
        ":\r\n",
        ":+1\r\n",
        "\r\n",
    ] {
        let fixture = Fixture::with(|builder| builder.clock(TestClock::running()));
        fixture.server.then(Step::text(reply));
        let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
        assert_eq!(orders.next(), Ok(1), "{reply:?}");
        let event = fixture.event("disconnected", 1);
        assert!(event.reason.contains("unexpected reply"), "{reply:?}: {event:?}");
        assert_eq!(fixture.server.requests("CONNECT").len(), 2, "{reply:?}");
        assert_eq!(orders.stats().unwrap().failures, 1);
    }
}

#[test]
fn a_line_without_an_end_closes_the_connection() {
    let fixture = Fixture::with(|builder| builder.clock(TestClock::running()));
    fixture.server.then(Step::Reply(vec![b'+'; 70_000]));
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    assert_eq!(orders.next(), Ok(1));
    assert!(fixture.event("fetch_failed", 1).reason.contains("more than 65536 bytes"));
}

#[test]
fn the_largest_value_of_all_is_returned() {
    let fixture = Fixture::new();
    fixture.server.then(Step::Reply(span(i64::MAX - 2, i64::MAX, 2)));
    let orders = fixture.client.sequence_with("orders", prefetch(1)).unwrap();
    assert_eq!((orders.next(), orders.next()), (Ok(i64::MAX - 2), Ok(i64::MAX)));
}

#[test]
fn a_call_that_times_out_leaves_its_values_to_later_calls() {
    let fixture = Fixture::new();
    fixture.server.then(Step::GatedModel);
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    let call = {
        let orders = orders.clone();
        thread::spawn(move || orders.next())
    };
    fixture.server.wait("SEQUENCE", 1);
    let Err(Error::Unavailable(message)) = orders.next_timeout(Duration::ZERO) else { panic!("a value came") };
    assert!(message.contains("sequence 'orders'") && message.contains("has not replied yet"), "{message}");
    fixture.server.open_gate();
    assert_eq!(call.join().unwrap(), Ok(1));
    assert_eq!(orders.next(), Ok(2));
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_future_is_woken_and_a_dropped_one_leaves_its_values() {
    let fixture = Fixture::new();
    fixture.server.then(Step::GatedModel);
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let mut dropped = orders.next_async();
    assert_eq!(pin!(&mut dropped).poll(&mut context), Poll::Pending);
    fixture.server.wait("SEQUENCE", 1);
    drop(dropped);
    let mut kept = pin!(orders.next_async());
    assert_eq!(kept.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(kept.as_mut().poll(&mut context), Poll::Pending);
    fixture.server.open_gate();
    until(|| count.0.load(Ordering::SeqCst) == 1);
    assert_eq!(kept.poll(&mut context), Poll::Ready(Ok(1)));
}

#[test]
fn a_future_ends_with_its_time_out() {
    let fixture = Fixture::with(|builder| builder.timeout(Duration::from_millis(50)));
    fixture.server.then(Step::Hang);
    let orders = fixture.client.sequence("orders").unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut future = pin!(orders.next_async());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    until(|| count.0.load(Ordering::SeqCst) > 0);
    let result = future.poll(&mut Context::from_waker(&waker));
    assert!(matches!(result, Poll::Ready(Err(Error::Unavailable(_)))), "{result:?}");
    // The request is still under way.
    assert_eq!(fixture.server.requests("END").len(), 0);
    fixture.server.open_gate();
}

#[test]
fn errors_are_met_by_their_first_word() {
    for error in ["TRYAGAIN x", "BUSY x", "EXHAUSTED x", "MISCONF x", "LOADING x", "ERR max number of clients reached"]
    {
        let fixture = Fixture::with(|builder| builder.clock(TestClock::running()));
        fixture.server.then(Step::error(error));
        let orders = fixture.client.sequence("orders").unwrap();
        assert_eq!(orders.next(), Ok(1), "{error}");
        assert!(fixture.event("fetch_failed", 1).reason.ends_with(error));
    }
    for error in ["NOAUTH x", "NOPERM x", "ERR no such sequence"] {
        let fixture = Fixture::new();
        fixture.server.then(Step::error(error)).then(Step::error(error));
        let orders = fixture.client.sequence("orders").unwrap();
        for _ in 0..2 {
            let Err(Error::Refused { code, message }) = orders.next() else { panic!("{error} is not refused") };
            assert_eq!(code, error.split(' ').next().unwrap());
            assert!(message.contains("sequence 'orders'") && message.ends_with(error), "{message}");
        }
        assert_eq!(orders.next(), Ok(1));
    }
}

#[test]
fn a_refused_prefetch_is_not_repeated_by_each_call() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence("orders").unwrap();
    (1..=8).for_each(|value| assert_eq!(orders.next(), Ok(value)));
    fixture.server.then(Step::error("NOPERM x"));
    orders.next().unwrap();
    fixture.event("fetch_failed", 1);
    assert_eq!(orders.take(8).unwrap().len(), 8);
    assert_eq!(fixture.server.requests("SEQUENCE").len(), 2);
}

#[test]
fn a_login_is_sent_first_and_a_refused_one_is_raised() {
    let clock = TestClock::frozen(NOW_MS);
    let server = Server::start(&clock);
    let url = format!("getid://app:p%20w@127.0.0.1:{}", server.port);
    server.then(Step::error("WRONGPASS invalid username-password pair"));
    let fixture = Fixture::of(server, &url, |builder| builder);
    let orders = fixture.client.sequence("orders").unwrap();
    let Err(Error::Refused { code, message }) = orders.next() else { panic!("not refused") };
    assert_eq!(code, "WRONGPASS");
    assert!(!message.contains("p w"), "{message}");
    assert_eq!(orders.next(), Ok(1));
    assert_eq!(fixture.server.requests("AUTH"), ["AUTH app p w", "AUTH app p w"]);
}

#[test]
fn the_next_address_is_used_after_a_failure() {
    let clock = TestClock::frozen(NOW_MS);
    let (first, second) = (Server::start(&clock), Server::start(&clock));
    second.set_value(100, 1);
    let url = format!("getid://127.0.0.1:{},127.0.0.1:{}?order=given", first.port, second.port);
    let fixture = Fixture::of(first, &url, |builder| builder);
    fixture.server.then(Step::error("MISCONF store is away"));
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    assert_eq!(orders.next(), Ok(101));
    // The client stays with a server until an error.
    assert_eq!(orders.next(), Ok(102));
    assert_eq!(second.requests("CONNECT").len(), 1);
    second.cut();
    drop(second);
    fixture.server.set_value(200, 1);
    assert_eq!(orders.next(), Ok(201));
    assert_eq!(fixture.server.wait("SEQUENCE", 2), "SEQUENCE NEXT orders COUNT 1 ABOVE 102");
}

#[test]
fn warm_up_fetches_what_later_calls_need() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    orders.warm_up(500).unwrap();
    assert_eq!(orders.stats().unwrap().held, 500);
    orders.warm_up(500).unwrap();
    assert_eq!(orders.take(500).unwrap().len(), 500);
    assert_eq!(fixture.server.requests("SEQUENCE"), ["SEQUENCE NEXT orders COUNT 500"]);
}

#[test]
fn warm_up_ends_with_two_segments_of_a_server_that_gives_short_ranges() {
    let fixture = Fixture::new();
    for range in 0..9 {
        fixture.server.then(Step::span(1 + range * 10, 10 + range * 10, 1));
    }
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    orders.warm_up(500).unwrap();
    assert_eq!(fixture.server.requests("SEQUENCE").len(), 2);
    // A call that waits gets all of its values.
    assert_eq!(orders.take(50).unwrap(), (1..=50).collect::<Vec<_>>());
}

#[test]
fn try_next_never_waits_and_starts_the_fetch() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    assert_eq!(orders.try_next(), Ok(None));
    until(|| orders.stats().unwrap().held == 1);
    assert_eq!(orders.try_next(), Ok(Some(1)));
}

#[test]
fn closing_ends_calls_under_way_and_all_later_ones() {
    let fixture = Fixture::new();
    fixture.server.then(Step::Hang);
    let orders = fixture.client.sequence("orders").unwrap();
    let call = {
        let orders = orders.clone();
        thread::spawn(move || orders.next())
    };
    fixture.server.wait("SEQUENCE", 1);
    assert_eq!(fixture.client.close(), Ok(true));
    assert_eq!(call.join().unwrap(), Err(Error::Closed));
    assert_eq!((orders.next(), orders.try_next()), (Err(Error::Closed), Err(Error::Closed)));
    assert_eq!((orders.warm_up(1), orders.take(2)), (Err(Error::Closed), Err(Error::Closed)));
    assert_eq!(fixture.client.close(), Ok(true));
    assert!(matches!(fixture.client.sequence("orders"), Err(Error::Closed)));
    fixture.server.open_gate();
}

#[test]
fn a_reply_that_comes_after_a_discard_changes_nothing() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence_with("orders", prefetch(0)).unwrap();
    orders.warm_up(10).unwrap();
    fixture.server.then(Step::Gated(span(11, 13, 1)));
    let call = {
        let orders = orders.clone();
        thread::spawn(move || orders.take(13))
    };
    fixture.server.wait("SEQUENCE", 2);
    fixture.client.discard().unwrap();
    fixture.server.open_gate();
    // The call continues to wait, and gets none of the values from before.
    assert_eq!(call.join().unwrap().unwrap(), (11..=23).collect::<Vec<_>>());
    assert_eq!(orders.stats().unwrap().dropped, 10);
    assert_eq!(fixture.server.wait("SEQUENCE", 3), "SEQUENCE NEXT orders COUNT 13 ABOVE 10");
}

#[test]
fn nothing_is_sent_after_a_discard_without_a_call() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence("orders").unwrap();
    orders.next().unwrap();
    fixture.client.discard().unwrap();
    fixture.server.log.wait(1, |entry| entry == "END");
    assert_eq!(orders.stats().unwrap().held, 0);
    assert_eq!(fixture.server.requests("CONNECT").len(), 1);
}

#[test]
fn a_listener_that_panics_or_closes_the_client_does_no_harm() {
    let fixture =
        Fixture::with(|builder| builder.clock(TestClock::running()).on_event(|_| panic!("a mistake of the listener")));
    fixture.server.then(Step::Close);
    let orders = fixture.client.sequence("orders").unwrap();
    assert_eq!(orders.next(), Ok(1));
    assert_eq!(orders.take(100).unwrap().len(), 100);
    assert_eq!(fixture.client.close(), Ok(true));
}

#[cfg(unix)]
#[test]
fn a_unix_socket_whose_server_does_not_accept_is_given_up() {
    use std::os::unix::net::{UnixListener, UnixStream};

    let path = std::env::temp_dir().join(format!("getid-client-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    // The backlog is full once a connect would block.
    let (sender, receiver) = std::sync::mpsc::channel();
    let filler = path.clone();
    thread::spawn(move || while sender.send(UnixStream::connect(&filler)).is_ok() {});
    let mut streams = Vec::new();
    while let Ok(stream) = receiver.recv_timeout(Duration::from_millis(300)) {
        streams.push(stream);
    }
    let client = Client::connect(&format!("getid+unix://{}", path.display())).unwrap();
    let error = client.sequence("orders").unwrap().next_timeout(Duration::from_millis(1100)).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert_eq!(client.close(), Ok(true));
    drop((listener, receiver));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn one_name_is_one_object_with_one_set_of_options() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.client.sequence("orders").unwrap(), fixture.client.sequence("orders").unwrap());
    assert_eq!((first.next(), second.next()), (Ok(1), Ok(2)));
    let error = fixture.client.sequence_with("orders", fresh()).unwrap_err();
    assert!(error.to_string().contains("other options"), "{error}");
}

#[test]
fn arguments_outside_of_their_range_are_refused() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence("orders").unwrap();
    let errors = [
        fixture.client.sequence("").err(),
        fixture.client.sequence(&"x".repeat(129)).err(),
        fixture.client.sequence_with("a", prefetch(10_000_001)).err(),
        fixture.client.sequence_with("a", SequenceOptions::default().hold(Duration::from_secs(61))).err(),
        fixture.client.sequence_with("a", SequenceOptions::default().hold(Duration::from_millis(9))).err(),
        orders.take(0).err(),
        orders.take(1_000_001).err(),
        orders.next_timeout(Duration::from_secs(86_401)).err(),
        fixture.client.close_timeout(Duration::MAX).err(),
        Client::builder().timeout(Duration::MAX).connect().err(),
        Client::connect("http://localhost").err(),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        let Some(Error::Usage(message)) = error else { panic!("{index} is no mistake: {error:?}") };
        assert!(message.contains("must"), "{message}");
    }
}

#[test]
fn too_many_objects_and_too_many_waiting_calls_are_refused() {
    let fixture = Fixture::new();
    fixture.server.then(Step::Hang);
    let orders = fixture.client.sequence("orders").unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut futures: Vec<_> = (0..10_001).map(|_| Box::pin(orders.next_async())).collect();
    let last = futures.pop().unwrap();
    assert!(futures.iter_mut().all(|future| future.as_mut().poll(&mut context).is_pending()));
    let result = pin!(last).poll(&mut context);
    let Poll::Ready(Err(Error::Unavailable(message))) = result else { panic!("{result:?}") };
    assert!(message.starts_with("10000 calls wait"), "{message}");
    for index in 1..10_000 {
        fixture.client.sequence(&format!("s{index}")).unwrap();
    }
    assert!(fixture.client.sequence("one more").unwrap_err().to_string().contains("10000 objects"));
    fixture.client.sequence("s9999").unwrap();
}

#[test]
fn the_thread_ends_when_the_last_handle_is_dropped() {
    let fixture = Fixture::new();
    let orders = fixture.client.sequence("orders").unwrap();
    let Fixture { client, server, .. } = fixture;
    drop(client);
    assert_eq!(orders.next(), Ok(1));
    assert_eq!(server.requests("END").len(), 0);
    drop(orders);
    server.log.wait(1, |entry| entry == "END");
}

#[test]
fn values_of_threads_are_unique_and_each_thread_ascends() {
    let fixture = Fixture::with(|builder| builder.clock(TestClock::running()));
    let orders: Arc<dyn IdSource> = Arc::new(fixture.client.sequence("orders").unwrap());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let orders = Arc::clone(&orders);
            thread::spawn(move || (0..5000).map(|_| orders.next_timeout(BOUND).unwrap()).collect::<Vec<_>>())
        })
        .collect();
    let mut all = Vec::new();
    for thread in threads {
        let values = thread.join().unwrap();
        assert!(values.is_sorted_by(|a, b| a < b));
        all.extend(values);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 20_000);
}
