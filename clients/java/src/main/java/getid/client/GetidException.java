package getid.client;

/**
 * Base class of all errors that this package throws for a server, a connection or a clock.
 *
 * <p>Mistakes in arguments are {@link IllegalArgumentException}.
 */
public abstract class GetidException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    GetidException(String message) {
        super(message);
    }
}
