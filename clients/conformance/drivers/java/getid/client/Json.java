package getid.client;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON of the driver's protocol: objects, arrays, strings, numbers, true, false and null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> read(String line) {
        return (Map<String, Object>) new Json(line).value();
    }

    private char peek() {
        while (Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return text.charAt(at);
    }

    private boolean skip(char expected) {
        boolean isThere = peek() == expected;
        at += isThere ? 1 : 0;
        return isThere;
    }

    private Object value() {
        switch (peek()) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return string();
            default:
                return word();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> object = new LinkedHashMap<>();
        at++;
        while (!skip('}')) {
            peek();
            String name = string();
            skip(':');
            object.put(name, value());
            skip(',');
        }
        return object;
    }

    private List<Object> array() {
        List<Object> array = new ArrayList<>();
        at++;
        while (!skip(']')) {
            array.add(value());
            skip(',');
        }
        return array;
    }

    private String string() {
        StringBuilder string = new StringBuilder();
        at++;
        while (text.charAt(at) != '"') {
            char next = text.charAt(at++);
            if (next == '\\') {
                next = text.charAt(at++);
                int escape = "nrtbf".indexOf(next);
                if (escape >= 0) {
                    next = "\n\r\t\b\f".charAt(escape);
                } else if (next == 'u') {
                    next = (char) Integer.parseInt(text.substring(at, at + 4), 16);
                    at += 4;
                }
            }
            string.append(next);
        }
        at++;
        return string.toString();
    }

    private Object word() {
        int begin = at;
        while (at < text.length() && ",]} ".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(begin, at);
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                return Double.parseDouble(word);
        }
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                write(entry.getKey(), out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            String separator = "[";
            for (Object one : (List<?>) value) {
                out.append(separator);
                write(one, out);
                separator = ",";
            }
            out.append(separator.equals("[") ? "[]" : "]");
        } else if (value instanceof String) {
            writeString((String) value, out);
        } else {
            out.append(value);
        }
    }

    private static void writeString(String text, StringBuilder out) {
        out.append('"');
        for (char next : text.toCharArray()) {
            if (next == '"' || next == '\\') {
                out.append('\\').append(next);
            } else if (next < 32 || next > 126) {
                out.append(String.format("\\u%04x", (int) next));
            } else {
                out.append(next);
            }
        }
        out.append('"');
    }
}
