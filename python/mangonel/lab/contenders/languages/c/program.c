/* The C program of the comparison between languages: libmongoc, written as its users write.
 *
 * It answers the requests of PROTOCOL.md on its standard input. Row "c" reads every field of each document in place
 * and builds nothing; row "c-typed" copies each document into a struct. One client serves one thread, as the driver's
 * guide advises for programs of one; a pool serves the hundred threads. One file, as long as it is: it is read as a whole
 * by those who check that C was not slowed down.
 */
#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { KEYS = 10000, BASE = 20, THREADS = 100, LINE = 4096, NAMED = 64 };

static const char *const CITIES[] = {"Ankara", "Berlin", "Cairo", "Delhi", "Espoo", "Fukuoka", "Genoa", "Hanoi"};
static const int64_t EPOCH_MS = 1767225600000; /* 2026-01-01 */
static const char NOTE[] = "member of the analytical society since the engine was drawn up";

/* A document as an object, for the typed row. */
typedef struct {
   int32_t id, n, age;
   double score;
   bool active;
   int64_t created;
   char *name, *email, *city, *note;
} member_t;

static bool is_typed;
static char *uri_text, *database_name, *members_name, *scratch_name;
static mongoc_client_t *client;
static mongoc_database_t *database;
static mongoc_collection_t *members, *scratch;
static mongoc_gridfs_bucket_t *files, *bucket;
static mongoc_client_pool_t *pool, *idle_pool;
static bson_t *token;
static bson_value_t stored; /* id of the file that was uploaded last */
static bool is_stored;
static char *data;
static size_t data_length;
static volatile uint64_t sink; /* what was read, so that no compiler leaves the reading out */

static void
fail (const char *what, const char *why)
{
   printf ("{\"error\": \"%s: ", what);
   for (; *why; why++) {
      putchar (*why == '"' || *why == '\\' || (unsigned char) *why < ' ' ? '\'' : *why);
   }
   printf ("\"}\n");
   fflush (stdout);
   exit (1);
}

static void
expect (const char *what, int64_t found, int64_t expected)
{
   if (found != expected) {
      char text[128];
      snprintf (text, sizeof text, "expected %lld, got %lld", (long long) expected, (long long) found);
      fail (what, text);
   }
}

static void
check (bool is_done, const bson_error_t *error, const char *what)
{
   if (!is_done) {
      fail (what, error->message);
   }
}

static void
append_member (bson_t *document, int32_t number)
{
   char text[NAMED];
   snprintf (text, sizeof text, "Ada Lovelace %05d", number);
   BSON_APPEND_UTF8 (document, "name", text);
   snprintf (text, sizeof text, "ada.%05d@example.org", number);
   BSON_APPEND_UTF8 (document, "email", text);
   BSON_APPEND_UTF8 (document, "city", CITIES[number % 8]);
   BSON_APPEND_INT32 (document, "n", number);
   BSON_APPEND_INT32 (document, "age", 18 + number % 70);
   BSON_APPEND_DOUBLE (document, "score", number + 0.5);
   BSON_APPEND_BOOL (document, "active", number % 2 == 0);
   BSON_APPEND_DATE_TIME (document, "created", EPOCH_MS + (int64_t) number * 60000);
   BSON_APPEND_UTF8 (document, "note", NOTE);
}

static char *
copied (const bson_iter_t *at)
{
   uint32_t length;
   const char *text = bson_iter_utf8 (at, &length);
   char *copy = malloc (length + 1);
   memcpy (copy, text, length + 1);
   return copy;
}

