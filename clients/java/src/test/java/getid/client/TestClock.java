package getid.client;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Clock of this machine, or one that stands still, plus distances that a test adds. */
final class TestClock extends Clock {
    private final List<Runnable> watchers = new ArrayList<>();
    private volatile long wallMs;
    private volatile long monoMs;
    private boolean isStopped;

    /** Returns a clock that only {@link #shift} moves. */
    static TestClock stopped() {
        TestClock clock = new TestClock();
        clock.isStopped = true;
        clock.wallMs = 1_700_000_000_000L;
        return clock;
    }

    @Override
    long nanos() {
        return (isStopped ? 0 : super.nanos()) + TimeUnit.MILLISECONDS.toNanos(monoMs);
    }

    @Override
    long millis() {
        return (isStopped ? 0 : super.millis()) + wallMs;
    }

    @Override
    void watch(Runnable moved) {
        watchers.add(moved);
    }

    void shift(long wall, long mono) {
        wallMs += wall;
        monoMs += mono;
        watchers.forEach(Runnable::run);
    }
}
