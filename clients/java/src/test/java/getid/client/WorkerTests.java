package getid.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Unit tests of workers, with a clock that stands still. */
final class WorkerTests {
    private static final Layout MILLIS = Layout.of(41, 10, 12).epochMs(1_600_000_000_000L);
    private static final Layout COARSE = Layout.of(39, 10, 8).unitMs(10).epochMs(1_600_000_000_000L);

    /** Client with a lease of worker id 7 and token {@code to}, and a sequence as a probe. */
    private static final class Leased implements AutoCloseable {
        final FakeServer server = new FakeServer();
        final TestClock clock = TestClock.stopped();
        final GetidClient client = Tests.builder(server).clock(clock).build();
        final IdSource ids;
        final long begin = clock.millis();
        private long probes;

        Leased(Layout layout, long notBefore, long length) throws Exception {
            ids = client.worker("p", layout);
            CompletableFuture<Void> warmed = CompletableFuture.runAsync(() -> ids.warmUp(1));
            lease(7, notBefore, length);
            warmed.get();
        }

        FakeServer.Request expect(String text) throws Exception {
            FakeServer.Request request = server.take();
            Tests.check(text, request.text);
            return request;
        }

        void lease(int id, long notBefore, long length) throws Exception {
            FakeServer.Request request = server.take();
            Tests.check(true, request.text.startsWith("WORKERID LEASE p"));
            request.reply("*5\r\n:" + id + "\r\n$2\r\nto\r\n:" + (begin + notBefore) + "\r\n:"
                    + (begin + notBefore + length) + "\r\n:" + length + "\r\n");
        }

        /** Expects a renewal with this LAST, and lets it end {@code length} ms behind the clock's begin. */
        void renew(long last, long length) throws Exception {
            expect("WORKERID RENEW p 7 to LAST " + (begin + last)).reply("*1\r\n:" + (begin + length) + "\r\n");
        }

        /** Checks that no renewal is due: the next request is that of a sequence. */
        void checkQuiet() throws Exception {
            SequenceOptions options = SequenceOptions.DEFAULT.fresh();
            CompletableFuture<Long> probe = client.sequence("probe", options).nextAsync();
            FakeServer.Request request = server.take();
            Tests.check(true, request.text.startsWith("SEQUENCE NEXT probe"));
            probes++;
            request.range(probes, probes);
            probe.get();
        }

        @Override
        public void close() throws java.io.IOException {
            client.close(Duration.ZERO);
            server.close();
        }
    }

    void testRenewalIsDueAfterAThird() throws Exception {
        try (Leased one = new Leased(MILLIS, 0, 30_000)) {
            one.clock.shift(9999, 9999);
            one.checkQuiet();
            one.clock.shift(1, 1);
            one.renew(-1, 40_000);
            one.checkQuiet();
            one.clock.shift(9999, 9999);
            one.checkQuiet();
            one.clock.shift(1, 1);
            one.renew(-1, 50_000);
        }
    }

    void testRenewalIsDueAfterASecondAtLeast() throws Exception {
        try (Leased one = new Leased(MILLIS, 0, 1500)) {
            one.clock.shift(999, 999);
            one.checkQuiet();
            one.clock.shift(1, 1);
            one.renew(-1, 3000);
        }
    }

    void testClockJumpMakesRenewalDueAtOnce() throws Exception {
        try (Leased one = new Leased(MILLIS, 0, 30_000)) {
            one.clock.shift(1000, 0);
            one.ids.next();
            one.checkQuiet();
            one.clock.shift(1, 0);
            one.ids.next();
            one.renew(1001, 60_000);
            one.checkQuiet();
            // A second after the last try at least.
            one.clock.shift(-1500, 0);
            one.ids.next();
            one.checkQuiet();
            one.clock.shift(999, 999);
            one.checkQuiet();
            one.clock.shift(1, 1);
            one.renew(1001, 60_000);
        }
    }

    void testLastOfAReleaseIsTheLastMillisecondOfTheUnit() throws Exception {
        try (Leased one = new Leased(COARSE, 0, 30_000)) {
            one.clock.shift(25, 25);
            one.ids.next();
            closing(one, "WORKERID RELEASE p 7 to LAST " + (one.begin + 29));
        }
    }

    void testLastOfAReleaseWithoutAnIdIsBeforeTheLease() throws Exception {
        try (Leased one = new Leased(COARSE, 5, 30_000)) {
            closing(one, "WORKERID RELEASE p 7 to LAST " + (one.begin + 4));
        }
    }

