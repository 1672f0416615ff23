package getid.client;

import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.LongStream;

/**
 * Fake client for unit tests of programs, without a server.
 *
 * <pre>{@code
 * IdSource orders = FakeGetid.startingAt(1).sequence("orders");
 * assert orders.next() == 1;
 * }</pre>
 *
 * <p>Sequences count up from the start. Workers make IDs with worker id 0, from one second after the layout's epoch on.
 */
public final class FakeGetid implements GetidClient {
    private static final long START_MS = 1000;

    private final ReentrantLock lock = new ReentrantLock();
    private final Map<String, FakeSource> sources = new HashMap<>();
    private final long start;
    private GetidException error;
    private boolean isClosed;

    private FakeGetid(long start) {
        this.start = Checks.range("start", start, 0, 1L << 62);
    }

    /**
     * Makes a fake client.
     *
     * @param start first value of each sequence, 0 to 2^62
     * @return the fake client
     */
    public static FakeGetid startingAt(long start) {
        return new FakeGetid(start);
    }

    /**
     * Makes the next call of an object fail.
     *
     * @param error what the call throws, such as {@code new UnavailableException("down")}
     */
    public void failNext(GetidException error) {
        locked(() -> this.error = Checks.present("error", error));
    }

    @Override
    public IdSource sequence(String name, SequenceOptions options) {
        Checks.name("name", name);
        Checks.present("options", options);
        long[] next = {start};
        return object("sequence " + name, options, new FakeSource(name, options, () -> next[0]++, false));
    }

    @Override
    public IdSource worker(String pool, Layout layout, WorkerOptions options) {
        Checks.name("pool", pool);
        Checks.present("layout", layout);
        List<Object> all = List.of(layout, Checks.present("options", options));
        long first = (START_MS + layout.unitMs - 1) / layout.unitMs;
        long[] next = {0};
        LongSupplier draw = () -> {
            long n = next[0]++;
            return layout.compose(first + (n >> layout.counter), 0, n & ((1L << layout.counter) - 1));
        };
        return object("worker " + pool, all, new FakeSource(pool, all, draw, true));
    }

    private IdSource object(String key, Object options, FakeSource made) {
        FakeSource found = locked(() -> {
            checkOpen();
            return sources.computeIfAbsent(key, ignored -> made);
        });
        if (!found.options.equals(options)) {
            throw new IllegalArgumentException(
                    key + " exists with other options: use the same ones, or another client");
        }
        return found;
    }

    @Override
    public void warmUp(Duration timeout) {
        Checks.timeout(timeout);
        locked(this::check);
    }

    @Override
    public void discard() {
        locked(this::check);
    }

    @Override
    public boolean close(Duration timeout) {
        Checks.timeout(timeout);
        return locked(() -> isClosed = true);
    }

    private void checkOpen() {
        if (isClosed) {
            throw new ClosedException();
        }
    }

    /** Fails if the client is closed, or by the error of {@link #failNext}. */
    private boolean check() {
        checkOpen();
        GetidException found = error;
        error = null;
        if (found != null) {
            throw found;
        }
        return true;
    }

    private <T> T locked(Supplier<T> body) {
        lock.lock();
        try {
            return body.get();
        } finally {
            lock.unlock();
        }
    }

    private final class FakeSource implements IdSource {
        private final String name;
        private final Object options;
        private final LongSupplier draw;
        private final boolean isWorker;
        private long values;

        FakeSource(String name, Object options, LongSupplier draw, boolean isWorker) {
            this.name = name;
            this.options = options;
            this.draw = draw;
            this.isWorker = isWorker;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public long next() {
            return take(1)[0];
        }

        @Override
        public long[] take(int n) {
            Checks.count(n);
            return locked(() -> {
                check();
                values += n;
                return LongStream.generate(draw).limit(n).toArray();
            });
        }

        @Override
        public long[] take(int n, Duration timeout) {
            Checks.timeout(timeout);
            return take(n);
        }

        @Override
        public CompletableFuture<Long> nextAsync() {
            try {
                return CompletableFuture.completedFuture(next());
            } catch (GetidException e) {
                return CompletableFuture.failedFuture(e);
            }
        }

        @Override
        public OptionalLong tryNext() {
            return OptionalLong.of(next());
        }

        @Override
        public void warmUp(int n) {
            Checks.count(n);
            locked(FakeGetid.this::check);
        }

        @Override
        public Map<String, Number> stats() {
            Map<String, Number> stats = new LinkedHashMap<>();
            stats.put("values", locked(() -> values));
            List<String> others = isWorker
                    ? List.of("worker_id", "not_before_ms", "not_after_ms", "leases", "renewals", "failures",
                            "clock_ahead_ms")
                    : List.of("fetches", "failures", "dropped", "waits", "held", "prefetch", "fetch_ms");
            others.forEach(other -> stats.put(other, 0));
            return stats;
        }
    }
}