static void
fill_member (const bson_t *document, member_t *found)
{
   bson_iter_t at;
   memset (found, 0, sizeof *found);
   bson_iter_init (&at, document);
   // No document has a field twice, so no copy is overwritten.
   // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
   while (bson_iter_next (&at)) {
      const char *key = bson_iter_key (&at);
      if (strcmp (key, "_id") == 0) {
         found->id = bson_iter_int32 (&at);
      } else if (strcmp (key, "name") == 0) {
         found->name = copied (&at);
      } else if (strcmp (key, "email") == 0) {
         found->email = copied (&at);
      } else if (strcmp (key, "city") == 0) {
         found->city = copied (&at);
      } else if (strcmp (key, "n") == 0) {
         found->n = bson_iter_int32 (&at);
      } else if (strcmp (key, "age") == 0) {
         found->age = bson_iter_int32 (&at);
      } else if (strcmp (key, "score") == 0) {
         found->score = bson_iter_double (&at);
      } else if (strcmp (key, "active") == 0) {
         found->active = bson_iter_bool (&at);
      } else if (strcmp (key, "created") == 0) {
         found->created = bson_iter_date_time (&at);
      } else if (strcmp (key, "note") == 0) {
         found->note = copied (&at);
      }
   }
}

static void
free_member (member_t *found)
{
   free (found->name);
   free (found->email);
   free (found->city);
   free (found->note);
}

/* Read each field of a document in place and return its "n". */
static int32_t
walk (const bson_t *document)
{
   bson_iter_t at;
   int32_t n = -1;
   uint64_t read = 0;
   uint32_t length = 0;
   bson_iter_init (&at, document);
   while (bson_iter_next (&at)) {
      switch (bson_iter_type (&at)) {
      case BSON_TYPE_INT32:
         if (strcmp (bson_iter_key (&at), "n") == 0) {
            n = bson_iter_int32 (&at);
         }
         read += (uint64_t) bson_iter_int32 (&at);
         break;
      case BSON_TYPE_UTF8:
         bson_iter_utf8 (&at, &length);
         read += length;
         break;
      case BSON_TYPE_DOUBLE:
         read += (uint64_t) bson_iter_double (&at);
         break;
      case BSON_TYPE_BOOL:
         read += bson_iter_bool (&at);
         break;
      case BSON_TYPE_DATE_TIME:
         read += (uint64_t) bson_iter_date_time (&at);
         break;
      default:
         break;
      }
   }
   sink += read;
   return n;
}

/* Read a cursor to its end, and return how many documents it had and the sum of their "n". */
static int64_t
drain (mongoc_cursor_t *cursor, size_t most, int64_t *count)
{
   const bson_t *document;
   bson_error_t error;
   int64_t sum = 0;
   member_t *list = is_typed && most ? malloc (most * sizeof *list) : NULL;
   *count = 0;
   while (mongoc_cursor_next (cursor, &document)) {
      if (list) {
         fill_member (document, &list[*count]);
      } else if (is_typed) {
         member_t one;
         fill_member (document, &one);
         sum += one.n;
         free_member (&one);
      } else {
         sum += walk (document);
      }
      ++*count;
   }
   if (mongoc_cursor_error (cursor, &error)) {
      fail ("cursor", error.message);
   }
   if (list) {
      for (int64_t each = 0; each < *count; each++) {
         sum += list[each].n;
         free_member (&list[each]);
      }
      free (list);
   }
   mongoc_cursor_destroy (cursor);
   return sum;
}

static void
find_ones (mongoc_collection_t *from, long count)
{
   bson_t options = BSON_INITIALIZER;
   BSON_APPEND_INT64 (&options, "limit", 1);
   BSON_APPEND_BOOL (&options, "singleBatch", true);
   for (long number = 0; number < count; number++) {
      bson_t filter = BSON_INITIALIZER;
      int64_t found;
      BSON_APPEND_INT32 (&filter, "_id", (int32_t) (number % KEYS));
      int64_t n = drain (mongoc_collection_find_with_opts (from, &filter, &options, NULL), 0, &found);
      expect ("n", n, number % KEYS);
      expect ("documents", found, 1);
      bson_destroy (&filter);
   }
   bson_destroy (&options);
}

