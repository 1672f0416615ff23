package getid.client;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;

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
        lock.lock();
        try {
            this.error = Checks.present("error", error);
        } finally {
            lock.unlock();
        }
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
        lock.lock();
        try {
            if (isClosed) {
                throw new ClosedException();
            }
            FakeSource found = sources.computeIfAbsent(key, ignored -> made);
            if (!found.options.equals(options)) {
                throw new IllegalArgumentException(
                        key + " exists with other options: use the same ones, or another client");
            }
            return found;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void warmUp(Duration timeout) {
        Checks.timeout(timeout);
        check();
    }

    @Override
    public void discard() {
        check();
    }

    @Override
    public boolean close(Duration timeout) {
        Checks.timeout(timeout);
        lock.lock();
        try {
            isClosed = true;
        } finally {
            lock.unlock();
        }
        return true;
    }

    private void check() {
        lock.lock();
        try {
            if (isClosed) {
                throw new ClosedException();
            }
            GetidException found = error;
            error = null;
            if (found != null) {
                throw found;
            }
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
        public long next(Duration timeout) {
            return take(1, timeout)[0];
        }

        @Override
        public long[] take(int n) {
            Checks.count(n);
            lock.lock();
            try {
                check();
                long[] taken = new long[n];
                for (int i = 0; i < n; i++) {
                    taken[i] = draw.getAsLong();
                }
                values += n;
                return taken;
            } finally {
                lock.unlock();
            }
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
            check();
        }

        @Override
        public void warmUp(int n, Duration timeout) {
            Checks.timeout(timeout);
            warmUp(n);
        }

        @Override
        public Stats stats() {
            lock.lock();
            try {
                return isWorker
                        ? Stats.of("values", values, "worker_id", 0, "not_before_ms", 0, "not_after_ms", Long.MAX_VALUE,
                                "leases", 1, "renewals", 0, "failures", 0, "clock_ahead_ms", 0)
                        : Stats.of("values", values, "fetches", 0, "failures", 0, "dropped", 0, "waits", 0, "held", 0,
                                "prefetch", 0, "fetch_ms", null);
            } finally {
                lock.unlock();
            }
        }
    }
}
