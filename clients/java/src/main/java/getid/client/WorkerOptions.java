package getid.client;

import java.time.Duration;
import java.util.Objects;

/** Options of {@link GetidClient#worker(String, Layout, WorkerOptions)}. Immutable. */
public final class WorkerOptions {
    /** The name of the host, and the lease of the pool. */
    public static final WorkerOptions DEFAULT = new WorkerOptions(null, null);

    final String name;
    final Duration ttl;

    private WorkerOptions(String name, Duration ttl) {
        this.name = name;
        this.ttl = ttl;
    }

    /**
     * Returns these options with a name, by which a program gets its last worker id back.
     *
     * @param name any text; an empty one is not sent
     * @return the options
     */
    public WorkerOptions name(String name) {
        return new WorkerOptions(Checks.present("name", name), ttl);
    }

    /**
     * Returns these options with another length of the lease.
     *
     * @param ttl length in whole seconds, 1 s to one day
     * @return the options
     */
    public WorkerOptions ttl(Duration ttl) {
        Checks.duration("ttl", ttl, Duration.ofSeconds(1), Checks.TIMEOUT_MAX);
        if (ttl.getNano() != 0) {
            throw new IllegalArgumentException("ttl is " + ttl + ", must be whole seconds, PT1S to PT24H");
        }
        return new WorkerOptions(name, ttl);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof WorkerOptions
                && Objects.equals(name, ((WorkerOptions) other).name)
                && Objects.equals(ttl, ((WorkerOptions) other).ttl);
    }

    @Override
    public int hashCode() {
        return Objects.hash(name, ttl);
    }
}
