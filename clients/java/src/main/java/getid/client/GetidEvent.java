package getid.client;

/** What the callback of {@link GetidClient.Builder#onEvent} gets. */
public final class GetidEvent {
    /** Kind of an event. */
    public enum Kind {
        /** A connection was opened. */
        CONNECTED,
        /** A connection was lost. */
        DISCONNECTED,
        /** A fetch of values, or of a lease, failed. */
        FETCH_FAILED,
        /** A worker id was leased. */
        LEASED,
        /** A lease was renewed. */
        RENEWED,
        /** A renewal failed; it is tried again. */
        RENEW_FAILED,
        /** A lease is not renewed any more; it is used to its end. */
        LEASE_LOST,
        /** A worker id was released. */
        RELEASED,
        /** The clock of this machine is past the end of a lease that was just given. */
        CLOCK
    }

    private final Kind kind;
    private final String address;
    private final String object;
    private final String reason;
    private final long differenceMs;

    GetidEvent(Kind kind, String address, String object, String reason, long differenceMs) {
        this.kind = kind;
        this.address = address;
        this.object = object;
        this.reason = reason;
        this.differenceMs = differenceMs;
    }

    /**
     * Returns the kind.
     *
     * @return the kind
     */
    public Kind kind() {
        return kind;
    }

    /**
     * Returns the address of the server.
     *
     * @return host and port, or the path of a socket
     */
    public String address() {
        return address;
    }

    /**
     * Returns the name of the sequence or pool.
     *
     * @return the name, empty for events of a connection
     */
    public String object() {
        return object;
    }

    /**
     * Returns the reason of a failure.
     *
     * @return the reason, empty without a failure
     */
    public String reason() {
        return reason;
    }

    /**
     * Returns how far the clock is past the end of the lease, for {@link Kind#CLOCK}.
     *
     * @return the distance in milliseconds, else 0
     */
    public long differenceMs() {
        return differenceMs;
    }

    @Override
    public String toString() {
        return kind + " " + address + (object.isEmpty() ? "" : " " + object) + (reason.isEmpty() ? "" : ": " + reason);
    }
}
