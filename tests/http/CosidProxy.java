import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Makes the calls of CosId's cosid-proxy by Java's own HTTP client, and reads the answers as that does. */
public class CosidProxy {
    static final Pattern STATE = Pattern.compile("\\{\"machineId\":(\\d+),\"lastTimeStamp\":(\\d+)\\}");
    static final Pattern CODE = Pattern.compile("\"code\":\"([^\"]*)\"");

    final HttpClient http = HttpClient.newHttpClient();
    final String host;

    CosidProxy(String host) {
        this.host = host;
    }

    /** Sends a request with an empty body, as Spring's HTTP interfaces do for parameters alone. */
    HttpResponse<String> send(String method, String path, String... query) throws IOException, InterruptedException {
        StringBuilder uri = new StringBuilder(host + path);
        for (int at = 0; at < query.length; at += 2) {
            String value = URLEncoder.encode(query[at + 1], StandardCharsets.UTF_8).replace("+", "%20");
            uri.append(at == 0 ? '?' : '&').append(query[at]).append('=').append(value);
        }
        HttpRequest.BodyPublisher empty = HttpRequest.BodyPublishers.noBody();
        HttpRequest request = HttpRequest.newBuilder(URI.create(uri.toString())).method(method, empty).build();
        return http.send(request, HttpResponse.BodyHandlers.ofString());
    }

    /** Returns the body of a success, and fails with the code of CosId's ErrorResponse. */
    static String body(HttpResponse<String> response) {
        if (response.statusCode() == 200) {
            return response.body();
        }
        Matcher code = CODE.matcher(response.body());
        throw new IllegalStateException(response.statusCode() + " " + (code.find() ? code.group(1) : response.body()));
    }

    void createDistributor(String namespace, String name, long offset, long step) throws Exception {
        String path = "/segments/distributor/" + namespace + "/" + name;
        body(send("POST", path, "offset", Long.toString(offset), "step", Long.toString(step)));
    }

    long nextMaxId(String namespace, String name, long step) throws Exception {
        return Long.parseLong(body(send("PATCH", "/segments/" + namespace + "/" + name, "step", Long.toString(step))));
    }

    int distribute(String namespace, int machineBit, String instance, boolean stable, Duration guard) throws Exception {
        String text = body(send("POST", "/machines/" + namespace, "machineBit", Integer.toString(machineBit),
            "instanceId", instance, "stable", Boolean.toString(stable), "safeGuardDuration", guard.toString()));
        Matcher state = STATE.matcher(text);
        if (!state.matches() || Math.abs(Long.parseLong(state.group(2)) - System.currentTimeMillis()) > 3_600_000) {
            throw new IllegalStateException("no machine state of now: " + text);
        }
        return Integer.parseInt(state.group(1));
    }

    void guard(String namespace, String instance, boolean stable, Duration guard) throws Exception {
        body(send("PATCH", "/machines/" + namespace, "instanceId", instance, "stable", Boolean.toString(stable),
            "safeGuardDuration", guard.toString()));
    }

    void revert(String namespace, String instance, boolean stable) throws Exception {
        body(send("DELETE", "/machines/" + namespace, "instanceId", instance, "stable", Boolean.toString(stable)));
    }

    interface Call {
        void run() throws Exception;
    }

    static String failure(Call call) throws Exception {
        try {
            call.run();
        } catch (IllegalStateException refused) {
            return refused.getMessage();
        }
        return "no failure";
    }

    /** Takes segments in four threads, whose IDs are all different. */
    void segments() throws Exception {
        createDistributor("shop", "order", 1000, 10);
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Future<List<Long>>> taken = new ArrayList<>();
        for (int thread = 0; thread < 4; thread++) {
            taken.add(threads.submit(() -> {
                List<Long> ids = new ArrayList<>();
                for (int segment = 1; segment <= 25; segment++) {
                    // A chain takes several segments at once.
                    long step = 10L * (segment % 3 + 1);
                    long maxId = nextMaxId("shop", "order", step);
                    for (long id = maxId - step + 1; id <= maxId; id++) {
                        ids.add(id);
                    }
                }
                return ids;
            }));
        }
        Set<Long> all = new HashSet<>();
        long count = 0;
        for (Future<List<Long>> ids : taken) {
            count += ids.get().size();
            all.addAll(ids.get());
        }
        threads.shutdown();
        System.out.println("segments: " + count + " ids, " + all.size() + " different, above 1000: "
            + all.stream().allMatch(id -> id > 1000));
        System.out.println("never created: " + failure(() -> nextMaxId("shop", "nothing", 10)));
    }

    void machines() throws Exception {
        Duration guard = Duration.ofMinutes(5);
        Duration forever = Duration.ofMillis(Long.MAX_VALUE);
        int first = distribute("shop", 10, "10.0.0.1:8080", false, guard);
        int second = distribute("shop", 10, "10.0.0.2:8080", false, guard);
        int again = distribute("shop", 10, "10.0.0.1:8080", false, guard);
        System.out.println("machines differ: " + (first != second) + ", one instance keeps its own: " + (first == again));
        guard("shop", "10.0.0.1:8080", false, guard);
        revert("shop", "10.0.0.1:8080", false);
        System.out.println("guard after revert: " + failure(() -> guard("shop", "10.0.0.1:8080", false, guard)));
        System.out.println("revert after revert: " + failure(() -> revert("shop", "10.0.0.1:8080", false)));
        int stable = distribute("shop", 10, "stateful set/0", true, forever);
        revert("shop", "stateful set/0", true);
        boolean isSame = stable == distribute("shop", 10, "stateful set/0", true, forever);
        System.out.println("a stable instance keeps its own: " + isSame);
        distribute("small", 1, "a", false, guard);
        distribute("small", 1, "b", false, guard);
        System.out.println("all taken: " + failure(() -> distribute("small", 1, "c", false, guard)));
        System.out.println("no such namespace: " + failure(() -> guard("nothing", "a", false, guard)));
    }

    public static void main(String[] arguments) throws Exception {
        CosidProxy proxy = new CosidProxy(arguments[0]);
        proxy.segments();
        proxy.machines();
    }
}
