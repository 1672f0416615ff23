package getid.client;

/** Clock of this machine. Tests have one that they move. */
class Clock {
    private final long base = System.nanoTime();

    /** Returns nanoseconds since this object was made; they never go back. */
    long nanos() {
        return System.nanoTime() - base;
    }

    /** Returns Unix milliseconds. */
    long millis() {
        return System.currentTimeMillis();
    }

    /** Calls {@code moved} after each move of a clock by a test. No program moves the clock of the machine. */
    void watch(Runnable moved) {}
}
