package getid.client;

import java.time.Duration;
import java.util.function.Consumer;
import javax.net.ssl.SSLContext;

/**
 * Client of getid servers, with one connection and one daemon thread. Connects at the first use of an object.
 *
 * <pre>{@code
 * try (GetidClient client = GetidClient.connect("getid://127.0.0.1:7890")) {
 *     IdSource orders = client.sequence("orders");
 *     long id = orders.next();
 * }
 * }</pre>
 *
 * <p>Make one client for a process and keep it. All methods may be called from several threads.
 */
public interface GetidClient extends AutoCloseable {
    /**
     * Makes a client with the defaults of {@link #builder()}.
     *
     * @param url as in {@link Builder#url}
     * @return the client
     */
    static GetidClient connect(String url) {
        return builder().url(url).build();
    }

    /**
     * Makes a client of the servers in the environment variable {@code GETID_URL}, else of the local server.
     *
     * @return the client
     */
    static GetidClient connect() {
        return builder().build();
    }

    /**
     * Returns a builder of a client.
     *
     * @return the builder
     */
    static Builder builder() {
        return new Builder();
    }

    /**
     * Returns the local supply of a sequence, the same object each time.
     *
     * @param name 1 to 128 bytes
     * @return the supply
     */
    default IdSource sequence(String name) {
        return sequence(name, SequenceOptions.DEFAULT);
    }

    /**
     * Returns the local supply of a sequence, the same object each time. Other options for one name are an error.
     *
     * @param name 1 to 128 bytes
     * @param options the options
     * @return the supply
     */
    IdSource sequence(String name, SequenceOptions options);

    /**
     * Returns the generator of IDs with a leased worker id, the same object each time.
     *
     * @param pool name of the pool, 1 to 128 bytes; one pool serves one layout
     * @param layout layout of the IDs
     * @return the generator
     */
    default IdSource worker(String pool, Layout layout) {
        return worker(pool, layout, WorkerOptions.DEFAULT);
    }

    /**
     * Returns the generator of IDs with a leased worker id, the same object each time. Other options for one pool are
     * an error.
     *
     * @param pool name of the pool, 1 to 128 bytes; one pool serves one layout
     * @param layout layout of the IDs
     * @param options the options
     * @return the generator
     */
    IdSource worker(String pool, Layout layout, WorkerOptions options);

    /**
     * Waits until each object that was made has a value in memory or its lease, at most {@code timeout} for all.
     *
     * @param timeout longest wait, zero to one day
     */
    void warmUp(Duration timeout);

    /**
     * Drops all values and leases, and closes the connection, without a message: before a snapshot of the process.
     * Calls that wait continue to wait.
     */
    void discard();

    /** Ends all calls and releases the leases, within 2 s. Afterwards every call throws {@link ClosedException}. */
    @Override
    default void close() {
        close(Duration.ofSeconds(2));
    }

    /**
     * Ends all calls and releases the leases, within {@code timeout}. A second call returns the same.
     *
     * @param timeout longest wait, zero to one day
     * @return whether all leases were released
     */
    boolean close(Duration timeout);

    /** Builder of a client. */
    final class Builder {
        String url;
        long timeout = Duration.ofSeconds(5).toNanos();
        Consumer<GetidEvent> onEvent;
        SSLContext sslContext;
        Clock clock = new Clock();

        Builder() {}

        /**
         * Sets the servers. Without a call it is the environment variable {@code GETID_URL}, else
         * {@code getid://127.0.0.1:7890}.
         *
         * @param url {@code getid://[user:password@]host[:port][,host[:port]...][?order=given]}, {@code getids://} for
         * TLS,     or {@code getid+unix:///path} (Java 16 and later)
         * @return this builder
         */
        public Builder url(String url) {
            this.url = Checks.present("url", url);
            return this;
        }

        /**
         * Sets the time-out of calls, by default 5 s.
         *
         * @param timeout zero to one day
         * @return this builder
         */
        public Builder timeout(Duration timeout) {
            this.timeout = Checks.timeout(timeout);
            return this;
        }

        /**
         * Sets the context of {@code getids://}, by default that of the Java runtime.
         *
         * @param sslContext the context
         * @return this builder
         */
        public Builder sslContext(SSLContext sslContext) {
            this.sslContext = Checks.present("sslContext", sslContext);
            return this;
        }

        /**
         * Sets a callback for events. It runs on the background thread without a lock; what it throws is ignored. It
         * may call the client, but not wait for it.
         *
         * @param onEvent the callback
         * @return this builder
         */
        public Builder onEvent(Consumer<GetidEvent> onEvent) {
            this.onEvent = Checks.present("onEvent", onEvent);
            return this;
        }

        Builder clock(Clock clock) {
            this.clock = clock;
            return this;
        }

        /**
         * Makes the client. It connects at the first use of an object.
         *
         * @return the client
         */
        public GetidClient build() {
            return new Client(this);
        }
    }
}
