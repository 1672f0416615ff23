package getid.client;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** All that a URL has: addresses in the order of use, the login, and whether TLS is used. */
final class Target {
    static final int PORT = 7890;
    static final int URL_CHARS_MAX = 16_384;
    static final int HOSTS_MAX = 64;

    /** One server: a host and a port, or the path of a Unix socket with port 0. */
    static final class Address {
        final String host;
        final int port;

        Address(String host, int port) {
            this.host = host;
            this.port = port;
        }

        boolean isSocket() {
            return port == 0;
        }

        @Override
        public String toString() {
            return isSocket() ? host : (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
        }
    }

    final List<Address> addresses = new ArrayList<>();
    final List<byte[]> login = new ArrayList<>();
    final boolean isTls;

    /** Reads {@code url}; without one {@code GETID_URL}, else the local server. */
    static Target read(String url, String environment) {
        boolean isSet = environment != null && !environment.isEmpty();
        return new Target(url != null ? url : isSet ? environment : "getid://127.0.0.1:" + PORT);
    }

    Target(String url) {
        if (url.length() > URL_CHARS_MAX) {
            throw wrong("%,d characters, must have at most %,d", url.length(), URL_CHARS_MAX);
        }
        int end = url.indexOf("://");
        String scheme = end < 0 ? "" : url.substring(0, end);
        if (!List.of("getid", "getids", "getid+unix").contains(scheme)) {
            // The text may hold a password, so only a scheme is shown.
            throw wrong("the scheme '%s', must be 'getid', 'getids' or 'getid+unix'", scheme);
        }
        isTls = scheme.equals("getids");
        String[] parts = url.substring(end + 3).split("\\?", 2);
        boolean isGiven = parts.length > 1 && isOrderGiven(parts[1]);
        int at = parts[0].lastIndexOf('@');
        if (at >= 0) {
            readLogin(parts[0].substring(0, at));
        }
        String rest = parts[0].substring(at + 1);
        if (scheme.equals("getid+unix")) {
            readPath(rest);
            return;
        }
        readHosts(rest.endsWith("/") ? rest.substring(0, rest.length() - 1) : rest);
        if (!isGiven) {
            Collections.shuffle(addresses, new SecureRandom());
        }
    }

    private static boolean isOrderGiven(String query) {
        boolean isGiven = false;
        for (String option : query.split("&")) {
            if (option.equals("order=given")) {
                isGiven = true;
            } else if (!option.isEmpty()) {
                // A '?' in a password that is not percent-encoded leads here, so only a plain word is shown.
                String name = option.split("=", 2)[0];
                boolean isPlain = name.matches("[A-Za-z]+") && !query.contains("@");
                throw wrong("the unknown option %s, must be 'order=given': write '%%3F' for '?' in a login",
                        isPlain ? "'" + name + "'" : "(not shown)");
            }
        }
        return isGiven;
    }

    private void readLogin(String text) {
        int colon = text.indexOf(':');
        if (colon < 0) {
            throw wrong("a user without a password, must be 'getid://user:password@host' or without '@'");
        }
        if (colon > 0) {
            login.add(decode("user", text.substring(0, colon)));
        }
        login.add(decode("password", text.substring(colon + 1)));
    }

    private void readPath(String path) {
        if (!path.startsWith("/")) {
            throw wrong("a path that is not absolute, must be as in 'getid+unix:///run/getid.sock'");
        }
        addresses.add(new Address(new String(decode("path", path), StandardCharsets.UTF_8), 0));
    }

    private void readHosts(String text) {
        String[] hosts = text.split(",", -1);
        if (hosts.length > HOSTS_MAX) {
            throw wrong("%d hosts, must have at most %d", hosts.length, HOSTS_MAX);
        }
        for (int i = 0; i < hosts.length; i++) {
            addresses.add(readHost(hosts[i], i + 1));
        }
    }

    // The texts are not shown: without an '@' a password would be taken for a port.
    private static Address readHost(String text, int number) {
        boolean isBracketed = text.startsWith("[");
        int end = isBracketed ? text.indexOf(']') + 1 : Math.max(text.indexOf(':'), -1);
        if (end < 0) {
            end = text.length();
        }
        String host = isBracketed && end > 0 ? text.substring(1, end - 1) : text.substring(0, end);
        String port = text.substring(end);
        if (isBracketed && end == 0) {
            throw wrong("no IPv6 address as host %d, must be as in '[::1]:%d'", number, PORT);
        }
        if (host.isEmpty()) {
            throw wrong("an empty host %d, must be as in 'getid://127.0.0.1:%d'", number, PORT);
        }
        if (port.isEmpty() || port.equals(":")) {
            return new Address(host, PORT);
        }
        if (!port.matches(":[0-9]{1,5}") || Integer.parseInt(port.substring(1)) - 1 >>> 16 != 0
                || Integer.parseInt(port.substring(1)) > 65_535) {
            throw wrong("a host %d with a port that is not 1 to 65,535, must be as in '127.0.0.1:%d' or '[::1]:%d'",
                    number, PORT, PORT);
        }
        return new Address(host, Integer.parseInt(port.substring(1)));
    }

    private static byte[] decode(String part, String text) {
        ByteArrayOutputStream decoded = new ByteArrayOutputStream();
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < bytes.length; i++) {
            if (bytes[i] != '%') {
                decoded.write(bytes[i]);
                continue;
            }
            int high = i + 2 < bytes.length ? Character.digit(bytes[i + 1], 16) : -1;
            int low = high < 0 ? -1 : Character.digit(bytes[i + 2], 16);
            if (low < 0) {
                throw wrong("a '%%' without two hex digits in its %s: write '%%25' for '%%'", part);
            }
            decoded.write(high << 4 | low);
            i += 2;
        }
        return decoded.toByteArray();
    }

    private static IllegalArgumentException wrong(String text, Object... values) {
        return new IllegalArgumentException("url has " + String.format(java.util.Locale.ROOT, text, values));
    }
}
