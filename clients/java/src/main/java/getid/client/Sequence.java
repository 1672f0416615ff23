package getid.client;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;

/**
 * Local supply of values of one sequence: a queue of segments, used in the order in which they came.
 *
 * <p>Almost every call takes the next value of the first segment by the fields of the fast path. {@link #settle} moves
 * them into the segment, {@link #arm} from it.
 */
final class Sequence extends Source {
    static final int COUNT_MAX = 10_000_000;
    static final int PREFETCH_FIRST = 16;
    static final long HORIZON = TimeUnit.MILLISECONDS.toNanos(100);

    /** Longest time for which a call compares one clock only. */
    static final long CHECK = TimeUnit.MILLISECONDS.toNanos(1);

    /** Values that a reply brought, and when its request was sent by both clocks. */
    private static final class Segment {
        long next;
        long left;
        final long size;
        final long step;
        final long sent;
        final long sentMs;

        Segment(long first, long size, long step, long sent, long sentMs) {
            this.next = first;
            this.left = size;
            this.size = size;
            this.step = step;
            this.sent = sent;
            this.sentMs = sentMs;
        }
    }

    private final SequenceOptions sequenceOptions;
    private final int prefetchMax;
    private final long hold;
    private final Deque<Segment> segments = new ArrayDeque<>();
    private final Deque<Long> durations = new ArrayDeque<>();

    // The fast path: values up to which no call has anything else to do.
    private long fastValue;
    private long fastLeft;
    private long fastStep;
    private long fastCount;
    private long checkAt;

    private long newest = -1;
    private long wallMs;
    private int prefetch;
    private boolean hasFetched;
    private long lastSent;
    private boolean isSized;
    private boolean isAboveDue;
    private long serial;
    private long droppedWait = BACKOFF_FIRST;

    // The job that is under way.
    private long count;
    private long sent;
    private long sentMs;
    private long jobSerial;

    private long returned;
    private long dropped;
    private long fetches;

    Sequence(Client client, String name, SequenceOptions options) {
        super(client, name, options);
        sequenceOptions = options;
        prefetchMax = options.isFresh ? 0 : options.prefetchMax;
        hold = options.hold.toNanos();
        prefetch = Math.min(PREFETCH_FIRST, prefetchMax);
    }

    @Override
    public long next() {
        lock.lock();
        try {
            if (fastLeft > 0 && clock.nanos() < checkAt) {
                fastLeft--;
                long value = fastValue;
                fastValue = value + fastStep;
                return value;
            }
        } finally {
            lock.unlock();
        }
        return takeWithin(1, client.timeout)[0];
    }

    @Override
    public OptionalLong tryNext() {
        if (sequenceOptions.isFresh) {
            client.checkOpen();
            return OptionalLong.empty();
        }
        return super.tryNext();
    }

    @Override
    public Map<String, Number> stats() {
        return client.locked(() -> {
            settle();
            arm();
            Map<String, Number> stats = new LinkedHashMap<>();
            stats.put("values", returned);
            stats.put("fetches", fetches);
            stats.put("failures", failures);
            stats.put("dropped", dropped);
            stats.put("waits", waits);
            stats.put("held", held());
            stats.put("prefetch", prefetch);
            stats.put("fetch_ms", durations.isEmpty() ? null : (Number) (shortest() / 1e6));
            return stats;
        });
    }

    @Override
    void draw(Waiter waiter) {
        settle();
        checkAges();
        fill(waiter); // Where a call waits already, no segment has a value.
    }

    @Override
    boolean isWarm(int n) {
        settle();
        checkAges();
        return sequenceOptions.isFresh || held() >= n;
    }

    // Segments.

