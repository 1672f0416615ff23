package getid.client;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** All that a URL has: addresses in the order of use, the login, and whether TLS is used. */
final class Target {
    static final int PORT = 7890;
    static final int URL_CHARS_MAX = 16_384;
    static final int HOSTS_MAX = 64;
    private static final Pattern HOST =
            Pattern.compile("(\\[(?<address>[^\\[\\]]+)\\]|(?<name>[^:\\[\\]]+))(:(?<port>[0-9]{1,5})?)?");

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

    // The text is not shown: without an '@' a password would be taken for a port.
    private static Address readHost(String text, int number) {
        Matcher found = HOST.matcher(text);
        int port = !found.matches() ? 0 : found.group("port") == null ? PORT : Integer.parseInt(found.group("port"));
        if (text.isEmpty() || text.startsWith(":")) {
            throw wrong("an empty host %d, must be as in 'getid://127.0.0.1:%d'", number, PORT);
        }
        if (port < 1 || port > 65_535) {
            throw wrong("a host %d that is not a name, or has a port that is not 1 to 65,535, must be as in "
                    + "'127.0.0.1:%d' or '[::1]:%d'", number, PORT, PORT);
        }
        return new Address(found.group("address") != null ? found.group("address") : found.group("name"), port);
    }

    private static byte[] decode(String part, String text) {
        try {
            // A '+' is a '+' here, unlike in a form. ISO 8859-1 has a character for each byte.
            String bytes = new String(text.replace("+", "%2B").getBytes(StandardCharsets.UTF_8), ISO_8859_1);
            return URLDecoder.decode(bytes, ISO_8859_1).getBytes(ISO_8859_1);
        } catch (IllegalArgumentException e) {
            throw wrong("a '%%' without two hex digits in its %s: write '%%25' for '%%'", part);
        }
    }

    private static IllegalArgumentException wrong(String text, Object... values) {
        return new IllegalArgumentException("url has " + String.format(java.util.Locale.ROOT, text, values));
    }
}
