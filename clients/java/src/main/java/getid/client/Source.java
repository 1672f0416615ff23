package getid.client;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/**
 * What sequences and workers have in common: waiting calls, retries, and the job. The client's lock guards all fields.
 */
abstract class Source implements IdSource {
    static final int WAITERS_MAX = 10_000;
    static final long BACKOFF_FIRST = TimeUnit.MILLISECONDS.toNanos(10);
    static final long BACKOFF_LAST = TimeUnit.SECONDS.toNanos(1);
    static final long LOADING_WAIT = TimeUnit.MILLISECONDS.toNanos(200);

    /** Time after which a blocking call does a job that the background thread has not taken up. */
    static final long HELP_AFTER = TimeUnit.MILLISECONDS.toNanos(50);

    final Client client;
    final ReentrantLock lock;
    final Clock clock;
    final String name;
    final Object options;
    Deque<Waiter> waiters = new ArrayDeque<>();
    long failures;
    long waits;

    /** Whether a call found too few values since the last fetch or lease. */
    boolean isWanted;

    /** Whether a job begins at {@code due}. Set by the client alone, which keeps the object in its queue. */
    boolean isDue;

    long due;
    boolean hasJob;
    long retryAt;
    String lastFailure = "";
    private final Map<Integer, Boolean> tried = new HashMap<>();
    private long backoff = BACKOFF_FIRST;

    Source(Client client, String name, Object options) {
        this.client = client;
        this.lock = client.lock;
        this.clock = client.clock;
        this.name = name;
        this.options = options;
    }

    // What subclasses have. All of it runs under the lock.

    /** Moves values that are in memory to a call, and starts the job that is due by it. */
    abstract void draw(Waiter waiter);

    /** Starts the job that a waiting call needs. */
    abstract void want();

    /** Returns whether {@code n} values are in memory, or the lease. */
    abstract boolean isWarm(int n);

    /** Returns the request that is needed now, or null. {@code serial} is the number of the connection. */
    abstract List<byte[]> begin(long serial);

    /** Applies the reply to the last request. Fails if it has an unexpected form. */
    abstract void apply(Object reply) throws ConnectionLost;

    /** Drops the segments, or the lease. */
    abstract void forget();

    /** Prepares the fast path after a change of the state. */
    void arm() {}

    /** Returns whether an error reply was expected and is dealt with. */
    boolean refuse(ServerError error) {
        return false;
    }

    /** Returns the wait before the next try. {@code canLose}: the server may have done what was requested. */
    long retryDelay(long delay, boolean canLose) {
        return delay;
    }

    /** Returns whether a failed job is tried again although no call waits. */
    boolean isNeeded() {
        return false;
    }

    GetidEvent.Kind failureKind() {
        return GetidEvent.Kind.FETCH_FAILED;
    }

    /** Drops the segments or the lease for good. Returns the requests that release the lease. */
    List<List<byte[]>> stop() {
        forget();
        return List.of();
    }

    /** Counts the values of a call that ended without all of them. */
    void dropValues(Waiter waiter) {}

    // Calls.

    @Override
    public final String name() {
        return name;
    }

    @Override
    public final long[] take(int n) {
        return takeWithin(Checks.count(n), client.timeout);
    }

    @Override
    public final long[] take(int n, Duration timeout) {
        return takeWithin(Checks.count(n), Checks.timeout(timeout));
    }

    @Override
    public final CompletableFuture<Long> nextAsync() {
        return new AsyncCall().begin();
    }

    @Override
    public OptionalLong tryNext() {
        Waiter waiter = new Waiter(1, null);
        return start(waiter, false) ? OptionalLong.of(waiter.values[0]) : OptionalLong.empty();
    }

    @Override
    public final void warmUp(int n) {
        warmUpWithin(Checks.count(n), client.timeout);
    }