    /** Moves values from the segments to a call. Starts a fetch where few are left. */
    private void fill(Waiter waiter) {
        while (waiter.need > 0 && !segments.isEmpty()) {
            Segment segment = segments.getFirst();
            if (waiter.filled == 0) {
                waiter.sent = segment.sent;
                waiter.sentMs = segment.sentMs;
            }
            long n = Math.min(waiter.need, segment.left);
            for (long i = 0; i < n; i++) {
                waiter.put(segment.next);
                segment.next += segment.step;
            }
            segment.left -= n;
            returned += n;
            if (segment.left == 0) {
                segments.removeFirst();
            }
            if (prefetchMax > 0 && isLow()) {
                want();
            }
        }
    }

    private boolean isLow() {
        return segments.isEmpty() || (segments.size() == 1 && segments.getFirst().left * 2 <= segments.getFirst().size);
    }

    @Override
    void want() {
        if (!isDue && !hasJob) {
            client.schedule(this, Math.max(clock.nanos(), retryAt));
        }
    }

    private long held() {
        long held = 0;
        for (Segment segment : segments) {
            held += segment.left;
        }
        return held;
    }

    @Override
    void dropValues(Waiter waiter) {
        returned -= waiter.filled;
        dropped += waiter.filled;
        waiter.need += waiter.filled;
        waiter.filled = 0;
    }

    /** Moves the state of the fast path into the first segment, and stops the fast path. */
    private void settle() {
        if (fastCount > 0) {
            Segment segment = segments.getFirst();
            returned += fastCount - fastLeft;
            segment.left -= fastCount - fastLeft;
            segment.next = fastValue;
            if (segment.left == 0) {
                segments.removeFirst();
            }
        }
        fastLeft = 0;
        fastCount = 0;
    }

    @Override
    void arm() {
        settle();
        if (segments.isEmpty() || client.isClosed) {
            return;
        }
        Segment segment = segments.getFirst();
        boolean isWhole = isDue || hasJob || segments.size() > 1 || prefetchMax == 0;
        fastCount = isWhole ? segment.left : Math.max(0, segment.left - segment.size / 2 - 1);
        fastLeft = fastCount;
        fastValue = segment.next;
        fastStep = segment.step;
        checkAt = Math.min(clock.nanos() + CHECK, segment.sent + hold);
    }

    /** Drops segments that are too old by either clock, and all of them if the wall clock went back. */
    private void checkAges() {
        long nowMs = clock.millis();
        boolean wentBack = nowMs < wallMs;
        wallMs = nowMs;
        while (!segments.isEmpty() && (wentBack || isOld(segments.getFirst().sent, segments.getFirst().sentMs))) {
            dropped += segments.removeFirst().left;
        }
    }

    private boolean isOld(long sent, long sentMs) {
        return clock.nanos() - sent >= hold || clock.millis() - sentMs >= TimeUnit.NANOSECONDS.toMillis(hold);
    }

    @Override
    void forget() {
        settle();
        dropped += held();
        segments.clear();
        for (Waiter waiter : waiters) {
            waiter.isSent = false;
            dropValues(waiter);
        }
    }

    // Jobs.

    @Override
    List<byte[]> begin(long connectionSerial) {
        settle();
        checkAges();
        count = wantedCount();
        List<byte[]> request = null;
        if (count > 0) {
            sent = clock.nanos();
            sentMs = clock.millis();
            jobSerial = connectionSerial;
            for (Waiter waiter : waiters) {
                waiter.isSent = true;
            }
            request = words("SEQUENCE", "NEXT", name, "COUNT", count);
            if (newest >= 0 && (jobSerial != serial || isAboveDue)) {
                request.addAll(words("ABOVE", newest));
            }
        }
        arm();
        return request;
    }

    private long wantedCount() {
        long need = 0;
        long warmUp = 0;
        for (Waiter waiter : waiters) {
            need += waiter.isWarmUp ? 0 : waiter.need;
            warmUp = Math.max(warmUp, waiter.isWarmUp ? waiter.need : 0);
        }
        long wanted = need;
        if (prefetchMax > 0 && (need > 0 || isLow())) {
            sizePrefetch();
            wanted += prefetch;
        }
        if (isWanted && segments.isEmpty() && !sequenceOptions.isFresh) {
            wanted = Math.max(wanted, 1);
        }
        return Math.min(Math.max(wanted, need + warmUp - held()), COUNT_MAX);
    }

