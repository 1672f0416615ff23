package getid.client;

/** The client is closed. */
public final class ClosedException extends GetidException {
    private static final long serialVersionUID = 1L;

    /** Makes an error. */
    public ClosedException() {
        super("the client is closed: make another one");
    }
}
