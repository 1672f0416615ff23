package getid.client;

/** The time-out of the call passed without a value, or its thread was interrupted. The message has the last failure. */
public final class UnavailableException extends GetidException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes an error.
     *
     * @param message the reason
     */
    public UnavailableException(String message) {
        super(message);
    }
}