static void
find_one (long count)
{
   find_ones (members, count);
}

static void *
play (void *share)
{
   mongoc_client_t *mine = mongoc_client_pool_pop (pool);
   mongoc_collection_t *from = mongoc_client_get_collection (mine, database_name, members_name);
   find_ones (from, *(long *) share);
   mongoc_collection_destroy (from);
   mongoc_client_pool_push (pool, mine);
   return NULL;
}

static mongoc_client_pool_t *
new_pool (void)
{
   mongoc_uri_t *uri = mongoc_uri_new (uri_text);
   mongoc_client_pool_t *made = mongoc_client_pool_new (uri);
   mongoc_client_pool_set_error_api (made, MONGOC_ERROR_API_VERSION_2);
   mongoc_uri_destroy (uri);
   return made;
}

static void
find_one_100 (long count)
{
   pthread_t threads[THREADS];
   long share = count / THREADS;
   for (int each = 0; each < THREADS; each++) {
      pthread_create (&threads[each], NULL, play, &share);
   }
   for (int each = 0; each < THREADS; each++) {
      pthread_join (threads[each], NULL);
   }
}

static void
find_limited (long count, int64_t limit)
{
   bson_t options = BSON_INITIALIZER;
   bson_t filter = BSON_INITIALIZER;
   BSON_APPEND_INT64 (&options, "limit", limit);
   for (long number = 0; number < count; number++) {
      int64_t found;
      int64_t sum =
         drain (mongoc_collection_find_with_opts (members, &filter, &options, NULL), (size_t) limit, &found);
      expect ("sum of n", sum, limit * (limit - 1) / 2);
   }
   bson_destroy (&options);
   bson_destroy (&filter);
}

static void
find_30 (long count)
{
   find_limited (count, 30);
}

static void
find_1000 (long count)
{
   find_limited (count, 1000);
}

static void
iterate (long count)
{
   bson_t options = BSON_INITIALIZER;
   bson_t filter = BSON_INITIALIZER;
   int64_t found;
   BSON_APPEND_INT64 (&options, "limit", count);
   int64_t sum = drain (mongoc_collection_find_with_opts (members, &filter, &options, NULL), 0, &found);
   expect ("sum of n", sum, (int64_t) count * (count - 1) / 2);
   bson_destroy (&options);
   bson_destroy (&filter);
}

static int64_t
told (const bson_t *reply, const char *name)
{
   bson_iter_t at;
   return bson_iter_init_find (&at, reply, name) ? bson_iter_as_int64 (&at) : -1;
}

static void
insert_one (long count)
{
   for (long number = 0; number < count; number++) {
      bson_t document = BSON_INITIALIZER;
      bson_t reply;
      bson_error_t error;
      append_member (&document, (int32_t) number);
      check (mongoc_collection_insert_one (scratch, &document, NULL, &reply, &error), &error, "insert_one");
      expect ("inserted", told (&reply, "insertedCount"), 1);
      bson_destroy (&reply);
      bson_destroy (&document);
   }
}

static void
insert_many (long count, int32_t size)
{
   bson_t **documents = malloc ((size_t) size * sizeof *documents);
   for (long number = 0; number < count; number++) {
      bson_t reply;
      bson_error_t error;
      for (int32_t each = 0; each < size; each++) {
         documents[each] = bson_new ();
         append_member (documents[each], each);
      }
      check (
         mongoc_collection_insert_many (scratch, (const bson_t **) documents, (size_t) size, NULL, &reply, &error),
         &error,
         "insert_many");
      expect ("inserted", told (&reply, "insertedCount"), size);
      bson_destroy (&reply);
      for (int32_t each = 0; each < size; each++) {
         bson_destroy (documents[each]);
      }
   }
   free (documents);
}

static void
insert_many_10 (long count)
{
   insert_many (count, 10);
}

static void
insert_many_1000 (long count)
{
   insert_many (count, 1000);
}

