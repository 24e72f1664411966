import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.gridfs.GridFSBucket;
import com.mongodb.client.gridfs.GridFSBuckets;
import com.mongodb.client.model.Aggregates;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Projections;
import com.mongodb.client.model.UpdateOneModel;
import com.mongodb.client.model.Updates;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.ToIntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.bson.BsonDocument;
import org.bson.BsonDocumentWriter;
import org.bson.Document;
import org.bson.codecs.EncoderContext;
import org.bson.codecs.pojo.annotations.BsonId;
import org.bson.conversions.Bson;
import org.bson.json.JsonMode;
import org.bson.json.JsonWriterSettings;
import org.bson.types.ObjectId;

/**
 * The Java program of the comparison between languages: the official synchronous driver, as its users write.
 *
 * <p>It answers the requests of PROTOCOL.md on its standard input. Row "java" has documents, row "java-typed" records.
 *
 * @param <T> what the collection that is read has: documents or records
 * @param <N> what is inserted
 */
public final class Program<T, N> {
    private static final int KEYS = 10_000;
    private static final int BASE = 20;
    private static final int THREADS = 100;
    private static final List<String> CITIES =
            List.of("Ankara", "Berlin", "Cairo", "Delhi", "Espoo", "Fukuoka", "Genoa", "Hanoi");
    private static final long EPOCH_MS = 1_767_225_600_000L; // 2026-01-01
    private static final String NOTE = "member of the analytical society since the engine was drawn up";
    private static final String FILE_NAME = "languages";
    private static final List<Bson> PIPELINE =
            List.of(Aggregates.match(Filters.lt("_id", 10)), Aggregates.project(Projections.include("name", "n")));
    private static final JsonWriterSettings CANONICAL =
            JsonWriterSettings.builder().outputMode(JsonMode.EXTENDED).build();

    /** A stored document as a record. */
    public record Member(
            @BsonId int id,
            String name,
            String email,
            String city,
            int n,
            int age,
            double score,
            boolean active,
            Date created,
            String note) {}

    /** The same before it is stored. */
    public record NewMember(
            @BsonId ObjectId id,
            String name,
            String email,
            String city,
            int n,
            int age,
            double score,
            boolean active,
            Date created,
            String note) {}

    /** Makes something of a number. */
    @FunctionalInterface
    interface Maker<M> {
        M make(int number);
    }

    private final Class<T> read;
    private final Class<N> written;
    private final ToIntFunction<T> n;
    private final Maker<N> maker;
    private String uri;
    private MongoClient client;
    private MongoClient idle;
    private MongoCollection<T> members;
    private MongoCollection<Document> scratch;
    private MongoCollection<N> newMembers;
    private GridFSBucket files;
    private GridFSBucket bucket;
    private byte[] data = {};
    private ObjectId file;
    private BsonDocument token;

    private Program(Class<T> read, Class<N> written, ToIntFunction<T> n, Maker<N> maker) {
        this.read = read;
        this.written = written;
        this.n = n;
        this.maker = maker;
    }

    private static String padded(int number) {
        String digits = Integer.toString(number);
        return "00000".substring(Math.min(5, digits.length())) + digits;
    }

    private static Document document(int number) {
        return new Document("name", "Ada Lovelace " + padded(number))
                .append("email", "ada." + padded(number) + "@example.org")
                .append("city", CITIES.get(number % 8))
                .append("n", number)
                .append("age", 18 + number % 70)
                .append("score", number + 0.5)
                .append("active", number % 2 == 0)
                .append("created", new Date(EPOCH_MS + number * 60_000L))
                .append("note", NOTE);
    }

    private static NewMember newMember(int number) {
        return new NewMember(
                new ObjectId(),
                "Ada Lovelace " + padded(number),
                "ada." + padded(number) + "@example.org",
                CITIES.get(number % 8),
                number,
                18 + number % 70,
                number + 0.5,
                number % 2 == 0,
                new Date(EPOCH_MS + number * 60_000L),
                NOTE);
    }

    private static void expect(String what, long found, long expected) {
        if (found != expected) {
            throw new IllegalStateException("expected " + what + " " + expected + ", got " + found);
        }
    }

    private static long sumBelow(long count) {
        return count * (count - 1) / 2;
    }

    private void open(String where, String name, String collection, String other) {
        uri = where;
        client = MongoClients.create(where);
        MongoDatabase database = client.getDatabase(name);
        database.runCommand(new Document("ping", 1));
        members = database.getCollection(collection, read);
        scratch = database.getCollection(other);
        newMembers = database.getCollection(other, written);
        files = GridFSBuckets.create(database, FILE_NAME);
        bucket = GridFSBuckets.create(database, other);
    }

