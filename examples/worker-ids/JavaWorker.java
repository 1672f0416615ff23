// IDs with a worker id that getid leases (docs/worker-ids.md), over HTTP, with nothing but the JDK:
//
//     java JavaWorker.java

import java.net.InetAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.TreeSet;
import java.util.regex.Pattern;

/** Leases a worker id, renews it, and makes IDs: 41 bits of milliseconds, 10 of the worker id, 12 of a counter. */
class JavaWorker implements AutoCloseable {
    static final String URL = System.getenv().getOrDefault("GETID_URL", "http://127.0.0.1:7880");
    static final long EPOCH = 1420070400000L;

    final HttpClient http = HttpClient.newHttpClient();
    final String leases, name;
    volatile boolean over;
    long id, notBefore, notAfter, last, newest;
    String token;

    JavaWorker(String pool) throws Exception {
        leases = URL + "/v1/workers/" + pool + "/leases";
        name = InetAddress.getLocalHost().getHostName() + "-" + ProcessHandle.current().pid();
        lease();
        var keeper = new Thread(this::keep);
        keeper.setDaemon(true);
        keeper.start();
    }

    void lease() throws Exception {
        String granted = ask("", "{\"name\":\"" + name + "\"}");
        synchronized (this) {
            id = number(granted, "id");
            token = granted.replaceAll(".*\"token\":\"([0-9a-f]+)\".*", "$1");
            notBefore = number(granted, "not_before");
            notAfter = number(granted, "not_after");
            last = notBefore - 1;
        }
    }

    String shown() {
        return "{\"token\":\"" + token + "\",\"last\":" + last + "}";
    }

    void keep() {
        while (!over) {
            try {
                Thread.sleep(Math.max(100, (notAfter - System.currentTimeMillis()) / 3));
                long renewed = number(ask("/" + id + "/renew", shown()), "not_after");
                synchronized (this) { notAfter = renewed; }
            } catch (IllegalStateException refused) {
                // The lease lasts to its end. Then there are no IDs until there is another one.
                if (System.currentTimeMillis() >= notAfter && !over) try { lease(); } catch (Exception away) { }
            } catch (Exception away) { }
        }
    }

    /** An ID. Outside of the lease, and while the clock is behind the newest ID, there are none. */
    synchronized long next() throws InterruptedException {
        for (int tries = 0; tries < 100; tries++, wait(1)) {
            long now = System.currentTimeMillis();
            long first = (now - EPOCH) << 22 | id << 12;
            long made = newest >= first && newest < first + 4095 ? newest + 1 : first;
            if (notBefore <= now && now < notAfter && made > newest) {
                last = now;
                return newest = made;
            }
        }
        throw new IllegalStateException("no lease of worker id " + id + " holds at this time");
    }

    @Override
    public void close() throws Exception {
        over = true;
        synchronized (this) { notAfter = 0; }
        ask("/" + id + "/release", shown());
    }

    String ask(String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(leases + path)).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        var answer = http.send(request, BodyHandlers.ofString());
        if (answer.statusCode() == 409) throw new IllegalStateException(answer.body());
        if (answer.statusCode() >= 300) throw new java.io.IOException(answer.body());
        return answer.body();
    }

    static long number(String json, String field) {
        var found = Pattern.compile("\"" + field + "\":(\\d+)").matcher(json);
        if (!found.find()) throw new IllegalArgumentException(json);
        return Long.parseLong(found.group(1));
    }

    public static void main(String[] words) throws Exception {
        var ids = new TreeSet<Long>();
        boolean ascends = true;
        var worker = new JavaWorker("orders");
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
