package getid.client;

/** The server returned an error that a repetition does not mend, such as {@code NOPERM} or an unknown name. */
public final class RefusedException extends GetidException {
    private static final long serialVersionUID = 1L;

    /** First word of the error. */
    private final String code;

    /**
     * Makes an error.
     *
     * @param message the reason
     * @param code the first word of the error of the server, or an empty text
     */
    public RefusedException(String message, String code) {
        super(message);
        this.code = code;
    }

    /**
     * Returns the first word of the error of the server, such as {@code "NOPERM"}; empty if the client found the
     * reason.
     *
     * @return the word
     */
    public String code() {
        return code;
    }
}