static void
append_change (bson_t *change, int32_t age)
{
   bson_t fields;
   BSON_APPEND_DOCUMENT_BEGIN (change, "$set", &fields);
   BSON_APPEND_INT32 (&fields, "age", age);
   bson_append_document_end (change, &fields);
}

static void
update_one (long count)
{
   for (long number = 0; number < count; number++) {
      bson_t filter = BSON_INITIALIZER;
      bson_t change = BSON_INITIALIZER;
      bson_t reply;
      bson_error_t error;
      BSON_APPEND_INT32 (&filter, "_id", (int32_t) (number % BASE));
      append_change (&change, (int32_t) (100 + number));
      check (mongoc_collection_update_one (scratch, &filter, &change, NULL, &reply, &error), &error, "update_one");
      expect ("modified", told (&reply, "modifiedCount"), 1);
      bson_destroy (&reply);
      bson_destroy (&change);
      bson_destroy (&filter);
   }
}

static void
bulk_write_10 (long count)
{
   for (long number = 0; number < count; number++) {
      mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts (scratch, NULL);
      bson_t reply;
      bson_error_t error;
      for (int32_t key = 0; key < 10; key++) {
         bson_t filter = BSON_INITIALIZER;
         bson_t change = BSON_INITIALIZER;
         BSON_APPEND_INT32 (&filter, "_id", key);
         append_change (&change, (int32_t) (100 + number));
         check (
            mongoc_bulk_operation_update_one_with_opts (bulk, &filter, &change, NULL, &error), &error, "bulk_write");
         bson_destroy (&change);
         bson_destroy (&filter);
      }
      check (mongoc_bulk_operation_execute (bulk, &reply, &error) != 0, &error, "bulk_write");
      expect ("modified", told (&reply, "nModified"), 10);
      bson_destroy (&reply);
      mongoc_bulk_operation_destroy (bulk);
   }
}

static mongoc_cursor_t *
aggregated (void)
{
   bson_error_t error;
   static const char PIPELINE[] =
      "{\"pipeline\": [{\"$match\": {\"_id\": {\"$lt\": 10}}}, {\"$project\": {\"name\": 1, \"n\": 1}}]}";
   static bson_t *pipeline;
   if (!pipeline) {
      pipeline = bson_new_from_json ((const uint8_t *) PIPELINE, -1, &error);
   }
   return mongoc_collection_aggregate (members, MONGOC_QUERY_NONE, pipeline, NULL, NULL);
}

static void
aggregate (long count)
{
   for (long number = 0; number < count; number++) {
      int64_t found;
      expect ("sum of n", drain (aggregated (), 10, &found), 45);
   }
}

static void
change_stream (long count)
{
   bson_t options = BSON_INITIALIZER;
   bson_t pipeline = BSON_INITIALIZER;
   const bson_t *change;
   int64_t sum = 0;
   BSON_APPEND_DOCUMENT (&options, "resumeAfter", token);
   mongoc_change_stream_t *stream = mongoc_collection_watch (scratch, &pipeline, &options);
   for (long number = 0; number < count;) {
      if (mongoc_change_stream_next (stream, &change)) {
         bson_iter_t at;
         bson_iter_t n;
         bson_iter_init (&at, change);
         if (bson_iter_find_descendant (&at, "fullDocument.n", &n)) {
            sum += bson_iter_int32 (&n);
         }
         number++;
      } else {
         const bson_t *reply;
         bson_error_t error;
         if (mongoc_change_stream_error_document (stream, &error, &reply)) {
            fail ("change_stream", error.message);
         }
      }
   }
   expect ("sum of n", sum, (int64_t) count * (count - 1) / 2);
   mongoc_change_stream_destroy (stream);
   bson_destroy (&pipeline);
   bson_destroy (&options);
}

