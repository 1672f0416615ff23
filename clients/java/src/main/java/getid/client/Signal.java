package getid.client;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Wakes the background thread: by {@link #set}, and when the client is no longer reachable.
 *
 * <p>The thread waits for a queue of references, because the collector wakes a thread by nothing else.
 */
final class Signal {
    private final ReferenceQueue<Object> queue = new ReferenceQueue<>();
    private final AtomicBoolean isSet = new AtomicBoolean();

    WeakReference<Client> watch(Client client) {
        return new WeakReference<>(client, queue);
    }

    void set() {
        if (isSet.compareAndSet(false, true)) {
            new WeakReference<Object>(this, queue).enqueue();
        }
    }

    void await(long nanos) {
        try {
            queue.remove(Math.max(1, TimeUnit.NANOSECONDS.toMillis(nanos + 999_999)));
        } catch (InterruptedException e) {
            // A wake-up without a reason: the thread looks what is due.
        }
        isSet.set(false);
    }
}
