import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;
import java.util.stream.Stream;

/**
 * Dump DATA…: runs Kafka's DumpLogSegments over every file of every partition of the log directories, in every mode that suits the
 * file, and prints one JSON line a file and mode: dir, file, mode, batches, records, entries, complaints. It judges nothing: what the tool
 * says that is not plain output is a complaint, and the caller decides.
 */
public final class Dump {
    /** How the lines that say what a file holds begin. */
    private static final String BATCH = "baseOffset: ", RECORD = "| offset: ";
    private static final Pattern ENTRY = Pattern.compile("offset: \\d+ position: \\d+|timestamp: -?\\d+ offset: \\d+|version: \\d+ producerId: .*|producerId: \\d+ producerEpoch: .*");
    private static final Pattern TRAILING = Pattern.compile("Found \\d+ invalid bytes at the end of .*");
    private static final Pattern UNDECODED = Pattern.compile("key: (Error at|Unknown record type|unknown::)");

    private final Method tool;
    private final Capture capture = new Capture();
    private final PrintStream out = System.out;

    private Dump() throws ReflectiveOperationException {
        Class<?> c;
        try {
            c = Class.forName("org.apache.kafka.tools.DumpLogSegments");
        } catch (ClassNotFoundException e) {
            c = Class.forName("kafka.tools.DumpLogSegments");
        }
        tool = c.getMethod("main", String[].class);
    }

    public static void main(String[] args) throws Exception {
        Dump d = new Dump();
        PrintStream captured = new PrintStream(d.capture, true, StandardCharsets.UTF_8);
        System.setOut(captured);
        System.setErr(new PrintStream(d.capture.errors, true, StandardCharsets.UTF_8));
        for (String data : args)
            for (Path dir : list(Path.of(data)))
                if (Files.isDirectory(dir) && !dir.getFileName().toString().startsWith("__cluster_metadata"))
                    for (Path file : list(dir)) d.file(dir.getFileName().toString(), file);
        d.out.flush();
    }

    private static List<Path> list(Path dir) throws IOException {
        try (Stream<Path> s = Files.list(dir)) {
            return s.sorted().toList();
        }
    }

    private void file(String dir, Path file) throws Exception {
        String name = file.getFileName().toString();
        if (!name.matches("\\d{20}\\..*")) return;
        switch (name.substring(20)) {
            case ".log" -> {
                if (dir.startsWith("__transaction_state")) run(dir, file, "--transaction-log-decoder");
                else if (dir.startsWith("__consumer_offsets")) run(dir, file, "--offsets-decoder");
                run(dir, file, "--deep-iteration", "--print-data-log");
            }
            case ".index", ".timeindex" -> {
                run(dir, file);
                run(dir, file, "--index-sanity-check");
                run(dir, file, "--verify-index-only");
            }
            case ".txnindex", ".snapshot" -> run(dir, file);
            default -> { } // not for this tool
        }
    }

    private void run(String dir, Path file, String... mode) throws Exception {
        List<String> arguments = new ArrayList<>(List.of("--files", file.toString()));
        arguments.addAll(List.of(mode));
        capture.reset();
        List<String> complaints = new ArrayList<>();
        try {
            tool.invoke(null, (Object) arguments.toArray(String[]::new));
        } catch (InvocationTargetException e) {
            complaints.add(e.getCause().toString());
        }
        System.out.flush();
        System.err.flush();
        String said = capture.toString(StandardCharsets.UTF_8);
        if (!said.startsWith("Dumping " + file)) complaints.add("the tool did not name the file: " + said.lines().findFirst().orElse(""));
        capture.errors.toString(StandardCharsets.UTF_8).lines().forEach(complaints::add);
        boolean decoded = Arrays.stream(mode).anyMatch(m -> m.endsWith("-decoder"));
        long batches = 0, records = 0, entries = 0;
        for (String line : (Iterable<String>) said.lines()::iterator) {
            if (line.startsWith(BATCH)) batches++;
            else if (line.startsWith(RECORD)) records++;
            else if (ENTRY.matcher(line).matches()) entries++;
            if (complains(line, decoded)) complaints.add(line);
        }
        out.println(Json.text(Json.of("dir", dir, "file", file.getFileName().toString(), "mode", String.join(" ", mode), "batches", batches,
            "records", records, "entries", entries, "complaints", complaints)));
    }

    /** The tool's ways to complain on its standard output; all that it writes to its standard error is a complaint too. */
    private static boolean complains(String line, boolean decoded) {
        if (line.startsWith(BATCH)) return !line.endsWith("isvalid: true");
        return TRAILING.matcher(line).matches() || decoded && UNDECODED.matcher(line).find();
    }

    /** What the tool writes. Scala keeps the first stream that it saw, so the streams stay and are emptied. */
    private static final class Capture extends ByteArrayOutputStream {
        final ByteArrayOutputStream errors = new ByteArrayOutputStream();

        @Override public synchronized void reset() {
            super.reset();
            errors.reset();
        }
    }
}
