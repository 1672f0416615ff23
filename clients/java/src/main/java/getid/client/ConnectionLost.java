package getid.client;

/** The connection is closed, or the server refused the login. */
final class ConnectionLost extends Exception {
    private static final long serialVersionUID = 1L;

    /** Whether no request had been sent on the connection. */
    final boolean isConnect;

    /** Error reply to {@code AUTH}, or null. */
    final transient ServerError login;

    ConnectionLost(String reason, boolean isConnect) {
        this(reason, isConnect, null);
    }

    ConnectionLost(String reason, boolean isConnect, ServerError login) {
        super(reason, null, false, false);
        this.isConnect = isConnect;
        this.login = login;
    }
}
