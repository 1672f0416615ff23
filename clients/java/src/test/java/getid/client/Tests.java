package getid.client;

import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Unit tests: each method {@code test...} is one. Needs no server. */
final class Tests {
    private static final Duration LONG = Duration.ofMinutes(1);

    public static void main(String[] arguments) throws Exception {
        int failed = 0;
        int passed = 0;
        for (java.lang.reflect.Method method : Tests.class.getDeclaredMethods()) {
            if (!method.getName().startsWith("test")) {
                continue;
            }
            try {
                method.invoke(new Tests());
                passed++;
            } catch (java.lang.reflect.InvocationTargetException e) {
                failed++;
                System.out.println("FAILED " + method.getName());
                e.getCause().printStackTrace(System.out);
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void check(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private static <T extends Throwable> T fails(Class<T> type, Runnable call) {
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

    private static GetidClient.Builder builder(FakeServer server) {
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
}