    final long[] takeWithin(int n, long limit) {
        long deadline = System.nanoTime() + limit;
        Waiter waiter = new Waiter(n, null);
        while (!start(waiter, true)) {
            waitFor(waiter, limit, deadline);
            if (waiter.need == 0) {
                break;
            }
            waiter = waiter.again();
        }
        return waiter.values;
    }

    final void warmUpWithin(int n, long limit) {
        Waiter waiter = Waiter.warmUp(n);
        lock.lock();
        try {
            client.checkOpen();
            waiter.isDone = isWarm(n);
            if (!waiter.isDone) {
                enqueue(waiter);
                want();
            }
        } finally {
            arm();
            lock.unlock();
        }
        if (!waiter.isDone) {
            waitFor(waiter, limit, System.nanoTime() + limit);
        }
    }

    /** Takes values for a call, and queues one that can wait if there are too few. Returns whether it has all. */
    private boolean start(Waiter waiter, boolean canWait) {
        long late;
        lock.lock();
        try {
            client.checkOpen();
            draw(waiter);
            waiter.isDone = waiter.need == 0;
            if (!waiter.isDone) {
                if (canWait) {
                    enqueue(waiter);
                    waits++;
                }
                isWanted = true;
                want();
            }
            late = isDue ? clock.nanos() - due : -1;
        } finally {
            arm();
            lock.unlock();
        }
        if (late >= 0 && (waiter.isDone || !canWait)) {
            client.kick();
            if (late > HELP_AFTER && canWait && !waiter.isAsync()) {
                client.help(this);
            }
        }
        return waiter.isDone;
    }

    /** Call that returns a future. Woken by the thread that finishes it, and completed on the common pool. */
    private final class AsyncCall implements Runnable {
        private final CompletableFuture<Long> future = new CompletableFuture<>();
        private final CompletableFuture<Void> timer = new CompletableFuture<>();
        private volatile Waiter waiter = new Waiter(1, this);

        CompletableFuture<Long> begin() {
            attempt();
            if (future.isDone()) {
                return future;
            }
            timer.completeOnTimeout(null, client.timeout, TimeUnit.NANOSECONDS);
            timer.thenRunAsync(() -> future.completeExceptionally(unavailable(client.timeout, false)));
            future.whenComplete((value, error) -> {
                leave(waiter);
                timer.complete(null);
            });
            return future;
        }

        private void attempt() {
            try {
                if (start(waiter, true)) {
                    future.complete(waiter.values[0]);
                } else {
                    client.kick();
                    if (future.isDone()) {
                        leave(waiter);
                    }
                }
            } catch (GetidException e) {
                future.completeExceptionally(e);
            }
        }

        @Override
        public void run() {
            CompletableFuture.runAsync(() -> {
                Waiter woken = waiter;
                if (woken.error != null) {
                    future.completeExceptionally(woken.error);
                } else if (woken.need == 0) {
                    future.complete(woken.values[0]);
                } else {
                    waiter = woken.again();
                    attempt();
                }
            });
        }
    }

    // Waiting.

    private void enqueue(Waiter waiter) {
        if (waiters.size() >= WAITERS_MAX) {
            throw new UnavailableException(
                    WAITERS_MAX + " calls wait for " + this + " already: wait for some of them to return");
        }
        waiters.add(waiter);
    }

