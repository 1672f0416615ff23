// A driver for examples/worker-ids/JavaWorker.java, which tests/docs/worker_ids.rs controls by lines. The docstring of
// worker_race.py describes the lines.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;

class WorkerRace {
    static JavaWorker worker;
    static volatile boolean closing, closed;
    static boolean closeReported;
    static long late, newest;
    static String refusal = "none";

    static void draw() throws InterruptedException {
        boolean wasClosing = closing, wasClosed = closed;
        try {
            long made = worker.next();
            synchronized (WorkerRace.class) {
                newest = Math.max(newest, (made >> 22) + JavaWorker.EPOCH);
                if (wasClosed) late++;
            }
        } catch (IllegalStateException error) {
            Thread.sleep(1);
            synchronized (WorkerRace.class) {
                refusal = error.getMessage();
                if (wasClosing && !closeReported) {
                    closeReported = true;
                    System.out.println("refused");
                }
            }
        }
    }

    static void close() throws Exception {
        closing = true;
        worker.close();
        closed = true;
        System.out.println("closed");
    }

    static void daemon(Callable<Void> task) {
        var thread = new Thread(new FutureTask<Void>(task) {
            @Override
            protected void setException(Throwable error) {
                error.printStackTrace();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] words) throws Exception {
        // The time-out is long enough for replies that a test holds.
        worker = new JavaWorker("orders", "race", Duration.ofSeconds(3), Duration.ofMinutes(10));
        System.out.println("leased " + worker.id);
        daemon(() -> { while (true) draw(); });
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            if (line.equals("close")) {
                daemon(() -> { close(); return null; });
            } else {
                for (int count = 0; count < 3; count++) draw();
                synchronized (WorkerRace.class) {
                    System.out.println("probed " + late + " " + newest + " " + refusal);
                }
            }
        }
    }
}
