package getid.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.nio.channels.ClosedSelectorException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;

/**
 * Connection to one server by RESP2, closed on any doubt.
 *
 * <p>A reply is read to its end or the connection is closed, so no request ever reads the reply of another one. A reply
 * is a {@code String}, {@code Long}, {@code byte[]}, null, {@code List} or {@link ServerError}. One thread at a time
 * uses a connection; {@link #close} may come from another one.
 */
final class Connection {
    static final long CONNECT_TIMEOUT = TimeUnit.SECONDS.toNanos(1);
    static final long REPLY_TIMEOUT = TimeUnit.SECONDS.toNanos(6);
    static final int LINE_BYTES_MAX = 64 * 1024;
    static final int BULK_BYTES_MAX = 1024 * 1024;
    static final int ARRAY_LENGTH_MAX = 1_000_000;
    static final int DEPTH_MAX = 4;

    /**
     * Most bytes of one reply: those of a bulk string and its surroundings. The replies that are read have under 1 KiB.
     */
    static final int REPLY_BYTES_MAX = 16 * 1024 * 1024;

    final Target.Address address;
    private final Target target;
    private final Transport transport;
    private final byte[] buffer = new byte[4096];
    private int begin;
    private int end;
    private int total;
    private volatile boolean isOpen;

    Connection(Target target, Target.Address address, SSLContext tls) {
        this.target = target;
        this.address = address;
        this.transport = Transport.of(target, address, tls);
    }

    /** Connects and logs in, within {@code timeout} nanoseconds for all of it. */
    void connect(long timeout) throws ConnectionLost {
        long deadline = System.nanoTime() + timeout;
        try {
            transport.connect(deadline);
            isOpen = true;
            if (target.login.isEmpty()) {
                return;
            }
            List<byte[]> request = new ArrayList<>(target.login);
            request.add(0, bytes("AUTH"));
            Object reply = exchange(request, deadline);
            if (reply instanceof ServerError) {
                throw new ConnectionLost(((ServerError) reply).text, true, (ServerError) reply);
            }
            if (!"OK".equals(reply)) {
                throw new IOException("unexpected reply to AUTH");
            }
        } catch (IOException | RuntimeException e) {
            close();
            throw new ConnectionLost("connect to " + address + ": " + reason(e), true);
        } catch (ConnectionLost | Error e) {
            close();
            throw e;
        }
    }

    /** Sends a request and returns its reply. After any failure the connection is closed. */
    Object request(List<byte[]> request, long timeout) throws ConnectionLost {
        try {
            return exchange(request, System.nanoTime() + timeout);
        } catch (IOException | RuntimeException e) {
            close();
            throw new ConnectionLost(address + ": " + reason(e), false);
        } catch (Error e) {
            close();
            throw e;
        }
    }

    /** Closes the connection without a message, and ends a read that another thread has under way. */
    void close() {
        isOpen = false;
        transport.close();
    }

    boolean isOpen() {
        return isOpen;
    }

    private Object exchange(List<byte[]> request, long deadline) throws IOException {
        if (!isOpen) {
            throw new IOException("the connection is closed");
        }
        if (transport.hasInput()) {
            throw new IOException("unexpected bytes before the request");
        }
        total = 0;
        transport.write(encode(request), deadline);
        Object reply = readReply(deadline, DEPTH_MAX);
        if (begin < end) {
            throw new IOException("unexpected bytes behind the reply");
        }
        return reply;
    }

    static byte[] encode(List<byte[]> request) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.writeBytes(bytes("*" + request.size() + "\r\n"));
        for (byte[] argument : request) {
            out.writeBytes(bytes("$" + argument.length + "\r\n"));
            out.writeBytes(argument);
            out.writeBytes(bytes("\r\n"));
        }
        return out.toByteArray();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private Object readReply(long deadline, int depth) throws IOException {
        String line = readLine(deadline);
        String rest = line.isEmpty() ? "" : line.substring(1);
        switch (line.isEmpty() ? ' ' : line.charAt(0)) {
            case '+':
                return rest;
            case '-':
                return new ServerError(rest);
            case ':':
                return integer(rest);
            case '$':
                int size = length("bulk string", rest, BULK_BYTES_MAX);
                return size < 0 ? null : readBulk(size, deadline);
            case '*':
                int length = length("array", rest, ARRAY_LENGTH_MAX);
                return length < 0 ? null : readArray(length, deadline, depth);
            default:
                throw new IOException("unexpected reply: begins with '" + shorten(line)
                        + "', must begin with one of + - : $ *");
        }
    }

    private List<Object> readArray(int length, long deadline, int depth) throws IOException {
        if (depth == 0) {
            throw new IOException("unexpected reply: arrays nested deeper than " + DEPTH_MAX);
        }
        List<Object> array = new ArrayList<>();
        for (int i = 0; i < length; i++) {
            array.add(readReply(deadline, depth - 1));
        }
        return array;
    }

    private String readLine(long deadline) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        while (true) {
            int next = readByte(deadline);
            if (next == '\r') {
                if (readByte(deadline) != '\n') {
                    throw new IOException("unexpected reply: a line without CRLF at its end");
                }
                return line.toString(StandardCharsets.UTF_8);
            }
            if (line.size() == LINE_BYTES_MAX) {
                throw new IOException("unexpected reply: a line has more than " + LINE_BYTES_MAX + " bytes");
            }
            line.write(next);
        }
    }

    private byte[] readBulk(int size, long deadline) throws IOException {
        byte[] bulk = new byte[size];
        for (int i = 0; i < size; i++) {
            bulk[i] = (byte) readByte(deadline);
        }
        if (readByte(deadline) != '\r' || readByte(deadline) != '\n') {
            throw new IOException("unexpected reply: a bulk string without CRLF at its end");
        }
        return bulk;
    }

    private int readByte(long deadline) throws IOException {
        if (begin == end) {
            begin = 0;
            end = 0;
            int count = transport.read(buffer, deadline);
            if (count < 0) {
                throw new IOException("the server closed the connection");
            }
            end = count;
            total += count;
            if (total > REPLY_BYTES_MAX) {
                throw new IOException("unexpected reply: it has more than " + REPLY_BYTES_MAX + " bytes");
            }
        }
        return begin < end ? buffer[begin++] : readByte(deadline);
    }

    private static long integer(String text) throws IOException {
        if (!text.matches("-?[0-9]{1,19}")) {
            throw new IOException("unexpected reply: '" + shorten(text) + "' is no integer of 64 bits");
        }
        return Long.parseLong(text);
    }

    private static int length(String what, String text, int high) throws IOException {
        long length = integer(text);
        if (length < -1 || length > high) {
            throw new IOException(
                    "unexpected reply: length of the " + what + " is " + length + ", must be at most " + high);
        }
        return (int) length;
    }

    static String shorten(String text) {
        return text.length() <= 100 ? text : text.substring(0, 100);
    }

    private static String reason(Exception e) {
        if (e instanceof SocketTimeoutException) {
            return "no reply within the time-out";
        }
        if (e instanceof ClosedSelectorException) {
            return "the connection is closed";
        }
        return e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
    }
}
