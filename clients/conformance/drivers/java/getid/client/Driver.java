package getid.client;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Driver of the conformance suite: one command a line, each on a thread of its own. */
final class Driver {
    private static final class Opened {
        GetidClient client;
        final TestClock clock = new TestClock();
        final List<Object> events = new ArrayList<>();
        volatile boolean isClosed;
    }

    private static final class Named {
        IdSource source;
        Opened opened;
        volatile boolean isStopped;
    }

    private final Map<String, Opened> clients = new ConcurrentHashMap<>();
    private final Map<String, Named> objects = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> command = Json.read(line);
            Thread thread = new Thread(() -> driver.answer(command));
            thread.setDaemon(true);
            thread.start();
        }
    }

    private void answer(Map<String, Object> command) {
        Map<String, Object> answer = new LinkedHashMap<>();
        Object id = command.get("id");
        answer.put("id", id instanceof Double ? (Object) ((Double) id).longValue() : id);
        try {
            answer.put("ok", run(command));
        } catch (Throwable e) {
            answer.put("error", errorOf(e));
            answer.put("message", String.valueOf(e.getMessage()));
        }
        String line = Json.write(answer);
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
        if ("exit".equals(command.get("do"))) {
            System.exit(0);
        }
    }

    private static String errorOf(Throwable e) {
        if (e instanceof UnavailableException) {
            return "Unavailable";
        } else if (e instanceof RefusedException) {
            return "Refused";
        } else if (e instanceof ClockException) {
            return "ClockError";
        }
        return e instanceof ClosedException ? "Closed" : e instanceof IllegalArgumentException ? "Usage" : e.toString();
    }

    private static String text(Map<String, Object> command, String name) {
        return (String) command.get(name);
    }

    private static long number(Map<String, Object> command, String name, long absent) {
        Object found = command.get(name);
        return found instanceof String ? Long.parseLong((String) found)
                : found == null ? absent : ((Double) found).longValue();
    }

    private static Duration timeout(Map<String, Object> command, long absentMs) {
        return Duration.ofMillis(number(command, "timeout_ms", absentMs));
    }

    private Object run(Map<String, Object> command) throws Exception {
        Opened opened = clients.get(String.valueOf(command.get("client")));
        Named named = objects.get(String.valueOf(command.get("object")));
        switch (text(command, "do")) {
            case "open":
                return open(command);
            case "sequence":
                return sequence(command, opened);
            case "worker":
                return worker(command, opened);
            case "next":
                return Map.of("value", String.valueOf(command.get("timeout_ms") == null ? named.source.next()
                        : named.source.next(timeout(command, 0))));
            case "take":
                return Map.of("values", take(named, command));
            case "try_next":
                OptionalLong value = named.source.tryNext();
                return Collections.singletonMap("value",
                        value.isPresent() ? String.valueOf(value.getAsLong()) : null);
            case "warm_up":
                named.source.warmUp((int) number(command, "n", 1));
                return Map.of();
            case "draw":
                return draw(named, command);
            case "stop":
                named.isStopped = true;
                return Map.of();
            case "abandon":
                return abandon(named, command);
            case "close":
                boolean isReleased = opened.client.close(timeout(command, 2000));
                opened.isClosed = true;
                return Map.of("released", isReleased);
            case "discard":
                opened.client.discard();
                return Map.of();
            case "stats":
                return named.source.stats();
            case "events":
                synchronized (opened.events) {
                    List<Object> events = new ArrayList<>(opened.events);
                    opened.events.clear();
                    return Map.of("events", events);
                }
            case "clock":
                opened.clock.shift(number(command, "wall_ms", 0), number(command, "mono_ms", 0));
                return Map.of();
            case "copy":
                return Map.of("same", false);
            case "serialize":
                new ObjectOutputStream(new ByteArrayOutputStream()).writeObject(named.source);
                return Map.of("same", false);
            case "fork":
                return Map.of("unsupported", true);
            case "counter":
                return Map.of("ns", counter(number(command, "values", 1)));
            case "time":
                return Map.of("ns", time(named.source, number(command, "values", 1)));
            case "exit":
                return Map.of();
            default:
                throw new IllegalArgumentException("do is " + command.get("do") + ", must be a command");
        }
    }

    private Object open(Map<String, Object> command) throws Exception {
        Opened opened = new Opened();
        GetidClient.Builder builder = GetidClient.builder().url(text(command, "url")).timeout(timeout(command, 5000))
                .clock(opened.clock).onEvent(event -> {
                    Map<String, Object> one = new LinkedHashMap<>();
                    one.put("event", event.kind().name().toLowerCase(java.util.Locale.ROOT));
                    one.put("address", event.address());
                    one.put("object", event.object());
                    one.put("reason", event.reason());
                    one.put("difference_ms", event.differenceMs());
                    synchronized (opened.events) {
                        opened.events.add(one);
                    }
                });
        if (command.get("ca") != null) {
            builder.sslContext(context(text(command, "ca")));
        }
        opened.client = builder.build();
        clients.put(text(command, "client"), opened);
        return Map.of();
    }

    private static SSLContext context(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (InputStream in = new FileInputStream(file)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    private void put(Map<String, Object> command, Opened opened, IdSource source) {
        Named named = new Named();
        named.source = source;
        named.opened = opened;
        objects.put(text(command, "object"), named);
    }

    private Object sequence(Map<String, Object> command, Opened opened) {
        SequenceOptions options = SequenceOptions.DEFAULT.prefetchMax((int) number(command, "prefetch_max", 10_000))
                .hold(Duration.ofMillis(number(command, "hold_ms", 60_000)));
        boolean isFresh = Boolean.TRUE.equals(command.get("fresh"));
        put(command, opened, opened.client.sequence(text(command, "name"), isFresh ? options.fresh() : options));
        return Map.of();
    }

    private Object worker(Map<String, Object> command, Opened opened) {
        @SuppressWarnings("unchecked")
        Map<String, Object> given = (Map<String, Object>) command.get("layout");
        Layout layout = Layout.of((int) number(given, "time", 0), (int) number(given, "worker", 0),
                (int) number(given, "counter", 0)).unitMs((int) number(given, "unit_ms", 1))
                .epochMs(number(given, "epoch_ms", 0));
        layout = Boolean.TRUE.equals(given.get("counter_first")) ? layout.counterFirst() : layout;
        WorkerOptions options = WorkerOptions.DEFAULT;
        if (command.get("name") != null) {
            options = options.name(text(command, "name"));
        }
        if (command.get("ttl_s") != null) {
            options = options.ttl(Duration.ofSeconds(number(command, "ttl_s", 0)));
        }
        put(command, opened, opened.client.worker(text(command, "pool"), layout, options));
        return Map.of();
    }

    private static List<String> take(Named named, Map<String, Object> command) {
        int n = (int) number(command, "n", 1);
        long[] taken = command.get("timeout_ms") == null ? named.source.take(n)
                : named.source.take(n, timeout(command, 0));
        List<String> values = new ArrayList<>();
        for (long value : taken) {
            values.add(String.valueOf(value));
        }
        return values;
    }

    private static Object draw(Named named, Map<String, Object> command) throws InterruptedException {
        named.isStopped = false;
        List<Drawing> drawings = new ArrayList<>();
        for (int i = 0; i < number(command, "threads", 1); i++) {
            Drawing drawing = new Drawing(named, command, text(command, "file") + "." + i);
            drawings.add(drawing);
            drawing.start();
        }
        long drawn = 0;
        long afterClose = 0;
        Map<String, Object> errors = new LinkedHashMap<>();
        for (Drawing drawing : drawings) {
            drawing.join();
            drawn += drawing.drawn;
            afterClose += drawing.afterClose;
            drawing.errors.forEach((error, n) -> errors.merge(error, n, (a, b) -> (Long) a + (Long) b));
        }
        return Map.of("drawn", drawn, "errors", errors, "after_close", afterClose);
    }

    /** Thread of a draw. */
    private static final class Drawing extends Thread {
        final Map<String, Long> errors = new LinkedHashMap<>();
        long drawn;
        long afterClose;
        private final Named named;
        private final Map<String, Object> command;
        private final String file;

        Drawing(Named named, Map<String, Object> command, String file) {
            this.named = named;
            this.command = command;
            this.file = file;
            setDaemon(true);
        }

        @Override
        public void run() {
            long wanted = number(command, "values", 1);
            int take = (int) number(command, "take", 1);
            ByteBuffer buffer = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
            try (OutputStream out = new BufferedOutputStream(new FileOutputStream(file), 1 << 16)) {
                boolean canContinue = true;
                while (canContinue && drawn < wanted && !named.isStopped) {
                    boolean isAfter = named.opened.isClosed;
                    try {
                        for (long value : call(take)) {
                            out.write(buffer.putLong(0, value).array());
                            drawn++;
                            afterClose += isAfter ? 1 : 0;
                        }
                    } catch (Exception e) {
                        Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                        errors.merge(errorOf(cause), 1L, Long::sum);
                        canContinue = cause instanceof UnavailableException || cause instanceof ClockException;
                    }
                }
            } catch (java.io.IOException e) {
                errors.merge(e.toString(), 1L, Long::sum);
            }
        }

        private long[] call(int take) throws Exception {
            if (Boolean.TRUE.equals(command.get("async"))) {
                return new long[] {named.source.nextAsync().get()};
            }
            if (command.get("timeout_ms") == null) {
                return take == 1 ? new long[] {named.source.next()} : named.source.take(take);
            }
            return named.source.take(take, timeout(command, 0));
        }
    }

    private static Object abandon(Named named, Map<String, Object> command) throws Exception {
        List<CompletableFuture<Long>> calls = new ArrayList<>();
        for (int i = 0; i < number(command, "calls", 1); i++) {
            calls.add(named.source.nextAsync());
        }
        Thread.sleep(number(command, "after_ms", 0));
        long cancelled = 0;
        List<String> values = new ArrayList<>();
        for (CompletableFuture<Long> call : calls) {
            if (call.cancel(true)) {
                cancelled++;
            } else if (!call.isCompletedExceptionally()) {
                values.add(String.valueOf(call.get()));
            }
        }
        return Map.of("cancelled", cancelled, "values", values);
    }

    private static double counter(long values) {
        ReentrantLock lock = new ReentrantLock();
        long[] count = {0};
        long begin = System.nanoTime();
        for (long i = 0; i < values; i++) {
            lock.lock();
            try {
                count[0]++;
            } finally {
                lock.unlock();
            }
        }
        return (double) (System.nanoTime() - begin) / values;
    }

    private static double time(IdSource source, long values) {
        long begin = System.nanoTime();
        for (long i = 0; i < values; i++) {
            source.next();
        }
        return (double) (System.nanoTime() - begin) / values;
    }
}