static void
gridfs_upload (long count)
{
   for (long number = 0; number < count; number++) {
      bson_error_t error;
      mongoc_stream_t *stream =
         mongoc_gridfs_bucket_open_upload_stream (bucket, "languages", NULL, &stored, &error);
      check (stream != NULL, &error, "gridfs_upload");
      expect ("bytes", mongoc_stream_write (stream, data, data_length, 0), (int64_t) data_length);
      expect ("closed", mongoc_stream_close (stream), 0);
      mongoc_stream_destroy (stream);
      is_stored = true;
   }
}

static void
gridfs_download (long count)
{
   for (long number = 0; number < count; number++) {
      bson_t filter = BSON_INITIALIZER;
      bson_t *options = BCON_NEW ("limit", BCON_INT64 (1), "sort", "{", "uploadDate", BCON_INT32 (-1), "}");
      const bson_t *found;
      bson_error_t error;
      bson_iter_t at;
      BSON_APPEND_UTF8 (&filter, "filename", "languages");
      mongoc_cursor_t *cursor = mongoc_gridfs_bucket_find (files, &filter, options);
      if (!mongoc_cursor_next (cursor, &found) || !bson_iter_init_find (&at, found, "_id")) {
         fail ("gridfs_download", "no such file");
      }
      mongoc_stream_t *stream = mongoc_gridfs_bucket_open_download_stream (files, bson_iter_value (&at), &error);
      check (stream != NULL, &error, "gridfs_download");
      char *read = malloc (data_length);
      size_t length = 0;
      while (length < data_length) {
         ssize_t more = mongoc_stream_read (stream, read + length, data_length - length, 1, 0);
         if (more <= 0) {
            fail ("gridfs_download", "the stream ended early");
         }
         length += (size_t) more;
      }
      expect ("same bytes", memcmp (read, data, data_length), 0);
      free (read);
      mongoc_stream_destroy (stream);
      mongoc_cursor_destroy (cursor);
      bson_destroy (options);
      bson_destroy (&filter);
   }
}

typedef struct {
   const char *name;
   void (*run) (long count);
} verb_t;

static const verb_t VERBS[] = {
   {"find_one", find_one},
   {"find_one_100", find_one_100},
   {"find_30", find_30},
   {"find_1000", find_1000},
   {"iterate", iterate},
   {"insert_one", insert_one},
   {"insert_many_10", insert_many_10},
   {"insert_many_1000", insert_many_1000},
   {"update_one", update_one},
   {"bulk_write_10", bulk_write_10},
   {"aggregate", aggregate},
   {"change_stream", change_stream},
   {"gridfs_upload", gridfs_upload},
   {"gridfs_download", gridfs_download},
};

static void
run_verb (const char *name, long count)
{
   for (size_t each = 0; each < sizeof VERBS / sizeof *VERBS; each++) {
      if (strcmp (VERBS[each].name, name) == 0) {
         VERBS[each].run (count);
         return;
      }
   }
   fail (name, "unknown verb");
}

static void
clear (const char *verb, int32_t count)
{
   bson_error_t error;
   if (strcmp (verb, "gridfs_upload") == 0) {
      if (is_stored) {
         check (mongoc_gridfs_bucket_delete_by_id (bucket, &stored, &error), &error, "clear");
         bson_value_destroy (&stored);
         is_stored = false;
      }
      return;
   }
   mongoc_collection_drop (scratch, &error); /* it may not exist */
   if (strcmp (verb, "update_one") == 0 || strcmp (verb, "bulk_write_10") == 0) {
      for (int32_t number = 0; number < BASE; number++) {
         bson_t document = BSON_INITIALIZER;
         BSON_APPEND_INT32 (&document, "_id", number);
         append_member (&document, number);
         check (mongoc_collection_insert_one (scratch, &document, NULL, NULL, &error), &error, "clear");
         bson_destroy (&document);
      }
   } else if (strcmp (verb, "change_stream") == 0) {
      bson_t pipeline = BSON_INITIALIZER;
      const bson_t *change;
      bson_t *options = BCON_NEW ("maxAwaitTimeMS", BCON_INT32 (1));
      mongoc_change_stream_t *stream = mongoc_collection_watch (scratch, &pipeline, options);
      mongoc_change_stream_next (stream, &change);
      bson_destroy (token);
      token = bson_copy (mongoc_change_stream_get_resume_token (stream));
      mongoc_change_stream_destroy (stream);
      bson_destroy (options);
      insert_many (1, count);
   }
}