    private static void closing(Leased one, String release) throws Exception {
        CompletableFuture<Boolean> closed = CompletableFuture.supplyAsync(() -> one.client.close(Tests.LONG));
        one.expect(release).reply("+OK\r\n");
        Tests.check(true, closed.get());
    }

    void testReleaseIsSentWithoutLastAfterAnError() throws Exception {
        try (Leased one = new Leased(MILLIS, 0, 30_000)) {
            CompletableFuture<Boolean> closed = CompletableFuture.supplyAsync(() -> one.client.close(Tests.LONG));
            one.expect("WORKERID RELEASE p 7 to LAST " + (one.begin - 1)).reply("-ERR LAST is too late\r\n");
            one.expect("WORKERID RELEASE p 7 to").reply("+OK\r\n");
            Tests.check(true, closed.get());
        }
    }

    void testUnitIsUsedOnlyIfTheLeaseCoversAllOfIt() throws Exception {
        // The units begin at 10, 20 and 30: the lease from 5 to 39 covers the first two.
        try (Leased one = new Leased(COARSE, 5, 34)) {
            long[] ids = one.ids.take(512);
            Tests.check(one.begin + 10, COARSE.timeOf(ids[0]).toEpochMilli());
            Tests.check(one.begin + 20, COARSE.timeOf(ids[511]).toEpochMilli());
            Tests.check(false, one.ids.tryNext().isPresent());
        }
    }

    void testIdThatDoesNotFitIsReleased() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = Tests.builder(server).build()) {
            IdSource ids = client.worker("p", Layout.of(41, 2, 12));
            CompletableFuture<Long> call = ids.nextAsync();
            server.take().reply("*5\r\n:7\r\n$2\r\nto\r\n:5000\r\n:9000\r\n:4000\r\n");
            String message = Tests.fails(ExecutionException.class, call).getCause().getMessage();
            Tests.check(true, message.contains("worker id 7 does not fit the 2 bits"));
            FakeServer.Request release = server.take();
            Tests.check("WORKERID RELEASE p 7 to LAST 4999", release.text);
            release.reply("+OK\r\n");
        }
    }

    void testClockPastTheLeaseIsSentAsLastThenTheRealOne() throws Exception {
        try (Leased one = new Leased(MILLIS, 0, 30_000)) {
            one.clock.shift(3_600_000, 1);
            CompletableFuture<Long> call = one.ids.nextAsync();
            one.expect("WORKERID RENEW p 7 to LAST " + (one.begin + 3_599_999)).reply("-ERR LAST is too late\r\n");
            one.renew(-1, 40_000);
            Throwable error = Tests.fails(ExecutionException.class, call).getCause();
            Tests.check(3_560_000L, ((ClockException) error).differenceMs());
            Tests.check(3_560_000L, one.ids.stats().get("clock_ahead_ms").longValue());
            // Not before a second has passed since.
            CompletableFuture<Long> next = one.ids.nextAsync();
            one.checkQuiet();
            one.clock.shift(1000, 1000);
            one.expect("WORKERID RENEW p 7 to LAST " + (one.begin + 3_600_999))
                    .reply("*1\r\n:" + (one.begin + 3_700_000) + "\r\n");
            Tests.check(one.begin + 3_601_000, MILLIS.timeOf(next.get()).toEpochMilli());
        }
    }

    void testLostLeaseIsUsedToItsEnd() throws Exception {
        for (String code : new String[] {"EXPIRED", "REVOKED", "WRONGTOKEN"}) {
            try (Leased one = new Leased(MILLIS, 0, 30_000)) {
                long first = one.ids.next();
                one.clock.shift(10_000, 10_000);
                one.expect("WORKERID RENEW p 7 to LAST " + one.begin).reply("-" + code + " gone\r\n");
                one.checkQuiet();
                one.clock.shift(19_999, 19_999);
                Tests.check(true, one.ids.next() > first);
                one.clock.shift(1, 1);
                CompletableFuture<Long> next = one.ids.nextAsync();
                one.lease(8, 30_000, 30_000);
                Tests.check(8, MILLIS.workerOf(next.get()));
            }
        }
    }

    void testNewLeaseBeginsAboveTheNewestId() throws Exception {
        try (Leased one = new Leased(MILLIS, 0, 30_000)) {
            long newest = one.ids.next();
            one.client.discard();
            CompletableFuture<Long> next = one.ids.nextAsync();
            one.lease(3, 0, 30_000);
            Tests.check(MILLIS.timeOf(newest).toEpochMilli() + 1, MILLIS.timeOf(next.get()).toEpochMilli());
        }
    }
}
