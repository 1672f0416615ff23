package getid.client;

import java.time.Duration;
import java.util.Objects;

/** Options of {@link GetidClient#sequence(String, SequenceOptions)}. Immutable. */
public final class SequenceOptions {
    static final Duration HOLD_MIN = Duration.ofMillis(10);
    static final Duration HOLD_MAX = Duration.ofSeconds(60);

    /** At most 10,000 values ahead of the calls, held for 60 s. */
    public static final SequenceOptions DEFAULT = new SequenceOptions(10_000, HOLD_MAX, false);

    final int prefetchMax;
    final Duration hold;
    final boolean isFresh;

    private SequenceOptions(int prefetchMax, Duration hold, boolean isFresh) {
        this.prefetchMax = (int) Checks.range("prefetchMax", prefetchMax, 0, 10_000_000);
        Checks.duration("hold", hold, HOLD_MIN, HOLD_MAX);
        this.hold = hold;
        this.isFresh = isFresh;
    }

    /**
     * Returns these options with another bound of the values that are fetched ahead of the calls.
     *
     * @param prefetchMax 0 to 10,000,000; 0 fetches none
     * @return the options
     */
    public SequenceOptions prefetchMax(int prefetchMax) {
        return new SequenceOptions(prefetchMax, hold, isFresh);
    }

    /**
     * Returns these options with another time after which a value is not used any more.
     *
     * @param hold time since the request, 10 ms to 60 s
     * @return the options
     */
    public SequenceOptions hold(Duration hold) {
        return new SequenceOptions(prefetchMax, hold, isFresh);
    }

    /**
     * Returns these options with values that serve only calls that were waiting when their request was sent: for serial
     * numbers in the order of commits, and timestamps.
     *
     * @return the options
     */
    public SequenceOptions fresh() {
        return new SequenceOptions(prefetchMax, hold, true);
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof SequenceOptions)) {
            return false;
        }
        SequenceOptions that = (SequenceOptions) other;
        return prefetchMax == that.prefetchMax && hold.equals(that.hold) && isFresh == that.isFresh;
    }

    @Override
    public int hashCode() {
        return Objects.hash(prefetchMax, hold, isFresh);
    }
}
