// IDs with a worker id that getid leases (docs/worker-ids.md), over HTTP, with nothing but the JDK:
//
//     java JavaWorker.java

import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.TreeSet;
import java.util.regex.Pattern;

/** Leases a worker id, renews it, and makes IDs: 41 bits of milliseconds, 10 of the worker id, 12 of a counter. */
class JavaWorker implements AutoCloseable {
    static final String URL = System.getenv().getOrDefault("GETID_URL", "http://127.0.0.1:7880");
    static final long EPOCH = 1420070400000L;

    final HttpClient http;
    final String leases, pool, name;
    final long leaseMs;
    final Duration timeout;
    final Thread keeper = new Thread(this::keep);
    // Guarded by the monitor, which is never held during a request.
    boolean closed;
    long id, notBefore, notAfter, last, newest, aheadMs;
    String token, trouble;

    /** `lease` is the lease of the pool. No request takes longer than `timeout`: close() waits for a renewal. */
    JavaWorker(String pool, String name, Duration lease, Duration timeout) throws Exception {
        http = HttpClient.newBuilder().connectTimeout(timeout).build();
        leases = URL + "/v1/workers/" + pool + "/leases";
        this.pool = pool;
        this.name = name;
        leaseMs = lease.toMillis();
        this.timeout = timeout;
        lease();
        keeper.setDaemon(true);
        keeper.start();
    }

    void lease() throws IOException, InterruptedException {
        long askedAt = System.currentTimeMillis();
        String granted = ask("", "{\"name\":\"" + name + "\"}");
        synchronized (this) { // If closed meanwhile, close() gives the id back unused.
            id = number(granted, "id");
            token = granted.replaceAll(".*\"token\":\"([0-9a-f]+)\".*", "$1");
            notBefore = number(granted, "not_before");
            notAfter = number(granted, "not_after");
            last = notBefore - 1;
            aheadMs = askedAt - notAfter;
            trouble = null;
        }
    }

    void renew() throws IOException, InterruptedException {
        long askedAt = System.currentTimeMillis();
        long renewed = number(ask("/" + id + "/renew", shown()), "not_after");
        synchronized (this) {
            if (closed) return;
            notAfter = renewed;
            // Positive: the clock was past the new end before the server set it, so the clock is wrong.
            aheadMs = askedAt - renewed;
            trouble = null;
        }
    }

    synchronized String shown() {
        return "{\"token\":\"" + token + "\",\"last\":" + last + "}";
    }

    /** Waits for a third of the remaining lease, within bounds that do not depend on the clock, which may be wrong. */
    synchronized boolean pause() throws InterruptedException {
        long left = (notAfter - System.currentTimeMillis()) / 3;
        long end = System.nanoTime() + 1_000_000 * Math.min(Math.max(left, 1000), Math.max(leaseMs / 3, 1000));
        for (long ns; !closed && (ns = end - System.nanoTime()) > 0; ) wait(ns / 1_000_000 + 1);
        return !closed;
    }

    synchronized boolean isOver(IOException error) {
        trouble = error.getMessage();
        return error instanceof Refused && System.currentTimeMillis() >= notAfter && !closed;
    }

    void keep() {
        try {
            while (pause()) {
                try {
                    renew();
                } catch (IOException error) {
                    // The lease lasts to its end. After it there are no IDs until the next lease.
                    if (isOver(error)) try { lease(); } catch (IOException none) { isOver(none); }
                }
            }
        } catch (InterruptedException stopped) {
            // The lease ends without a request.
        }
    }

    /** Returns an ID. Fails outside the lease, and while the clock is behind the newest ID. */
    synchronized long next() throws InterruptedException {
        for (int tries = 0; tries < 100 && !closed; tries++, wait(1)) {
            long now = System.currentTimeMillis();
            long first = (now - EPOCH) << 22 | id << 12;
            long made = newest >= first && newest < first + 4095 ? newest + 1 : first;
            if (notBefore <= now && now < notAfter && made > newest) {
                last = now;
                return newest = made;
            }
        }
        throw new IllegalStateException("no ID of worker id " + id + " of pool " + pool + ": " + whyNone());
    }

    String whyNone() {
        long now = System.currentTimeMillis(), first = Math.max(notBefore, last);
        if (closed) return "this worker is closed";
        if (now >= notAfter && aheadMs >= 0)
            return "this machine's clock is at least " + aheadMs / 1000.0 + " s ahead of the server's, past the end of a "
                + "lease that was just given. Set the clock (timedatectl set-ntp true), or give the pool a lease that "
                + "is longer than the difference";
        if (now >= notAfter) return "the lease is over and not renewed, last error: " + trouble;
        if (now < first)
            return "this machine's clock is " + (first - now) / 1000.0 + " s behind the first time that an ID may have. "
                + "Set the clock (timedatectl set-ntp true), or wait";
        return "the counter was full in 100 tries; try again";
    }

    /** Stops giving IDs, waits for a running renewal, and gives the worker id back. */
    @Override
    public void close() throws Exception {
        synchronized (this) {
            closed = true; // From here on `last` does not change.
            notifyAll();
        }
        keeper.join();
        ask("/" + id + "/release", shown());
    }

    String ask(String path, String body) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(leases + path)).header("Content-Type", "application/json")
            .timeout(timeout).POST(HttpRequest.BodyPublishers.ofString(body)).build();
        var answer = http.send(request, BodyHandlers.ofString());
        if (answer.statusCode() == 409) throw new Refused(answer.body());
        if (answer.statusCode() >= 300) throw new IOException(answer.body());
        return answer.body();
    }

    /** A refusal: EXPIRED, REVOKED or WRONGTOKEN of a renewal, EXHAUSTED of a lease. */
    static class Refused extends IOException {
        Refused(String problem) { super(problem); }
    }

    static long number(String json, String field) throws IOException {
        var found = Pattern.compile("\"" + field + "\":(\\d+)").matcher(json);
        if (!found.find()) throw new IOException("the reply has no " + field + ": " + json);
        return Long.parseLong(found.group(1));
    }

    public static void main(String[] words) throws Exception {
        var ids = new TreeSet<Long>();
        boolean ascends = true;
        String name = InetAddress.getLocalHost().getHostName() + "-" + ProcessHandle.current().pid();
        var worker = new JavaWorker("orders", name, Duration.ofSeconds(30), Duration.ofSeconds(5));
        try (worker) {
            for (int count = 0; count < 1000; count++) {
                long made = worker.next();
                ascends &= ids.isEmpty() || made > ids.last();
                ids.add(made);
            }
        }
        System.out.println("worker id " + worker.id + ": " + ids.size() + " different IDs, ascending: " + ascends);
    }
}