static void
print_documents (mongoc_cursor_t *cursor)
{
   const bson_t *document;
   const char *comma = "";
   printf ("{\"answer\": [");
   while (mongoc_cursor_next (cursor, &document)) {
      char *text = bson_as_canonical_extended_json (document, NULL);
      printf ("%s%s", comma, text);
      bson_free (text);
      comma = ", ";
   }
   printf ("]}\n");
   mongoc_cursor_destroy (cursor);
}

static void
answer (const char *verb)
{
   bson_t filter = BSON_INITIALIZER;
   bson_t options = BSON_INITIALIZER;
   int64_t limit = 1;
   if (strcmp (verb, "aggregate") == 0) {
      print_documents (aggregated ());
   } else if (strncmp (verb, "find_", strlen ("find_")) == 0) {
      if (strncmp (verb, "find_one", strlen ("find_one")) == 0) {
         BSON_APPEND_INT32 (&filter, "_id", 77);
      } else {
         limit = strtol (verb + strlen ("find_"), NULL, 10);
      }
      BSON_APPEND_INT64 (&options, "limit", limit);
      print_documents (mongoc_collection_find_with_opts (members, &filter, &options, NULL));
   } else {
      clear (verb, 1);
      run_verb (verb, 1);
      printf ("{\"answer\": []}\n");
   }
   bson_destroy (&options);
   bson_destroy (&filter);
}

static void
open_client (void)
{
   bson_error_t error;
   mongoc_uri_t *uri = mongoc_uri_new_with_error (uri_text, &error);
   check (uri != NULL, &error, "open");
   client = mongoc_client_new_from_uri (uri);
   mongoc_client_set_error_api (client, MONGOC_ERROR_API_VERSION_2);
   database = mongoc_client_get_database (client, database_name);
   scratch = mongoc_client_get_collection (client, database_name, scratch_name);
   mongoc_uri_destroy (uri);
}

static mongoc_gridfs_bucket_t *
new_bucket (const char *name)
{
   bson_error_t error;
   bson_t *options = BCON_NEW ("bucketName", BCON_UTF8 (name));
   mongoc_gridfs_bucket_t *made = mongoc_gridfs_bucket_new (database, options, NULL, &error);
   check (made != NULL, &error, "open");
   bson_destroy (options);
   return made;
}

static void
read_file (const char *path)
{
   FILE *file = fopen (path, "rb");
   if (!file) {
      fail ("file", "cannot be opened");
   }
   fseek (file, 0, SEEK_END);
   data_length = (size_t) ftell (file);
   rewind (file);
   free (data);
   data = malloc (data_length);
   expect ("bytes of the file", (int64_t) fread (data, 1, data_length, file), (int64_t) data_length);
   fclose (file);
}

/* Open so many connections: a pool of this driver opens one for each client that was popped and used. */
static void
hold (int connections)
{
   mongoc_client_t **held = malloc ((size_t) connections * sizeof (mongoc_client_t *));
   bson_t *ping = BCON_NEW ("ping", BCON_INT32 (1));
   idle_pool = new_pool ();
   for (int each = 0; each < connections; each++) {
      bson_error_t error;
      held[each] = mongoc_client_pool_pop (idle_pool);
      check (mongoc_client_command_simple (held[each], "admin", ping, NULL, NULL, &error), &error, "idle");
   }
   for (int each = 0; each < connections; each++) {
      mongoc_client_pool_push (idle_pool, held[each]);
   }
   bson_destroy (ping);
   free ((void *) held);
}

