package getid.client;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolFamily;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * Bytes to and from one server, with deadlines by {@link System#nanoTime}. {@link #close} may come from another thread.
 */
abstract class Transport {
    abstract void connect(long deadline) throws IOException;

    abstract void write(byte[] bytes, long deadline) throws IOException;

    /** Returns how many bytes it read, or -1 at the end of the stream. */
    abstract int read(byte[] bytes, long deadline) throws IOException;

    /** Returns whether bytes arrived that no request has read, or the stream is over. */
    abstract boolean hasInput() throws IOException;

    /** Closes the descriptor. Sends no byte, also with TLS. */
    abstract void close();

    static Transport of(Target target, Target.Address address, SSLContext tls) {
        return address.isSocket() ? new Local(address.host) : new Tcp(address, target.isTls, tls);
    }

    /** Returns the milliseconds until {@code deadline}, at least 1. Fails behind it. */
    private static int left(long deadline) throws IOException {
        long left = deadline - System.nanoTime();
        if (left <= 0) {
            throw new SocketTimeoutException();
        }
        return (int) Math.max(1, Math.min(TimeUnit.NANOSECONDS.toMillis(left), Integer.MAX_VALUE));
    }

    private static final class Tcp extends Transport {
        private final Target.Address address;
        private final boolean isTls;
        private final SSLContext tls;
        private volatile boolean isClosed;
        private volatile Socket raw;
        private Socket socket;

        Tcp(Target.Address address, boolean isTls, SSLContext tls) {
            this.address = address;
            this.isTls = isTls;
            this.tls = tls;
        }

        @Override
        void connect(long deadline) throws IOException {
            IOException last = null;
            for (InetAddress found : InetAddress.getAllByName(address.host)) {
                try {
                    open(found, deadline);
                    return;
                } catch (IOException e) {
                    last = e;
                    closeRaw();
                }
            }
            throw last;
        }

        private void open(InetAddress found, long deadline) throws IOException {
            socket = raw = new Socket();
            if (isClosed) {
                throw new IOException("the client was closed");
            }
            raw.connect(new InetSocketAddress(found, address.port), left(deadline));
            raw.setTcpNoDelay(true);
            raw.setKeepAlive(true);
            if (isTls) {
                raw.setSoTimeout(left(deadline));
                SSLSocket layered =
                        (SSLSocket) tls.getSocketFactory().createSocket(raw, address.host, address.port, true);
                SSLParameters parameters = layered.getSSLParameters();
                parameters.setEndpointIdentificationAlgorithm("HTTPS");
                layered.setSSLParameters(parameters);
                layered.startHandshake();
                socket = layered;
            }
        }

        @Override
        void write(byte[] bytes, long deadline) throws IOException {
            left(deadline);
            socket.getOutputStream().write(bytes);
        }

        @Override
        int read(byte[] bytes, long deadline) throws IOException {
            raw.setSoTimeout(left(deadline));
            return socket.getInputStream().read(bytes);
        }

        @Override
        boolean hasInput() throws IOException {
            return socket.getInputStream().available() > 0;
        }

        @Override
        void close() {
            isClosed = true;
            closeRaw();
        }

        private void closeRaw() {
            Socket found = raw;
            if (found != null) {
                try {
                    found.close();
                } catch (IOException e) {
                    // The descriptor is closed all the same.
                }
            }
        }
    }

    /** Unix socket. Java has them from version 16 on, so they are found by name. */
    private static final class Local extends Transport {
        private final String path;
        private volatile boolean isClosed;
        private volatile SocketChannel channel;
        private volatile Selector selector;

        Local(String path) {
            this.path = path;
        }

        @Override
        void connect(long deadline) throws IOException {
            try {
                SocketAddress place = (SocketAddress) Class.forName("java.net.UnixDomainSocketAddress")
                        .getMethod("of", String.class).invoke(null, path);
                channel = (SocketChannel) SocketChannel.class.getMethod("open", ProtocolFamily.class)
                        .invoke(null, StandardProtocolFamily.valueOf("UNIX"));
                channel.connect(place);
            } catch (ReflectiveOperationException | IllegalArgumentException e) {
                throw new IOException("Unix sockets need Java 16 or later, and a valid path");
            }
            channel.configureBlocking(false);
            selector = Selector.open();
            channel.register(selector, SelectionKey.OP_READ);
            if (isClosed) {
                close();
                throw new IOException("the client was closed");
            }
        }

        @Override
        void write(byte[] bytes, long deadline) throws IOException {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            while (buffer.hasRemaining()) {
                if (channel.write(buffer) == 0) {
                    await(SelectionKey.OP_WRITE, deadline);
                }
            }
        }

        @Override
        int read(byte[] bytes, long deadline) throws IOException {
            while (true) {
                int count = channel.read(ByteBuffer.wrap(bytes));
                if (count != 0) {
                    return count;
                }
                await(SelectionKey.OP_READ, deadline);
            }
        }

        @Override
        boolean hasInput() throws IOException {
            return channel.read(ByteBuffer.allocate(1)) != 0;
        }

        private void await(int operation, long deadline) throws IOException {
            Selector found = selector;
            if (!found.isOpen()) {
                throw new InterruptedIOException("the connection is closed");
            }
            channel.keyFor(found).interestOps(operation);
            found.select(left(deadline));
            found.selectedKeys().clear();
        }

        @Override
        void close() {
            isClosed = true;
            try {
                if (channel != null) {
                    channel.close();
                }
                if (selector != null) {
                    selector.close();
                }
            } catch (IOException e) {
                // The descriptors are closed all the same.
            }
        }
    }
}