    private static List<Document> documents(int count) {
        return IntStream.range(0, count).mapToObj(Program::document).collect(Collectors.toList());
    }

    private void clear(String verb, int count) {
        if (verb.equals("gridfs_upload")) {
            if (file != null) {
                bucket.delete(file);
                file = null;
            }
            return;
        }
        scratch.drop();
        if (verb.equals("update_one") || verb.equals("bulk_write_10")) {
            scratch.insertMany(documents(BASE).stream()
                    .map(each -> {
                        Document stored = new Document("_id", each.getInteger("n"));
                        stored.putAll(each);
                        return stored;
                    })
                    .collect(Collectors.toList()));
        }
        if (verb.equals("change_stream")) {
            try (var stream = scratch.watch().cursor()) {
                stream.tryNext();
                token = stream.getResumeToken();
            }
            scratch.insertMany(documents(count));
        }
    }

    private String answer(String verb) throws Exception {
        List<String> texts = new ArrayList<>();
        if (verb.equals("aggregate")) {
            for (Document each : scratchless().aggregate(PIPELINE)) {
                texts.add(each.toJson(CANONICAL));
            }
        } else if (verb.startsWith("find_")) {
            String limit = verb.substring("find_".length());
            List<T> found = limit.startsWith("one")
                    ? List.of(members.find(Filters.eq("_id", 77)).first())
                    : members.find().limit(Integer.parseInt(limit)).into(new ArrayList<>());
            var codec = members.getCodecRegistry().get(read);
            for (T each : found) {
                BsonDocument made = new BsonDocument();
                codec.encode(new BsonDocumentWriter(made), each, EncoderContext.builder().build());
                texts.add(made.toJson(CANONICAL));
            }
        } else {
            clear(verb, 1);
            run(verb, 1);
        }
        return "{\"answer\": [" + String.join(", ", texts) + "]}";
    }

    private MongoCollection<Document> scratchless() {
        return members.withDocumentClass(Document.class);
    }

    private void run(String verb, int count) throws Exception {
        switch (verb) {
            case "find_one" -> findOne(count);
            case "find_one_100" -> findOneAtOnce(count);
            case "find_30" -> find(count, 30);
            case "find_1000" -> find(count, 1000);
            case "iterate" -> iterate(count);
            case "insert_one" -> insertOne(count);
            case "insert_many_10" -> insertMany(count, 10);
            case "insert_many_1000" -> insertMany(count, 1000);
            case "update_one" -> updateOne(count);
            case "bulk_write_10" -> bulkWrite(count);
            case "aggregate" -> aggregate(count);
            case "change_stream" -> changes(count);
            case "gridfs_upload" -> upload(count);
            case "gridfs_download" -> download(count);
            default -> throw new IllegalArgumentException("unknown verb " + verb);
        }
    }

    private void findOne(int count) {
        for (int number = 0; number < count; number++) {
            int key = number % KEYS;
            expect("n", n.applyAsInt(members.find(Filters.eq("_id", key)).first()), key);
        }
    }

    private void findOneAtOnce(int count) throws Exception {
        ExecutorService executor = Executors.newFixedThreadPool(THREADS);
        try {
            Callable<Void> share = () -> {
                findOne(count / THREADS);
                return null;
            };
            for (Future<Void> each : executor.invokeAll(java.util.Collections.nCopies(THREADS, share))) {
                each.get();
            }
        } finally {
            executor.shutdown();
        }
    }

    private void find(int count, int limit) {
        for (int number = 0; number < count; number++) {
            long sum = 0;
            for (T each : members.find().limit(limit).into(new ArrayList<>(limit))) {
                sum += n.applyAsInt(each);
            }
            expect("sum of n", sum, sumBelow(limit));
        }
    }

    private void iterate(int count) {
        long sum = 0;
        for (T each : members.find().limit(count)) {
            sum += n.applyAsInt(each);
        }
        expect("sum of n", sum, sumBelow(count));
    }

    private void insertOne(int count) {
        for (int number = 0; number < count; number++) {
            expect("acknowledged", newMembers.insertOne(maker.make(number)).wasAcknowledged() ? 1 : 0, 1);
        }
    }

    private void insertMany(int count, int size) {
        for (int number = 0; number < count; number++) {
            List<N> batch = new ArrayList<>(size);
            for (int each = 0; each < size; each++) {
                batch.add(maker.make(each));
            }
            expect("ids", newMembers.insertMany(batch).getInsertedIds().size(), size);
        }
    }

