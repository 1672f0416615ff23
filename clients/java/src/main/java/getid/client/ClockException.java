package getid.client;

/** The clock of this machine is past the end of a lease that was just given. */
public final class ClockException extends GetidException {
    private static final long serialVersionUID = 1L;

    /** Distance from the end of the lease. */
    private final long differenceMs;

    /**
     * Makes an error.
     *
     * @param message the reason
     * @param differenceMs how far past the end of the lease the clock is, in milliseconds
     */
    public ClockException(String message, long differenceMs) {
        super(message);
        this.differenceMs = differenceMs;
    }

    /**
     * Returns how far past the end of the lease the clock is.
     *
     * @return the distance, in milliseconds
     */
    public long differenceMs() {
        return differenceMs;
    }
}
