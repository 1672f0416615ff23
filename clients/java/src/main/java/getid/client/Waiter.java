package getid.client;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A call that waits. All fields but the latch are guarded by the client's lock. */
final class Waiter {
    final long[] values;
    final boolean isWarmUp;
    int filled;
    int need;
    boolean isSent;
    boolean isDone;
    GetidException error;
    long sent;
    long sentMs;
    private final Runnable onWake;
    private final CountDownLatch latch = new CountDownLatch(1);

    Waiter(int need, Runnable onWake) {
        this(new long[need], need, false, onWake);
    }

    private Waiter(long[] values, int need, boolean isWarmUp, Runnable onWake) {
        this.values = values;
        this.need = need;
        this.isWarmUp = isWarmUp;
        this.onWake = onWake;
    }

    static Waiter warmUp(int need) {
        return new Waiter(new long[0], need, true, null);
    }

    /** Returns a waiter for what this one still needs. */
    Waiter again() {
        Waiter next = new Waiter(values, need, false, onWake);
        next.filled = filled;
        return next;
    }

    boolean isAsync() {
        return onWake != null;
    }

    void put(long value) {
        values[filled++] = value;
        need--;
    }

    /** Wakes the call. Runs without a lock. */
    void wake() {
        latch.countDown();
        if (onWake != null) {
            onWake.run();
        }
    }

    boolean await(long nanos) throws InterruptedException {
        return latch.await(nanos, TimeUnit.NANOSECONDS);
    }
}