    private void updateOne(int count) {
        for (int number = 0; number < count; number++) {
            var told = scratch.updateOne(Filters.eq("_id", number % BASE), Updates.set("age", 100 + number));
            expect("modified", told.getModifiedCount(), 1);
        }
    }

    private void bulkWrite(int count) {
        for (int number = 0; number < count; number++) {
            List<UpdateOneModel<Document>> models = new ArrayList<>(10);
            for (int key = 0; key < 10; key++) {
                models.add(new UpdateOneModel<>(Filters.eq("_id", key), Updates.set("age", 100 + number)));
            }
            expect("modified", scratch.bulkWrite(models).getModifiedCount(), 10);
        }
    }

    private void aggregate(int count) {
        MongoCollection<Document> from = scratchless();
        for (int number = 0; number < count; number++) {
            long sum = 0;
            for (Document each : from.aggregate(PIPELINE).into(new ArrayList<>())) {
                sum += each.getInteger("n");
            }
            expect("sum of n", sum, 45);
        }
    }

    private void changes(int count) {
        long sum = 0;
        try (var stream = scratch.watch().resumeAfter(token).cursor()) {
            for (int number = 0; number < count; number++) {
                sum += stream.next().getFullDocument().getInteger("n");
            }
        }
        expect("sum of n", sum, sumBelow(count));
    }

    private void upload(int count) {
        for (int number = 0; number < count; number++) {
            file = bucket.uploadFromStream(FILE_NAME, new ByteArrayInputStream(data));
        }
    }

    private void download(int count) {
        for (int number = 0; number < count; number++) {
            ByteArrayOutputStream found = new ByteArrayOutputStream(data.length);
            files.downloadToStream(FILE_NAME, found);
            expect("same bytes", Arrays.equals(found.toByteArray(), data) ? 1 : 0, 1);
        }
    }

    private void hold(int connections) {
        idle = MongoClients.create(uri + (uri.contains("?") ? "&" : "/?") + "minPoolSize=" + connections);
        idle.getDatabase("admin").runCommand(new Document("ping", 1));
    }

    private static long usedNs() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }

    private String timed(String verb, int count, double plant) throws Exception {
        long before = usedNs();
        long start = System.nanoTime();
        run(verb, count);
        if (plant > 0) {
            // An artificial slowdown, to test the lab: so much more processor time.
            long until = usedNs() + (long) ((usedNs() - before) * plant);
            while (usedNs() < until) {
                Thread.onSpinWait();
            }
        }
        return "{\"wall_ns\": " + (System.nanoTime() - start) + "}";
    }

    private String respond(String[] words) {
        try {
            switch (words[0]) {
                case "open" -> open(words[1], words[2], words[3], words[4]);
                case "answer" -> {
                    return answer(words[1]);
                }
                case "clear" -> clear(words[1], Integer.parseInt(words[2]));
                case "file" -> data = Files.readAllBytes(Path.of(words[1]));
                case "idle" -> hold(Integer.parseInt(words[1]));
                case "run" -> {
                    return timed(words[1], Integer.parseInt(words[2]), Double.parseDouble(words[3]));
                }
                default -> throw new IllegalArgumentException("unknown request");
            }
            return "{}";
        } catch (Exception error) {
            return new Document("error", error.toString()).toJson();
        }
    }

    private void serve() throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(respond(line.split(" ")));
        }
        if (client != null) {
            client.close();
        }
        if (idle != null) {
            idle.close();
        }
    }

    /**
     * Serves requests, or does what its second argument says.
     *
     * @param words the row, and perhaps "version" or "once"
     * @throws IOException if the input cannot be read
     */
    public static void main(String[] words) throws IOException {
        if (words.length == 2) {
            String jar = MongoClients.class.getProtectionDomain().getCodeSource().getLocation().getPath();
            String version = jar.replaceAll(".*mongodb-driver-sync-|\\.jar$", "");
            Map<String, Object> told =
                    Map.of("driver", "mongodb-driver-sync " + version, "runtime", "OpenJDK " + Runtime.version());
            System.out.println(new Document(told).toJson());
        } else if (words.length == 5) {
            try (MongoClient client = MongoClients.create(words[2])) {
                client.getDatabase(words[3]).getCollection(words[4]).insertOne(document(0));
            }
        } else if (words[0].equals("java-typed")) {
            new Program<>(Member.class, NewMember.class, Member::n, Program::newMember).serve();
        } else {
            new Program<>(Document.class, Document.class, each -> each.getInteger("n"), Program::document).serve();
        }
    }
}
