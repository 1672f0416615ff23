// IDs made in this process, with a worker id that getid leases (docs/worker-ids.md).
//
//     javac -d classes $(find clients/java/src/main/java -name '*.java')
//     java -cp classes examples/worker-ids/JavaWorker.java

import getid.client.GetidClient;
import getid.client.Layout;
import java.util.TreeSet;

class JavaWorker {
    // One pool serves one layout, so the programs of a team share these two.
    static final String POOL = "orders";
    static final Layout LAYOUT = Layout.TWITTER;

    public static void main(String[] words) {
        var ids = new TreeSet<Long>();
        boolean ascends = true;
        // The address is GETID_URL, by default getid://127.0.0.1:7890.
        try (var client = GetidClient.connect()) {
            var worker = client.worker(POOL, LAYOUT);
            for (int count = 0; count < 1000; count++) {
                long made = worker.next();
                ascends &= ids.isEmpty() || made > ids.last();
                ids.add(made);
            }
        }
        System.out.println(ids.first());
        int id = LAYOUT.workerOf(ids.first());
        System.out.println("worker id " + id + ": " + ids.size() + " different IDs, ascending: " + ascends);
    }
}