    /** Waits in this thread. Does the job itself where the background thread does not take it up. */
    private void waitFor(Waiter waiter, long limit, long deadline) {
        boolean isInterrupted = false;
        try {
            boolean hasThread = client.kick();
            long pause = hasThread ? HELP_AFTER : 0;
            while (!waiter.await(Math.min(pause, deadline - System.nanoTime())) && deadline - System.nanoTime() > 0) {
                client.help(this);
                pause = hasThread ? Math.min(pause * 2, 8 * HELP_AFTER) : BACKOFF_FIRST;
            }
            if (!hasThread) {
                client.help(this);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            isInterrupted = true;
        } finally {
            leave(waiter);
        }
        if (waiter.error != null) {
            throw (GetidException) waiter.error.fillInStackTrace();
        }
        if (!waiter.isDone) {
            throw unavailable(limit, isInterrupted);
        }
    }

    private UnavailableException unavailable(long limit, boolean isInterrupted) {
        String end = isInterrupted ? "the thread was interrupted" : "no value within " + limit / 1_000_000 + " ms";
        String failure = client.locked(
                () -> lastFailure.isEmpty() ? client.address() + " has not replied yet" : lastFailure);
        return new UnavailableException(this + ": " + end + ": " + failure);
    }

    private void leave(Waiter waiter) {
        client.withLock(() -> {
            if (!waiter.isDone && waiters.remove(waiter)) {
                dropValues(waiter);
            }
        });
    }

    final void finish(Waiter waiter, GetidException error) {
        waiter.isDone = true;
        waiter.error = error;
        client.woken.add(waiter);
    }

    final void finishAll(Supplier<GetidException> error) {
        Deque<Waiter> finished = waiters;
        waiters = new ArrayDeque<>();
        for (Waiter waiter : finished) {
            finish(waiter, error.get());
        }
    }

    // Jobs.

    final void succeeded() {
        tried.clear();
        backoff = BACKOFF_FIRST;
        retryAt = 0;
        lastFailure = "";
    }

    /** Notes a failed job, and schedules the next try if a call waits for it. */
    final void failed(ServerError.Remedy remedy, String reason, boolean canLose, String code) {
        failures++;
        lastFailure = reason;
        client.event(failureKind(), name, reason, 0);
        long delay = 0;
        if (remedy == ServerError.Remedy.NONE) {
            finishAll(() -> new RefusedException(this + ": " + reason, code));
        } else {
            delay = tableDelay(remedy);
        }
        retryAt = clock.nanos() + retryDelay(delay, canLose && remedy != ServerError.Remedy.NONE);
        if (!waiters.isEmpty() || isNeeded()) {
            client.schedule(this, retryAt);
        }
    }

    /** Chooses the address of the next try, and returns the wait before it. */
    private long tableDelay(ServerError.Remedy remedy) {
        if (remedy == ServerError.Remedy.SAME_ADDRESS) {
            tried.clear();
            return backOff();
        }
        int count = client.target.addresses.size();
        tried.put(client.index, remedy == ServerError.Remedy.LOADING);
        for (int step = 1; step < count; step++) {
            int index = (client.index + step) % count;
            if (!tried.containsKey(index)) {
                client.index = index;
                return 0;
            }
        }
        client.index = (client.index + 1) % count;
        boolean areLoading = !tried.containsValue(false);
        tried.clear();
        return areLoading ? LOADING_WAIT : backOff();
    }

    private long backOff() {
        long delay = backoff;
        backoff = Math.min(2 * delay, BACKOFF_LAST);
        return delay;
    }

    static List<byte[]> words(Object... words) {
        List<byte[]> request = new ArrayList<>();
        for (Object word : words) {
            request.add(word instanceof byte[] ? (byte[]) word : Connection.bytes(word.toString()));
        }
        return request;
    }

    /** Returns the failure for a reply of unexpected form, which closes the connection. */
    final ConnectionLost unexpected(String request, String expected) {
        return new ConnectionLost(
                client.address() + ": unexpected reply to " + request + ", must be " + expected, false);
    }

    /** Returns the integers at {@code indexes} of an array, or null if one is not there. */
    static long[] integers(Object reply, int... indexes) {
        long[] found = new long[indexes.length];
        for (int i = 0; i < indexes.length; i++) {
            List<?> list = reply instanceof List ? (List<?>) reply : List.of();
            Object one = list.size() > indexes[i] ? list.get(indexes[i]) : null;
            if (!(one instanceof Long) || (Long) one < 0) {
                return null;
            }
            found[i] = (Long) one;
        }
        return found;
    }
}
