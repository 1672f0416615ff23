package getid.client;

import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;

/**
 * One connection, one background thread, and the objects that share them.
 *
 * <p>A job is one request for one object. The background thread runs the jobs, one after another; where it does not
 * take one up, a blocking call runs it in its own thread. {@code isBusy} marks the one thread that uses the connection.
 * One lock guards all state, and no input, output, wait or callback runs while it is held. Each job has the generation
 * of its begin; {@code close} and {@code discard} raise it, so that a late reply changes nothing.
 */
final class Client implements GetidClient {
    static final int OBJECTS_MAX = 10_000;

    /** Most events that wait for the callback; the oldest are dropped. */
    static final int EVENTS_MAX = 1000;

    static final long IDLE = TimeUnit.HOURS.toNanos(1);
    static final long THREAD_RETRY = TimeUnit.SECONDS.toNanos(1);

    final ReentrantLock lock = new ReentrantLock();
    final Clock clock;
    final Target target;
    final long timeout;
    private final SSLContext tls;
    private final Consumer<GetidEvent> onEvent;
    private final Signal signal = new Signal();

    // Guarded by the lock.
    final List<Waiter> woken = new ArrayList<>();
    int index;
    volatile boolean isClosed;
    private final Map<String, Source> sources = new HashMap<>();
    private final PriorityQueue<Source> queue = new PriorityQueue<>(Comparator.comparingLong((Source one) -> one.due));
    private final Deque<GetidEvent> events = new ArrayDeque<>();
    private Connection connection;
    private long generation;
    private long serial;
    private boolean isBusy;
    private boolean isFinished;
    private volatile boolean isReleased;
    private volatile boolean hasThread;
    private boolean hasFailed;
    private long failedAt;

    Client(Builder builder) {
        target = Target.read(builder.url, System.getenv("GETID_URL"));
        timeout = builder.timeout;
        onEvent = builder.onEvent;
        clock = builder.clock;
        if (builder.sslContext != null && !target.isTls) {
            throw new IllegalArgumentException("sslContext is given, so the url must begin with 'getids://'");
        }
        tls = target.isTls ? contextOf(builder) : null;
        Signal moved = signal;
        clock.watch(moved::set);
    }

    private static SSLContext contextOf(Builder builder) {
        try {
            return builder.sslContext != null ? builder.sslContext : SSLContext.getDefault();
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalArgumentException("the Java runtime has no default TLS context: set sslContext", e);
        }
    }

    // Objects.

    @Override
    public IdSource sequence(String name, SequenceOptions options) {
        Checks.name("name", name);
        Checks.present("options", options);
        return object("sequence " + name, options, () -> new Sequence(this, name, options));
    }

    @Override
    public IdSource worker(String pool, Layout layout, WorkerOptions options) {
        Checks.name("pool", pool);
        Checks.present("layout", layout);
        Checks.present("options", options);
        return object("worker " + pool, List.of(layout, options), () -> new Worker(this, pool, layout, options));
    }

    private Source object(String key, Object options, Supplier<Source> make) {
        Source found = find(key, null);
        if (found == null) {
            // A worker looks up the name of the host, so it is made without the lock.
            found = find(key, make.get());
        }
        if (!found.options.equals(options)) {
            throw new IllegalArgumentException(
                    found + " exists with other options: use the same ones, or another client");
        }
        return found;
    }

    /** Returns the object of a key. Without one it adds {@code made}, which may be null. */
    private Source find(String key, Source made) {
        return locked(() -> {
            checkOpen();
            if (made != null && sources.size() >= OBJECTS_MAX && !sources.containsKey(key)) {
                throw new IllegalArgumentException(
                        "the client has " + OBJECTS_MAX + " objects, which is the most: use them again");
            }
            return sources.computeIfAbsent(key, ignored -> made);
        });
    }

    @Override
    public void warmUp(Duration timeout) {
        long deadline = System.nanoTime() + Checks.timeout(timeout);
        List<Source> all = locked(() -> {
            checkOpen();
            return new ArrayList<>(sources.values());
        });
        for (Source source : all) {
            source.warmUpWithin(1, Math.max(0, deadline - System.nanoTime()));
        }
    }

    @Override
    public void discard() {
        change(() -> {
            checkOpen();
            for (Source source : sources.values()) {
                source.forget();
                source.arm();
            }
            return dropConnection();
        });
    }

    @Override
    public boolean close(Duration timeout) {
        long deadline = System.nanoTime() + Checks.timeout(timeout);
        List<List<byte[]>> releases = locked(this::stop);
        if (releases == null) {
            return isReleased;
        }
        change(this::dropConnection);
        release(releases, deadline);
        withLock(() -> {
            isReleased = releases.isEmpty();
            isFinished = true;
        });
        signal.set();
        return releases.isEmpty();
    }

