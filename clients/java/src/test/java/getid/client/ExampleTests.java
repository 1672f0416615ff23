package getid.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Runs each program of {@code examples}, against a server in process. Starts in the folder of the package. */
final class ExampleTests {
    private static final Path EXAMPLES = Path.of("examples");

    void testExamplesRun() throws Exception {
        try (FakeServer server = new FakeServer(); Stream<Path> files = Files.list(EXAMPLES)) {
            Thread answers = new Thread(() -> answer(server));
            answers.setDaemon(true);
            answers.start();
            for (Path file : files.sorted().collect(Collectors.toList())) {
                ProcessBuilder builder = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-ea", "-cp",
                        System.getProperty("java.class.path"), file.toString());
                builder.environment().put("GETID_URL", server.url());
                Process process = builder.redirectErrorStream(true).start();
                String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
                if (process.waitFor() != 0 || !output.startsWith("1\n")) {
                    throw new AssertionError(file + " printed " + output);
                }
            }
        }
    }

    private static void answer(FakeServer server) {
        try {
            while (true) {
                FakeServer.Request request = server.take();
                String[] words = request.text.split(" ");
                long now = System.currentTimeMillis();
                switch (words[1]) {
                    case "NEXT":
                        request.range(1, Integer.parseInt(words[4]));
                        break;
                    case "LEASE":
                        request.reply("*5\r\n:7\r\n$2\r\nto\r\n:" + now + "\r\n:" + (now + 600_000)
                                + "\r\n:600000\r\n");
                        break;
                    default:
                        request.reply("+OK\r\n");
                }
            }
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    void testReadmeHasTheFirstProgram() throws Exception {
        List<String> program = Files.readAllLines(EXAMPLES.resolve("FirstProgram.java"));
        int begin = program.indexOf("    public static void main(String[] arguments) {") + 1;
        String body = program.subList(begin, program.size() - 2).stream()
                .map(line -> line.isEmpty() ? line : line.substring(8)).collect(Collectors.joining("\n"));
        Tests.check(true, begin > 0 && Files.readString(Path.of("README.md")).contains("```java\n" + body + "\n```"));
    }
}
