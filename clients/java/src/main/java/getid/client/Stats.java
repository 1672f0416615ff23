package getid.client;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** Counters of an {@link IdSource}. What a kind of object has not is 0, or -1 for a worker id. */
public final class Stats {
    private final Map<String, Number> all;

    Stats(Map<String, Number> all) {
        this.all = Collections.unmodifiableMap(all);
    }

    static Stats of(Object... namesAndNumbers) {
        Map<String, Number> all = new LinkedHashMap<>();
        for (int i = 0; i < namesAndNumbers.length; i += 2) {
            all.put((String) namesAndNumbers[i], (Number) namesAndNumbers[i + 1]);
        }
        return new Stats(all);
    }

    /**
     * Returns all counters by name. A sequence without a fetch has no {@code fetch_ms} (null); a worker without a lease
     * has no {@code worker_id}, {@code not_before_ms} and {@code not_after_ms} (null).
     *
     * @return a map that cannot be changed
     */
    public Map<String, Number> asMap() {
        return all;
    }

    private long get(String name, long absent) {
        Number number = all.get(name);
        return number == null ? absent : number.longValue();
    }

    /**
     * Returns how many values the calls returned.
     *
     * @return the number
     */
    public long values() {
        return get("values", 0);
    }

    /**
     * Returns how many requests failed.
     *
     * @return the number
     */
    public long failures() {
        return get("failures", 0);
    }

    /**
     * Returns how many fetches of a sequence succeeded.
     *
     * @return the number
     */
    public long fetches() {
        return get("fetches", 0);
    }

    /**
     * Returns how many values of a sequence were fetched and never returned.
     *
     * @return the number
     */
    public long dropped() {
        return get("dropped", 0);
    }

    /**
     * Returns how many calls of a sequence waited.
     *
     * @return the number
     */
    public long waits() {
        return get("waits", 0);
    }

    /**
     * Returns how many values of a sequence are in memory now.
     *
     * @return the number
     */
    public long held() {
        return get("held", 0);
    }

    /**
     * Returns how many values a sequence fetches ahead of the calls now.
     *
     * @return the number
     */
    public long prefetch() {
        return get("prefetch", 0);
    }

    /**
     * Returns the leased worker id.
     *
     * @return the id, or -1 without a lease
     */
    public long workerId() {
        return get("worker_id", -1);
    }

    /**
     * Returns the first millisecond of the lease.
     *
     * @return Unix milliseconds
     */
    public long notBeforeMs() {
        return get("not_before_ms", 0);
    }

    /**
     * Returns the first millisecond after the lease.
     *
     * @return Unix milliseconds
     */
    public long notAfterMs() {
        return get("not_after_ms", 0);
    }

    /**
     * Returns how many leases a worker got.
     *
     * @return the number
     */
    public long leases() {
        return get("leases", 0);
    }

    /**
     * Returns how many renewals succeeded.
     *
     * @return the number
     */
    public long renewals() {
        return get("renewals", 0);
    }

    /**
     * Returns how far the clock is past the end of the lease.
     *
     * @return milliseconds, 0 if it is not
     */
    public long clockAheadMs() {
        return get("clock_ahead_ms", 0);
    }

    /**
     * Returns the shortest of the last eight fetch times of a sequence.
     *
     * @return milliseconds, 0 without a fetch
     */
    public double fetchMs() {
        Number number = all.get("fetch_ms");
        return number == null ? 0 : number.doubleValue();
    }

    @Override
    public String toString() {
        return all.toString();
    }
}
