package getid.client;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Server in process: hands each request to the test, which sends the reply. */
final class FakeServer implements AutoCloseable {
    /** A request, and the connection to reply on. */
    static final class Request {
        final String text;
        private final Socket socket;

        Request(String text, Socket socket) {
            this.text = text;
            this.socket = socket;
        }

        void reply(String reply) throws IOException {
            socket.getOutputStream().write(reply.getBytes(StandardCharsets.UTF_8));
        }

        void range(long first, long last) throws IOException {
            reply("*3\r\n:" + first + "\r\n:" + last + "\r\n:1\r\n");
        }

        void hangUp() throws IOException {
            socket.close();
        }
    }

    private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();

    FakeServer() throws IOException {
        start(() -> {
            while (true) {
                Socket socket = server.accept();
                start(() -> serve(socket));
            }
        });
    }

    private interface Body {
        void run() throws IOException;
    }

    private static void start(Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (IOException e) {
                // The connection or the server was closed.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void serve(Socket socket) throws IOException {
        InputStream in = new BufferedInputStream(socket.getInputStream());
        while (true) {
            int count = Integer.parseInt(line(in).substring(1));
            List<String> words = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                line(in);
                words.add(line(in));
            }
            requests.add(new Request(String.join(" ", words), socket));
        }
    }

    private static String line(InputStream in) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int next = in.read(); next != '\n'; next = in.read()) {
            if (next < 0) {
                throw new IOException("end of stream");
            }
            if (next != '\r') {
                line.append((char) next);
            }
        }
        return line.toString();
    }

    String url() {
        return "getid://127.0.0.1:" + server.getLocalPort();
    }

    Request take() throws InterruptedException {
        Request request = requests.poll(60, TimeUnit.SECONDS);
        if (request == null) {
            throw new AssertionError("no request came");
        }
        return request;
    }

    @Override
    public void close() throws IOException {
        server.close();
    }
}
