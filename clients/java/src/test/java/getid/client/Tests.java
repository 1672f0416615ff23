package getid.client;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Unit tests: each method {@code test...} is one. Needs no server. An argument is a part of the names to run. */
final class Tests {
    static final Duration LONG = Duration.ofMinutes(1);

    public static void main(String[] arguments) throws Exception {
        int failed = 0;
        int passed = 0;
        for (Class<?> suite : List.of(Tests.class, WorkerTests.class, ExampleTests.class)) {
            for (Method method : suite.getDeclaredMethods()) {
                if (!method.getName().startsWith("test") || !method.getName().contains(String.join("", arguments))) {
                    continue;
                }
                try {
                    method.invoke(suite.getDeclaredConstructor().newInstance());
                    passed++;
                } catch (InvocationTargetException e) {
                    failed++;
                    System.out.println("FAILED " + method.getName());
                    e.getCause().printStackTrace(System.out);
                }
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 && passed > 0 ? 0 : 1);
    }

    static void check(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static <T extends Throwable> T fails(Class<T> type, Runnable call) {
        try {
            call.run();
        } catch (Throwable e) {
            if (type.isInstance(e)) {
                return type.cast(e);
            }
            throw new AssertionError("expected " + type, e);
        }
        throw new AssertionError("expected " + type + ", found no error");
    }

    static <T extends Throwable> T fails(Class<T> type, CompletableFuture<?> call) {
        return fails(type, () -> {
            try {
                call.get();
            } catch (ExecutionException | InterruptedException e) {
                throw Tests.<RuntimeException>unchecked(e);
            }
        });
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E unchecked(Throwable e) throws E {
        throw (E) e;
    }

    static GetidClient.Builder builder(FakeServer server) {
        return GetidClient.builder().url(server.url()).timeout(LONG);
    }

    void testSegmentsAreUsedInOrder() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            IdSource s = client.sequence("s");
            CompletableFuture<Long> first = s.nextAsync();
            FakeServer.Request request = server.take();
            check("SEQUENCE NEXT s COUNT 17", request.text);
            request.range(1, 17);
            check(1L, first.get());
            check("[2, 3, 4, 5, 6, 7, 8, 9]", Arrays.toString(s.take(8)));
            server.take().range(101, 116);
            s.warmUp(20);
            check(10L, s.next());
            check("[11, 12, 13, 14, 15, 16, 17, 101]", Arrays.toString(s.take(8)));
        }
    }

    void testCancelledCallLeavesItsReplyToLaterCalls() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            IdSource s = client.sequence("s", SequenceOptions.DEFAULT.prefetchMax(0));
            CompletableFuture<Long> cancelled = s.nextAsync();
            FakeServer.Request request = server.take();
            cancelled.cancel(true);
            CompletableFuture<Long> later = s.nextAsync();
            request.range(5, 5);
            check(5L, later.get());
        }
    }

    void testFreshValueServesNoLaterCall() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            IdSource s = client.sequence("s", SequenceOptions.DEFAULT.fresh());
            CompletableFuture<Long> first = s.nextAsync();
            FakeServer.Request request = server.take();
            first.cancel(true);
            CompletableFuture<Long> later = s.nextAsync();
            request.range(1, 1);
            server.take().range(2, 2);
            check(2L, later.get());
        }
    }

    void testLostConnectionSendsAboveAndDropsValuesBelow() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            IdSource s = client.sequence("s", SequenceOptions.DEFAULT.prefetchMax(0));
            CompletableFuture<Long> first = s.nextAsync();
            server.take().range(7, 7);
            check(7L, first.get());
            CompletableFuture<Long> second = s.nextAsync();
            server.take().hangUp();
            FakeServer.Request request = server.take();
            check("SEQUENCE NEXT s COUNT 1 ABOVE 7", request.text);
            request.range(6, 6);
            server.take().range(8, 8);
            check(8L, second.get());
        }
    }

    void testReplyOfUnexpectedFormIsNeverUsed() throws Exception {
        String[] replies = {"+OK\r\n", "*3\r\n:2\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:1\r\n",
            "*3\r\n:1\r\n:1\r\n:0\r\n",
            "$9999999\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n:9\r\n", "?\r\n",
            ":99999999999999999999\r\n", "*3\r\n:-1\r\n:-1\r\n:1\r\n", "\r\n"};
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            IdSource s = client.sequence("s", SequenceOptions.DEFAULT.prefetchMax(0));
            CompletableFuture<Long> call = s.nextAsync();
            for (String reply : replies) {
                server.take().reply(reply);
            }
            server.take().range(42, 42);
            check(42L, call.get());
        }
    }

    void testErrorsByTheirFirstWord() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            IdSource s = client.sequence("s", SequenceOptions.DEFAULT.prefetchMax(0));
            CompletableFuture<Long> call = s.nextAsync();
            for (String code : new String[] {"TRYAGAIN", "BUSY", "LOADING", "MISCONF", "EXHAUSTED"}) {
                server.take().reply("-" + code + " not now\r\n");
            }
            server.take().reply("-ERR max number of clients reached\r\n");
            server.take().reply("-NOPERM no\r\n");
            try {
                call.get();
                throw new AssertionError("expected an error");
            } catch (ExecutionException e) {
                check("NOPERM", ((RefusedException) e.getCause()).code());
            }
        }
    }

    void testCloseWakesCallsAndReleases() throws Exception {
        try (FakeServer server = new FakeServer()) {
            GetidClient client = builder(server).build();
            IdSource w = client.worker("p", Layout.TWITTER, WorkerOptions.DEFAULT.name("a b"));
            CompletableFuture<Long> first = w.nextAsync();
            FakeServer.Request request = server.take();
            check("WORKERID LEASE p NAME a_b", request.text);
            long now = System.currentTimeMillis();
            request.reply("*5\r\n:7\r\n$2\r\nto\r\n:" + (now - 1000) + "\r\n:" + (now + 600_000) + "\r\n:600000\r\n");
            long id = first.get();
            check(7, Layout.TWITTER.workerOf(id));
            CompletableFuture<Long> waits = client.sequence("s").nextAsync();
            FakeServer.Request late = server.take();
            CompletableFuture<Boolean> closing = CompletableFuture.supplyAsync(() -> client.close(LONG));
            FakeServer.Request release = server.take();
            check("WORKERID RELEASE p 7 to LAST " + Layout.TWITTER.timeOf(id).toEpochMilli(), release.text);
            try {
                late.range(1, 17);
            } catch (java.io.IOException e) {
                // The connection is closed, as it should be.
            }
            release.reply("+OK\r\n");
            check(true, closing.get());
            check(true, client.close(LONG));
            try {
                waits.get();
                throw new AssertionError("expected an error");
            } catch (ExecutionException e) {
                check(ClosedException.class, e.getCause().getClass());
            }
            fails(ClosedException.class, w::next);
            fails(ClosedException.class, () -> client.sequence("s"));
        }
    }

    void testIdsEndWithTheLease() throws Exception {
        try (FakeServer server = new FakeServer()) {
            TestClock clock = new TestClock();
            GetidClient client = builder(server).clock(clock).build();
            IdSource w = client.worker("p", Layout.TWITTER);
            CompletableFuture<Long> first = w.nextAsync();
            long now = System.currentTimeMillis();
            server.take().reply("*5\r\n:7\r\n$2\r\nto\r\n:" + now + "\r\n:" + (now + 600_000) + "\r\n:600000\r\n");
            first.get();
            clock.shift(700_000, 700_000);
            check(false, w.tryNext().isPresent());
            FakeServer.Request renewal = server.take();
            check(true, renewal.text.startsWith("WORKERID RENEW p 7 to LAST "));
            renewal.reply("-EXPIRED over\r\n");
            fails(UnavailableException.class, () -> w.next(Duration.ZERO));
            client.close(Duration.ZERO);
        }
    }

    void testInterruptedCallKeepsTheFlag() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            Thread.currentThread().interrupt();
            fails(UnavailableException.class, () -> client.sequence("s").next());
            check(true, Thread.interrupted());
        }
    }

    void testNothingIsSerialised() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            for (Object one : new Object[] {client, client.sequence("s"), client.worker("p", Layout.TWITTER)}) {
                check(false, one instanceof java.io.Serializable || one instanceof Cloneable);
            }
        }
    }

    void testArgumentsOutOfRange() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            IdSource s = client.sequence("s");
            check(true, s == client.sequence("s"));
            Runnable[] calls = {() -> s.take(0), () -> s.take(1_000_001), () -> client.sequence(""),
                () -> client.sequence("x".repeat(129)), () -> client.sequence(null), () -> s.next(Duration.ofDays(2)),
                () -> s.next(Duration.ofMillis(-1)), () -> client.sequence("s", SequenceOptions.DEFAULT.fresh()),
                () -> SequenceOptions.DEFAULT.hold(Duration.ofSeconds(61)), () -> Layout.of(62, 16, 32),
                () -> GetidClient.connect("http://a"), () -> GetidClient.connect("getid://"),
                () -> GetidClient.connect("getid://a:0"), () -> GetidClient.connect("getid://a?x=1"),
                () -> GetidClient.connect("getid://a,"), () -> GetidClient.connect("getid://u@a"),
                () -> GetidClient.connect("getid://u:%4@a"), () -> WorkerOptions.DEFAULT.ttl(Duration.ofMillis(1500))};
            for (Runnable call : calls) {
                fails(IllegalArgumentException.class, call);
            }
        }
    }

    void testAddresses() {
        Target target = new Target("getids://u%40:p%2F@a,[::1]:1,b:2/?order=given");
        check("[a:7890, [::1]:1, b:2]", target.addresses.toString());
        check("u@ p/", new String(target.login.get(0)) + " " + new String(target.login.get(1)));
        check("/a b", new Target("getid+unix:///a%20b").addresses.get(0).toString());
    }

    void testHolderName() {
        check("a_b", new String(Worker.holderName("a b")));
        String cut = new String(Worker.holderName("x".repeat(65)));
        check("x".repeat(55) + "-", cut.substring(0, 56));
        check(64, cut.length());
    }

    void testFake() {
        try (FakeGetid fake = FakeGetid.startingAt(1)) {
            check("[1, 2]", Arrays.toString(fake.sequence("s").take(2)));
            long id = fake.worker("p", Layout.SONYFLAKE).next();
            check(Layout.SONYFLAKE.epochMs + 1000, Layout.SONYFLAKE.timeOf(id).toEpochMilli());
            fake.failNext(new UnavailableException("down"));
            fails(UnavailableException.class, () -> fake.sequence("s").next());
        }
    }

    void testPauseOrClockThatGoesBackDropsValues() throws Exception {
        for (int[] shift : new int[][] {{60_000, 60_000}, {60_000, 1}, {1, 60_000}, {-1, 1}}) {
            TestClock clock = TestClock.stopped();
            try (FakeServer server = new FakeServer(); GetidClient client = builder(server).clock(clock).build()) {
                IdSource s = client.sequence("s");
                CompletableFuture<Long> first = s.nextAsync();
                server.take().range(1, 17);
                check(1L, first.get());
                check(2L, s.next());
                clock.shift(shift[0], shift[1]);
                CompletableFuture<Long> next = s.nextAsync();
                server.take().range(101, 104);
                check(101L, next.get());
                check(15L, s.stats().get("dropped").longValue());
            }
        }
    }

    void testValuesAreHeldThroughAShortPause() throws Exception {
        TestClock clock = TestClock.stopped();
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).clock(clock).build()) {
            IdSource s = client.sequence("s");
            CompletableFuture<Long> first = s.nextAsync();
            server.take().range(1, 17);
            check(1L, first.get());
            clock.shift(59_999, 59_999);
            check(2L, s.next());
        }
    }

    void testCallsPastTheBoundFailAtOnce() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            IdSource s = client.sequence("s");
            List<CompletableFuture<Long>> calls = new ArrayList<>();
            for (int i = 0; i < Source.WAITERS_MAX; i++) {
                calls.add(s.nextAsync());
            }
            fails(UnavailableException.class, s::next);
            server.take();
            client.close(Duration.ZERO);
            for (CompletableFuture<Long> call : calls) {
                check(true, fails(ExecutionException.class, call).getCause() instanceof ClosedException);
            }
        }
    }

    void testObjectsPastTheBoundAreAnError() throws Exception {
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            for (int i = 0; i < Client.OBJECTS_MAX; i++) {
                client.sequence("s" + i);
            }
            fails(IllegalArgumentException.class, () -> client.sequence("one more"));
            check("s7", client.sequence("s7").name());
        }
    }

    void testReplyPastTheBoundsClosesTheConnection() throws Exception {
        String bulk = "$1048576\r\n" + "x".repeat(1_048_576) + "\r\n";
        String[] replies = {"+" + "x".repeat(Connection.LINE_BYTES_MAX + 1), "*1000001\r\n", "$1048577\r\n",
            "*20\r\n" + bulk.repeat(17)};
        try (FakeServer server = new FakeServer(); GetidClient client = builder(server).build()) {
            CompletableFuture<Long> call = client.sequence("s").nextAsync();
            for (String reply : replies) {
                FakeServer.Request request = server.take();
                try {
                    request.reply(reply);
                } catch (IOException e) {
                    // The client hung up before the end.
                }
            }
            server.take().range(3, 3);
            check(3L, call.get());
        }
    }
}
