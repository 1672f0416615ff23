package getid.client;

import java.time.Instant;
import java.util.Objects;

/**
 * Layout of IDs: widths of the fields in bits, the unit of time and the epoch. Immutable.
 *
 * <p>The time is the highest field. The worker id lies above the counter; with {@link #counterFirst} the counter lies
 * above the worker id, as in Sonyflake. All fields have at most 63 bits together, so an ID fits a {@code BIGINT}.
 */
public final class Layout {
    /** Time 41, worker 10, counter 12 bits; since 2010-11-04. */
    public static final Layout TWITTER = of(41, 10, 12).epochMs(1_288_834_974_657L);

    /** Another name of {@link #TWITTER}. */
    public static final Layout SNOWFLAKE = TWITTER;

    /** Time 41, worker 10, counter 12 bits; since 2015-01-01 UTC. */
    public static final Layout DISCORD = of(41, 10, 12).epochMs(1_420_070_400_000L);

    /** Time 41, worker 10, counter 12 bits; since 2015-01-01 +08:00. */
    public static final Layout KEETS = of(41, 10, 12).epochMs(1_420_041_600_000L);

    /** Time 41, worker 10, counter 12 bits; since 2016-02-18. */
    public static final Layout ICICLE = of(41, 10, 12).epochMs(1_455_788_600_316L);

    /** Time 39 bits in units of 10 ms, counter 8, worker 16; since 2014-09-01 UTC. */
    public static final Layout SONYFLAKE = of(39, 16, 8).unitMs(10).epochMs(1_409_529_600_000L).counterFirst();

    /** {@link #SONYFLAKE} since 2025-01-01 UTC. */
    public static final Layout SONYFLAKE2 = SONYFLAKE.epochMs(1_735_689_600_000L);

    final int time;
    final int worker;
    final int counter;
    final int unitMs;
    final long epochMs;
    final boolean isCounterFirst;

    private Layout(int time, int worker, int counter, int unitMs, long epochMs, boolean isCounterFirst) {
        this.time = (int) Checks.range("time", time, 1, 62);
        this.worker = (int) Checks.range("worker", worker, 0, 16);
        this.counter = (int) Checks.range("counter", counter, 0, 32);
        this.unitMs = (int) Checks.range("unitMs", unitMs, 1, 60_000);
        this.epochMs = Checks.range("epochMs", epochMs, 0, 1L << 46);
        this.isCounterFirst = isCounterFirst;
        if (time + worker + counter > 63) {
            throw new IllegalArgumentException("time, worker and counter have " + (time + worker + counter)
                    + " bits together, must have at most 63");
        }
    }

    /**
     * Returns a layout with a unit of 1 ms, the Unix epoch, and the worker id above the counter.
     *
     * @param time bits of the time, 1 to 62
     * @param worker bits of the worker id, 0 to 16
     * @param counter bits of the counter, 0 to 32
     * @return the layout
     */
    public static Layout of(int time, int worker, int counter) {
        return new Layout(time, worker, counter, 1, 0, false);
    }

    /**
     * Returns this layout with another unit of time.
     *
     * @param unitMs milliseconds, 1 to 60,000
     * @return the layout
     */
    public Layout unitMs(int unitMs) {
        return new Layout(time, worker, counter, unitMs, epochMs, isCounterFirst);
    }

    /**
     * Returns this layout with another epoch.
     *
     * @param epochMs Unix milliseconds of the unit 0
     * @return the layout
     */
    public Layout epochMs(long epochMs) {
        return new Layout(time, worker, counter, unitMs, epochMs, isCounterFirst);
    }

    /**
     * Returns this layout with the counter above the worker id.
     *
     * @return the layout
     */
    public Layout counterFirst() {
        return new Layout(time, worker, counter, unitMs, epochMs, true);
    }

    /**
     * Returns the time of an ID: the begin of its unit.
     *
     * @param id an ID of this layout
     * @return the time
     */
    public Instant timeOf(long id) {
        return Instant.ofEpochMilli(epochMs + (checkId(id) >> (worker + counter)) * unitMs);
    }

    /**
     * Returns the worker id of an ID.
     *
     * @param id an ID of this layout
     * @return the worker id
     */
    public int workerOf(long id) {
        return (int) (checkId(id) >> (isCounterFirst ? 0 : counter) & ((1L << worker) - 1));
    }

    /**
     * Returns the counter of an ID: its position inside the unit of time.
     *
     * @param id an ID of this layout
     * @return the counter
     */
    public long counterOf(long id) {
        return checkId(id) >> (isCounterFirst ? worker : 0) & ((1L << counter) - 1);
    }

    private long checkId(long id) {
        return Checks.range("id", id, 0, -1L >>> (64 - time - worker - counter));
    }

    long compose(long unit, long workerId, long count) {
        long low = isCounterFirst ? count << worker | workerId : workerId << counter | count;
        return unit << (worker + counter) | low;
    }

    /** Returns the last millisecond of a unit of time, Unix milliseconds. */
    long unitEndMs(long unit) {
        return epochMs + (unit + 1) * unitMs - 1;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Layout && toString().equals(other.toString());
    }

    @Override
    public int hashCode() {
        return Objects.hash(time, worker, counter, unitMs, epochMs, isCounterFirst);
    }

    @Override
    public String toString() {
        return String.format(java.util.Locale.ROOT, "time %d worker %d counter %d unit %d ms epoch %d%s", time,
                worker, counter, unitMs, epochMs,
                isCounterFirst ? " counter first" : "");
    }
}
