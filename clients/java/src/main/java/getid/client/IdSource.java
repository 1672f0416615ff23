package getid.client;

import java.time.Duration;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/**
 * A local supply of IDs: of a sequence, or made with a leased worker id.
 *
 * <p>Values are unique, and ascend in one object. All methods may be called from several threads, virtual ones
 * included. A value that a program takes and does not use leaves a gap. Calls throw {@link UnavailableException},
 * {@link RefusedException}, {@link ClosedException} and, for workers, {@link ClockException}.
 *
 * <p>An interrupted thread gets values that are in memory. A call that would wait throws {@code UnavailableException},
 * and the thread stays interrupted.
 */
public interface IdSource {
    /**
     * Returns the name of the sequence or pool.
     *
     * @return the name
     */
    String name();

    /**
     * Returns the next value, out of memory in nearly all calls. Waits at most the time-out of the client.
     *
     * @return the value
     */
    long next();

    /**
     * Returns the next value, and waits at most {@code timeout}.
     *
     * @param timeout longest wait, zero to one day
     * @return the value
     */
    default long next(Duration timeout) {
        return take(1, timeout)[0];
    }

    /**
     * Returns {@code n} ascending values. Waits at most the time-out of the client.
     *
     * @param n number of values, 1 to 1,000,000
     * @return the values
     */
    long[] take(int n);

    /**
     * Returns {@code n} ascending values, and waits at most {@code timeout}.
     *
     * @param n number of values, 1 to 1,000,000
     * @param timeout longest wait, zero to one day
     * @return the values
     */
    long[] take(int n, Duration timeout);

    /**
     * Returns a future of the next value. It fails as {@link #next()} does, after the time-out of the client at the
     * latest. A cancelled future leaves a gap at most.
     *
     * @return the future
     */
    CompletableFuture<Long> nextAsync();

    /**
     * Returns the next value if it is in memory. Never waits, and starts the fetch or lease.
     *
     * @return the value, or empty; of a {@link SequenceOptions#fresh fresh} sequence always empty
     */
    OptionalLong tryNext();

    /**
     * Waits until {@code n} values are in memory, or the worker id is leased. Waits at most the time-out of the client.
     *
     * @param n number of values, 1 to 1,000,000; without a meaning for a worker
     */
    void warmUp(int n);

    /**
     * Returns the counters of this object by name. Those of a sequence are {@code values} (returned), {@code fetches},
     * {@code failures}, {@code dropped} (values fetched and never returned), {@code waits} (calls that waited),
     * {@code held} (values in memory), {@code prefetch} (its size), and {@code fetch_ms} (the shortest of the last
     * eight, null without one). Those of a worker are {@code values}, {@code worker_id}, {@code not_before_ms} and
     * {@code not_after_ms} (null without a lease), {@code leases}, {@code renewals}, {@code failures} and
     * {@code clock_ahead_ms}.
     *
     * @return a copy of the counters
     */
    Map<String, Number> stats();
}