    /** Ends all objects. Returns the requests that release the leases, or null if the client was closed before. */
    private List<List<byte[]>> stop() {
        if (isClosed) {
            return null;
        }
        isClosed = true;
        generation++;
        List<List<byte[]>> releases = new ArrayList<>();
        for (Source source : sources.values()) {
            releases.addAll(source.stop());
            source.finishAll(ClosedException::new);
        }
        return releases;
    }

    void checkOpen() {
        if (isClosed) {
            throw new ClosedException();
        }
    }

    /** Ends all jobs, under the lock. */
    private Connection dropConnection() {
        generation++;
        Connection dropped = connection;
        connection = null;
        return dropped;
    }

    // The lock.

    <T> T locked(Supplier<T> body) {
        lock.lock();
        try {
            return body.get();
        } finally {
            lock.unlock();
        }
    }

    void withLock(Runnable body) {
        locked(() -> {
            body.run();
            return null;
        });
    }

    /** Changes the state under the lock. Then closes the connection that the change returns, and wakes calls. */
    private void change(Supplier<Connection> body) {
        List<Waiter> waking = new ArrayList<>();
        Connection dropped = locked(() -> {
            Connection found = body.get();
            waking.addAll(woken);
            woken.clear();
            return found;
        });
        if (dropped != null) {
            dropped.close();
        }
        waking.forEach(Waiter::wake);
        signal.set();
    }

    String address() {
        return target.addresses.get(index).toString();
    }

    // Schedule. Runs under the lock.

    /** Sets when the next job of an object begins. */
    void schedule(Source source, long due) {
        unschedule(source);
        source.due = due;
        source.isDue = true;
        queue.add(source);
    }

    void unschedule(Source source) {
        if (source.isDue) {
            queue.remove(source);
            source.isDue = false;
        }
    }

    void event(GetidEvent.Kind kind, String object, String reason, long differenceMs) {
        if (onEvent != null) {
            if (events.size() >= EVENTS_MAX) {
                events.removeFirst();
            }
            events.add(new GetidEvent(kind, address(), object, reason, differenceMs));
        }
    }

    /** Returns whether the job of an object begins now. */
    private boolean canTake(Source source) {
        return !isBusy && !isClosed && source != null && source.isDue && source.due <= clock.nanos();
    }

    private void take(Source source) {
        unschedule(source);
        source.hasJob = true;
        isBusy = true;
    }

    // Jobs.

    /** Wakes the background thread. Returns whether there is one. */
    boolean kick() {
        boolean isNew = locked(() -> {
            boolean canStart = !hasThread && (!hasFailed || System.nanoTime() - failedAt > THREAD_RETRY);
            hasThread |= canStart;
            return canStart;
        });
        if (isNew) {
            startThread();
        }
        signal.set();
        return hasThread;
    }

    private void startThread() {
        try {
            WeakReference<Client> reference = signal.watch(this);
            Signal found = signal;
            Thread thread = new Thread(() -> work(reference, found), "getid");
            thread.setDaemon(true);
            thread.start();
        } catch (OutOfMemoryError e) {
            // The system has no room for a thread: blocking calls run the jobs.
            withLock(() -> {
                hasThread = false;
                hasFailed = true;
                failedAt = System.nanoTime();
            });
        }
    }

    /** Body of the background thread. It has no reference to the client while it waits, so the client can be freed. */
    private static void work(WeakReference<Client> reference, Signal signal) {
        while (true) {
            Client client = reference.get();
            if (client == null) {
                return;
            }
            long delay = -1;
            try {
                delay = client.workDue();
            } finally {
                if (delay < 0) {
                    client.hasThread = false;
                }
            }
            if (delay < 0) {
                return;
            }
            client = null;
            signal.await(delay);
        }
    }

    /** Runs all jobs that are due. Returns the time until the next one, or -1 at the end of the client. */
    private long workDue() {
        while (true) {
            deliverEvents();
            Source source;
            long begun;
            lock.lock();
            try {
                if (isFinished && events.isEmpty()) {
                    return -1;
                }
                source = queue.peek();
                begun = generation;
                if (!canTake(source)) {
                    boolean isIdle = isBusy || isClosed || source == null;
                    return isIdle ? IDLE : Math.min(IDLE, Math.max(0, source.due - clock.nanos()));
                }
                take(source);
            } finally {
                lock.unlock();
            }
            run(source, begun);
        }
    }

    private void deliverEvents() {
        while (onEvent != null) {
            GetidEvent event = locked(events::poll);
            if (event == null) {
                return;
            }
            try {
                onEvent.accept(event);
            } catch (Throwable e) {
                // What a callback throws is ignored.
            }
        }
    }