static int64_t
us (struct timeval at)
{
   return (int64_t) at.tv_sec * 1000000 + at.tv_usec;
}

static int64_t
used_us (int64_t *user, int64_t *system)
{
   struct rusage found;
   getrusage (RUSAGE_SELF, &found);
   *user = us (found.ru_utime);
   *system = us (found.ru_stime);
   return *user + *system;
}

static int64_t
now_ns (void)
{
   struct timespec now;
   clock_gettime (CLOCK_MONOTONIC, &now);
   return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
run (const char *verb, long count, double plant)
{
   int64_t user, system, user_after, system_after;
   int64_t before = used_us (&user, &system);
   int64_t start = now_ns ();
   run_verb (verb, count);
   int64_t after = used_us (&user_after, &system_after);
   /* An artificial slowdown, to test the lab: so much more processor time. */
   int64_t until = after + (int64_t) ((double) (after - before) * plant);
   while (plant > 0 && after < until) {
      after = used_us (&user_after, &system_after);
   }
   printf ("{\"wall_ns\": %lld, \"user_us\": %lld, \"system_us\": %lld}\n",
           (long long) (now_ns () - start),
           (long long) (user_after - user),
           (long long) (system_after - system));
}

static char *
word (void)
{
   char *found = strtok (NULL, " \n");
   if (!found) {
      fail ("request", "a word is missing");
   }
   return found;
}

static void
serve (void)
{
   static char line[LINE];
   while (fgets (line, sizeof line, stdin)) {
      const char *request = strtok (line, " \n");
      if (!request) {
         continue;
      }
      if (strcmp (request, "open") == 0) {
         uri_text = strdup (word ());
         database_name = strdup (word ());
         members_name = strdup (word ());
         scratch_name = strdup (word ());
         open_client ();
         members = mongoc_client_get_collection (client, database_name, members_name);
         files = new_bucket ("languages");
         bucket = new_bucket (scratch_name);
         pool = new_pool ();
         printf ("{}\n");
      } else if (strcmp (request, "answer") == 0) {
         answer (word ());
      } else if (strcmp (request, "clear") == 0) {
         const char *verb = word ();
         clear (verb, (int32_t) strtol (word (), NULL, 10));
         printf ("{}\n");
      } else if (strcmp (request, "file") == 0) {
         read_file (word ());
         printf ("{}\n");
      } else if (strcmp (request, "idle") == 0) {
         hold ((int) strtol (word (), NULL, 10));
         printf ("{}\n");
      } else if (strcmp (request, "run") == 0) {
         const char *verb = word ();
         long count = strtol (word (), NULL, 10);
         run (verb, count, strtod (word (), NULL));
      } else {
         fail (request, "unknown request");
      }
      fflush (stdout);
   }
}

int
main (int argc, char **argv)
{
   if (argc < 2) {
      return 2;
   }
   is_typed = strcmp (argv[1], "c-typed") == 0;
   if (argc == 3) {
      printf ("{\"driver\": \"libmongoc %s\", \"runtime\": \"gcc %s\"}\n", mongoc_get_version (), __VERSION__);
      return 0;
   }
   mongoc_init ();
   if (argc == 6) { /* once URI DATABASE SCRATCH: connect, insert one document and exit */
      uri_text = argv[3];
      database_name = argv[4];
      scratch_name = argv[5];
      open_client ();
      insert_one (1);
   } else {
      serve ();
      mongoc_gridfs_bucket_destroy (bucket);
      mongoc_gridfs_bucket_destroy (files);
      mongoc_collection_destroy (members);
      mongoc_client_pool_destroy (pool);
   }
   mongoc_collection_destroy (scratch);
   mongoc_database_destroy (database);
   mongoc_client_destroy (client);
   mongoc_cleanup ();
   return 0;
}