    /** Doubles the prefetch if fetches follow each other soon, and halves it if they do not. */
    private void sizePrefetch() {
        if (!hasFetched || isSized) {
            return;
        }
        isSized = true;
        long horizon = Math.max(HORIZON, 8 * shortest());
        long since = clock.nanos() - lastSent;
        if (since < horizon) {
            prefetch = Math.min(2 * prefetch, prefetchMax);
        } else if (since > 4 * horizon) {
            prefetch = Math.max(prefetch / 2, 1);
        }
    }

    private long shortest() {
        return durations.isEmpty() ? 0 : Collections.min(durations);
    }

    @Override
    void apply(Object reply) throws ConnectionLost {
        long[] range = integers(reply, 0, 1, 2);
        checkRange(reply, range);
        long first = range[0];
        long last = range[1];
        long step = range[2];
        long received = (last - first) / step + 1;
        succeeded();
        settle();
        checkAges();
        noteFetch();
        long skipped = newest < first ? 0 : Math.min(received, (newest - first) / step + 1);
        long kept = received - skipped;
        if (kept > 0) {
            newest = last;
            droppedWait = BACKOFF_FIRST;
        }
        boolean isStale = isOld(sent, sentMs) || clock.millis() < sentMs;
        dropped += isStale ? received : skipped;
        serve(kept > 0 && !isStale ? new Segment(first + skipped * step, kept, step, sent, sentMs) : null);
        if (kept == 0) {
            isAboveDue = true;
            retryAt = clock.nanos() + droppedWait;
            droppedWait = Math.min(2 * droppedWait, BACKOFF_LAST);
        }
        if (!waiters.isEmpty()) {
            client.schedule(this, Math.max(clock.nanos(), retryAt));
        }
    }

    private void checkRange(Object reply, long[] range) throws ConnectionLost {
        if (range == null || ((List<?>) reply).size() != 3 || range[0] > range[1] || range[2] < 1
                || (range[1] - range[0]) % range[2] != 0 || (range[1] - range[0]) / range[2] >= count) {
            throw unexpected("SEQUENCE NEXT " + name + " COUNT " + count,
                    "a range of 1 to " + count + " values: the first, the last and the increment");
        }
    }

    private void noteFetch() {
        durations.addLast(clock.nanos() - sent);
        if (durations.size() > 8) {
            durations.removeFirst();
        }
        hasFetched = true;
        lastSent = sent;
        isSized = false;
        isWanted = false;
        fetches++;
        serial = jobSerial;
        isAboveDue = false;
    }

    /** Gives values to the calls that wait, in their order, and keeps the others. */
    private void serve(Segment segment) {
        if (segment != null) {
            segments.add(segment);
        }
        Deque<Waiter> waiting = new ArrayDeque<>();
        for (Waiter waiter : waiters) {
            if (isServed(waiter)) {
                finish(waiter, null);
            } else {
                waiting.add(waiter);
            }
        }
        waiters = waiting;
        if (sequenceOptions.isFresh) {
            dropped += held();
            segments.clear();
        }
    }

    private boolean isServed(Waiter waiter) {
        if (waiter.isWarmUp) {
            return held() >= waiter.need;
        }
        if (sequenceOptions.isFresh && !waiter.isSent) {
            return false;
        }
        if (waiter.filled > 0 && isOld(waiter.sent, waiter.sentMs)) {
            dropValues(waiter);
        }
        fill(waiter);
        return waiter.need == 0;
    }

    @Override
    public String toString() {
        return "sequence '" + name + "'";
    }
}
