package getid.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * Checks of arguments. Each one fails with an {@link IllegalArgumentException} that names the argument and its range.
 */
final class Checks {
    static final int TAKE_MAX = 1_000_000;
    static final int NAME_BYTES_MAX = 128;
    static final Duration TIMEOUT_MAX = Duration.ofDays(1);

    private Checks() {}

    static long range(String argument, long value, long low, long high) {
        if (value < low || value > high) {
            throw new IllegalArgumentException(String.format(
                    java.util.Locale.ROOT, "%s is %,d, must be %,d to %,d", argument, value, low, high));
        }
        return value;
    }

    static int count(int n) {
        return (int) range("n", n, 1, TAKE_MAX);
    }

    /** Returns {@code value} in nanoseconds. */
    static long duration(String argument, Duration value, Duration low, Duration high) {
        present(argument, value);
        if (value.compareTo(low) < 0 || value.compareTo(high) > 0) {
            throw new IllegalArgumentException(argument + " is " + value + ", must be " + low + " to " + high);
        }
        return value.toNanos();
    }

    static long timeout(Duration value) {
        return duration("timeout", value, Duration.ZERO, TIMEOUT_MAX);
    }

    static String name(String argument, String value) {
        byte[] bytes = present(argument, value).getBytes(StandardCharsets.UTF_8);
        if (bytes.length < 1 || bytes.length > NAME_BYTES_MAX) {
            throw new IllegalArgumentException(
                    argument + " has " + bytes.length + " bytes, must have 1 to " + NAME_BYTES_MAX);
        }
        if (!new String(bytes, StandardCharsets.UTF_8).equals(value)) {
            throw new IllegalArgumentException(argument + " has half of a surrogate pair, must be valid Unicode");
        }
        return value;
    }

    static <T> T present(String argument, T value) {
        if (value == null) {
            throw new IllegalArgumentException(argument + " is null, must have a value");
        }
        return value;
    }
}
