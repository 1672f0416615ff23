package getid.client;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Clock of this machine plus distances that a test adds. */
final class TestClock extends Clock {
    private final List<Runnable> watchers = new ArrayList<>();
    private volatile long wallMs;
    private volatile long monoMs;

    @Override
    long nanos() {
        return super.nanos() + TimeUnit.MILLISECONDS.toNanos(monoMs);
    }

    @Override
    long millis() {
        return super.millis() + wallMs;
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