    /** Runs the job of an object in this thread if it is due and not taken up. */
    void help(Source source) {
        long begun = locked(() -> {
            boolean canTake = canTake(source);
            if (canTake) {
                take(source);
            }
            return canTake ? generation : -1;
        });
        if (begun < 0) {
            return;
        }
        // An interrupt would close the socket of a virtual thread, and the reply would be lost.
        boolean isInterrupted = Thread.interrupted();
        try {
            run(source, begun);
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Sends the request of an object and applies its reply. This thread alone uses the connection. */
    private void run(Source source, long begun) {
        Object reply = null;
        boolean hasReply = false;
        ConnectionLost failure = new ConnectionLost("interrupted", false);
        try {
            Connection used = connected(begun);
            List<byte[]> request = locked(() -> begun == generation ? source.begin(serial) : null);
            if (request != null) {
                reply = used.request(request, Connection.REPLY_TIMEOUT);
                hasReply = true;
            }
            failure = null;
        } catch (ConnectionLost e) {
            failure = e;
        } finally {
            finish(source, begun, reply, hasReply, failure);
        }
    }

    private Connection connected(long begun) throws ConnectionLost {
        Connection old;
        Connection made;
        lock.lock();
        try {
            if (begun != generation) {
                throw new ConnectionLost("the connection was dropped", true);
            }
            old = connection;
            Target.Address wanted = target.addresses.get(index);
            if (old != null && old.isOpen() && old.address == wanted) {
                return old;
            }
            connection = new Connection(target, wanted, tls);
            made = connection;
        } finally {
            lock.unlock();
        }
        if (old != null) {
            old.close();
        }
        made.connect(Connection.CONNECT_TIMEOUT);
        withLock(() -> {
            if (begun == generation) {
                serial++;
                event(GetidEvent.Kind.CONNECTED, "", "", 0);
            }
        });
        return made;
    }

    private void finish(Source source, long begun, Object reply, boolean hasReply, ConnectionLost failure) {
        change(() -> {
            Connection lost = null;
            source.hasJob = false;
            if (begun == generation) {
                lost = apply(source, reply, hasReply, failure);
            } else if (!source.waiters.isEmpty() && !isClosed) {
                schedule(source, clock.nanos());
            }
            source.arm();
            isBusy = false;
            return lost;
        });
    }

    /** Applies the end of a job. Returns the connection if it is to be closed. */
    private Connection apply(Source source, Object reply, boolean hasReply, ConnectionLost failure) {
        ConnectionLost found = failure;
        if (hasReply && !(reply instanceof ServerError)) {
            try {
                source.apply(reply);
            } catch (ConnectionLost e) {
                found = e;
            }
        }
        if (found != null) {
            return applyLoss(source, found);
        }
        if (reply instanceof ServerError && !source.refuse((ServerError) reply)) {
            applyError(source, (ServerError) reply, true);
        }
        return null;
    }

    private Connection applyLoss(Source source, ConnectionLost failure) {
        Connection lost = connection;
        connection = null;
        if (!failure.isConnect) {
            event(GetidEvent.Kind.DISCONNECTED, "", failure.getMessage(), 0);
        }
        if (failure.login != null) {
            applyError(source, failure.login, false);
        } else {
            source.failed(ServerError.Remedy.NEXT_ADDRESS, failure.getMessage(), !failure.isConnect, "");
        }
        return lost;
    }

    private void applyError(Source source, ServerError error, boolean canLose) {
        boolean canLoseLease = canLose && !error.code.equals("LOADING");
        source.failed(error.remedy(), address() + ": " + error.text, canLoseLease, error.code);
    }

    // Release.

    /** Sends the requests on a connection of its own, and removes those whose lease is over. */
    private void release(List<List<byte[]>> releases, long deadline) {
        int count = target.addresses.size();
        for (int step = 0; step < count && !releases.isEmpty() && deadline - System.nanoTime() > 0; step++) {
            Connection own = new Connection(target, target.addresses.get((index + step) % count), tls);
            try {
                own.connect(Math.min(Connection.CONNECT_TIMEOUT, deadline - System.nanoTime()));
                for (List<byte[]> request : new ArrayList<>(releases)) {
                    if (isOver(own, request, deadline)) {
                        releases.remove(request);
                    }
                }
            } catch (ConnectionLost e) {
                // The next address is tried with what is left.
            } finally {
                own.close();
            }
        }
    }

    private boolean isOver(Connection own, List<byte[]> request, long deadline) throws ConnectionLost {
        Object reply = own.request(request, Math.min(Connection.REPLY_TIMEOUT, deadline - System.nanoTime()));
        String code = reply instanceof ServerError ? ((ServerError) reply).code : "";
        if (code.equals("ERR") && request.size() > 5) {
            // LAST is too far ahead for the server. Without it the id is free at the end of the lease.
            return isOver(own, request.subList(0, 5), deadline);
        }
        if ("OK".equals(reply)) {
            String pool = new String(request.get(2), StandardCharsets.UTF_8);
            withLock(() -> event(GetidEvent.Kind.RELEASED, pool, "", 0));
        }
        return "OK".equals(reply) || code.equals("EXPIRED");
    }

    @Override
    public String toString() {
        return "getid client of " + target.addresses;
    }
}
