// The Go program of the comparison between languages: the official driver, as its users write.
//
// It answers the requests of PROTOCOL.md on its standard input. Row "go" has bson.D, row "go-typed" structs.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	keys       = 10_000
	base       = 20
	goroutines = 100
	note       = "member of the analytical society since the engine was drawn up"
	fileName   = "languages"
)

var (
	cities     = [8]string{"Ankara", "Berlin", "Cairo", "Delhi", "Espoo", "Fukuoka", "Genoa", "Hanoi"}
	epoch      = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	background = context.Background()
)

// member is a stored document as a struct.
type member struct {
	ID      int32     `bson:"_id" json:"_id"`
	Name    string    `bson:"name" json:"name"`
	Email   string    `bson:"email" json:"email"`
	City    string    `bson:"city" json:"city"`
	N       int32     `bson:"n" json:"n"`
	Age     int32     `bson:"age" json:"age"`
	Score   float64   `bson:"score" json:"score"`
	Active  bool      `bson:"active" json:"active"`
	Created time.Time `bson:"created" json:"created"`
	Note    string    `bson:"note" json:"note"`
}

// newMember is one that has no id yet: the driver makes it.
type newMember struct {
	ID      bson.ObjectID `bson:"_id,omitempty"`
	Name    string        `bson:"name"`
	Email   string        `bson:"email"`
	City    string        `bson:"city"`
	N       int32         `bson:"n"`
	Age     int32         `bson:"age"`
	Score   float64       `bson:"score"`
	Active  bool          `bson:"active"`
	Created time.Time     `bson:"created"`
	Note    string        `bson:"note"`
}

func name(number int32) string  { return fmt.Sprintf("Ada Lovelace %05d", number) }
func email(number int32) string { return fmt.Sprintf("ada.%05d@example.org", number) }
func created(number int32) time.Time {
	return epoch.Add(time.Duration(number) * time.Minute)
}

func document(number int32) bson.D {
	return bson.D{
		{Key: "name", Value: name(number)},
		{Key: "email", Value: email(number)},
		{Key: "city", Value: cities[number%8]},
		{Key: "n", Value: number},
		{Key: "age", Value: 18 + number%70},
		{Key: "score", Value: float64(number) + 0.5},
		{Key: "active", Value: number%2 == 0},
		{Key: "created", Value: created(number)},
		{Key: "note", Value: note},
	}
}

func structure(number int32) newMember {
	return newMember{
		Name: name(number), Email: email(number), City: cities[number%8], N: number, Age: 18 + number%70,
		Score: float64(number) + 0.5, Active: number%2 == 0, Created: created(number), Note: note,
	}
}

// counted is what the program reads of a document to check it.
type counted interface{ bson.D | member }

func nOf[T counted](found *T) int64 {
	switch one := any(found).(type) {
	case *member:
		return int64(one.N)
	case *bson.D:
		for _, each := range *one {
			if each.Key == "n" {
				if n, ok := each.Value.(int32); ok {
					return int64(n)
				}
			}
		}
	}
	return -1
}

func expect[V comparable](what string, found, expected V) error {
	if found == expected {
		return nil
	}
	return fmt.Errorf("expected %s %v, got %v", what, expected, found)
}

type work[T counted] struct {
	uri            string
	client, idle   *mongo.Client
	members        *mongo.Collection
	scratch        *mongo.Collection
	files, bucket  *mongo.GridFSBucket
	data           []byte
	file           any
	token          bson.Raw
	isTyped        bool
	verbs          map[string]func(int64) error
	makeOne        func(int32) any
	changePipeline mongo.Pipeline
}

func (w *work[T]) open(words []string) error {
	if len(words) != 4 {
		return errors.New("expected a URI and three names")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(words[0]))
	if err != nil {
		return err
	}
	if err := client.Ping(background, nil); err != nil {
		return err
	}
	database := client.Database(words[1])
	w.uri, w.client = words[0], client
	w.members, w.scratch = database.Collection(words[2]), database.Collection(words[3])
	w.files = database.GridFSBucket(options.GridFSBucket().SetName(fileName))
	w.bucket = database.GridFSBucket(options.GridFSBucket().SetName(words[3]))
	w.makeOne = func(number int32) any { return document(number) }
	if w.isTyped {
		w.makeOne = func(number int32) any { return structure(number) }
	}
	w.changePipeline = mongo.Pipeline{}
	w.verbs = map[string]func(int64) error{
		"find_one":         w.findOne,
		"find_one_100":     w.findOneAtOnce,
		"find_30":          func(count int64) error { return w.find(count, 30) },
		"find_1000":        func(count int64) error { return w.find(count, 1000) },
		"iterate":          w.iterate,
		"insert_one":       w.insertOne,
		"insert_many_10":   func(count int64) error { return w.insertMany(count, 10) },
		"insert_many_1000": func(count int64) error { return w.insertMany(count, 1000) },
		"update_one":       w.updateOne,
		"bulk_write_10":    w.bulkWrite,
		"aggregate":        w.aggregate,
		"change_stream":    w.changes,
		"gridfs_upload":    w.upload,
		"gridfs_download":  w.download,
	}
	return nil
}

func (w *work[T]) run(verb string, count int64) error {
	call, ok := w.verbs[verb]
	if !ok {
		return fmt.Errorf("unknown verb %s", verb)
	}
	return call(count)
}

func (w *work[T]) clear(verb string, count int32) error {
	if verb == "gridfs_upload" {
		if w.file == nil {
			return nil
		}
		err := w.bucket.Delete(background, w.file)
		w.file = nil
		return err
	}
	if err := w.scratch.Drop(background); err != nil {
		return err
	}
	switch verb {
	case "update_one", "bulk_write_10":
		documents := make([]bson.D, base)
		for number := range documents {
			documents[number] = append(bson.D{{Key: "_id", Value: int32(number)}}, document(int32(number))...)
		}
		_, err := w.scratch.InsertMany(background, documents)
		return err
	case "change_stream":
		stream, err := w.scratch.Watch(background, w.changePipeline)
		if err != nil {
			return err
		}
		w.token = stream.ResumeToken()
		if err := stream.Close(background); err != nil {
			return err
		}
		documents := make([]bson.D, count)
		for number := range documents {
			documents[number] = document(int32(number))
		}
		_, err = w.scratch.InsertMany(background, documents)
		return err
	}
	return nil
}

func (w *work[T]) answer(verb string) (string, error) {
	var texts []string
	add := func(value any) error {
		text, err := bson.MarshalExtJSON(value, true, false)
		texts = append(texts, string(text))
		return err
	}
	switch limit, isFind := strings.CutPrefix(verb, "find_"); {
	case verb == "aggregate":
		found, err := w.aggregated()
		if err != nil {
			return "", err
		}
		for _, each := range found {
			if err := add(each); err != nil {
				return "", err
			}
		}
	case isFind && strings.HasPrefix(limit, "one"):
		var found T
		if err := w.members.FindOne(background, bson.D{{Key: "_id", Value: 77}}).Decode(&found); err != nil {
			return "", err
		}
		if err := add(found); err != nil {
			return "", err
		}
	case isFind:
		most, err := strconv.ParseInt(limit, 10, 64)
		if err != nil {
			return "", err
		}
		found, err := w.found(most)
		if err != nil {
			return "", err
		}
		for _, each := range found {
			if err := add(each); err != nil {
				return "", err
			}
		}
	default:
		if err := w.clear(verb, 1); err != nil {
			return "", err
		}
		if err := w.run(verb, 1); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(texts, ", ") + "]", nil
}

func (w *work[T]) findOne(count int64) error {
	for number := range count {
		key := number % keys
		var found T
		if err := w.members.FindOne(background, bson.D{{Key: "_id", Value: key}}).Decode(&found); err != nil {
			return err
		}
		if err := expect("n", nOf(&found), key); err != nil {
			return err
		}
	}
	return nil
}

func (w *work[T]) findOneAtOnce(count int64) error {
	var group sync.WaitGroup
	failures := make([]error, goroutines)
	for each := range goroutines {
		group.Go(func() { failures[each] = w.findOne(count / goroutines) })
	}
	group.Wait()
	return errors.Join(failures...)
}

func (w *work[T]) found(limit int64) ([]T, error) {
	cursor, err := w.members.Find(background, bson.D{}, options.Find().SetLimit(limit))
	if err != nil {
		return nil, err
	}
	var found []T
	err = cursor.All(background, &found)
	return found, err
}

func (w *work[T]) find(count, limit int64) error {
	for range count {
		found, err := w.found(limit)
		if err != nil {
			return err
		}
		var sum int64
		for each := range found {
			sum += nOf(&found[each])
		}
		if err := expect("sum of n", sum, limit*(limit-1)/2); err != nil {
			return err
		}
	}
	return nil
}

func (w *work[T]) iterate(count int64) error {
	cursor, err := w.members.Find(background, bson.D{}, options.Find().SetLimit(count))
	if err != nil {
		return err
	}
	var sum int64
	for cursor.Next(background) {
		var found T
		if err := cursor.Decode(&found); err != nil {
			return err
		}
		sum += nOf(&found)
	}
	if err := cursor.Err(); err != nil {
		return err
	}
	return expect("sum of n", sum, count*(count-1)/2)
}

func (w *work[T]) insertOne(count int64) error {
	for number := range count {
		told, err := w.scratch.InsertOne(background, w.makeOne(int32(number)))
		if err != nil {
			return err
		}
		if err := expect("acknowledged", told.Acknowledged, true); err != nil {
			return err
		}
	}
	return nil
}

func (w *work[T]) insertMany(count, size int64) error {
	for range count {
		documents := make([]any, size)
		for number := range documents {
			documents[number] = w.makeOne(int32(number))
		}
		told, err := w.scratch.InsertMany(background, documents)
		if err != nil {
			return err
		}
		if err := expect("ids", int64(len(told.InsertedIDs)), size); err != nil {
			return err
		}
	}
	return nil
}

func setAge(number int64) bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: "age", Value: 100 + number}}}}
}

func (w *work[T]) updateOne(count int64) error {
	for number := range count {
		told, err := w.scratch.UpdateOne(background, bson.D{{Key: "_id", Value: number % base}}, setAge(number))
		if err != nil {
			return err
		}
		if err := expect("modified", told.ModifiedCount, 1); err != nil {
			return err
		}
	}
	return nil
}

func (w *work[T]) bulkWrite(count int64) error {
	for number := range count {
		models := make([]mongo.WriteModel, 10)
		for key := range models {
			models[key] = mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: key}}).SetUpdate(setAge(number))
		}
		told, err := w.scratch.BulkWrite(background, models)
		if err != nil {
			return err
		}
		if err := expect("modified", told.ModifiedCount, 10); err != nil {
			return err
		}
	}
	return nil
}

func (w *work[T]) aggregated() ([]bson.D, error) {
	cursor, err := w.members.Aggregate(background, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$lt", Value: 10}}}}}},
		{{Key: "$project", Value: bson.D{{Key: "name", Value: 1}, {Key: "n", Value: 1}}}},
	})
	if err != nil {
		return nil, err
	}
	var found []bson.D
	err = cursor.All(background, &found)
	return found, err
}

func (w *work[T]) aggregate(count int64) error {
	for range count {
		found, err := w.aggregated()
		if err != nil {
			return err
		}
		var sum int64
		for each := range found {
			sum += nOf(&found[each])
		}
		if err := expect("sum of n", sum, 45); err != nil {
			return err
		}
	}
	return nil
}

func (w *work[T]) changes(count int64) error {
	stream, err := w.scratch.Watch(background, w.changePipeline, options.ChangeStream().SetResumeAfter(w.token))
	if err != nil {
		return err
	}
	var sum int64
	for range count {
		if !stream.Next(background) {
			return stream.Err()
		}
		var event struct {
			FullDocument bson.D `bson:"fullDocument"`
		}
		if err := stream.Decode(&event); err != nil {
			return err
		}
		sum += nOf(&event.FullDocument)
	}
	if err := expect("sum of n", sum, count*(count-1)/2); err != nil {
		return err
	}
	return stream.Close(background)
}

func (w *work[T]) upload(count int64) error {
	for range count {
		id, err := w.bucket.UploadFromStream(background, fileName, bytes.NewReader(w.data))
		if err != nil {
			return err
		}
		w.file = id
	}
	return nil
}

func (w *work[T]) download(count int64) error {
	for range count {
		stream, err := w.files.OpenDownloadStreamByName(background, fileName)
		if err != nil {
			return err
		}
		found := make([]byte, stream.GetFile().Length)
		if _, err := io.ReadFull(stream, found); err != nil {
			return err
		}
		if err := expect("same bytes", bytes.Equal(found, w.data), true); err != nil {
			return err
		}
		if err := stream.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (w *work[T]) hold(connections uint64) error {
	wanted := options.Client().ApplyURI(w.uri).SetMinPoolSize(connections)
	client, err := mongo.Connect(wanted)
	if err != nil {
		return err
	}
	w.idle = client
	return client.Ping(background, nil)
}

// usedUs returns the user and the system time of this process in µs.
func usedUs() (int64, int64, error) {
	var found syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &found); err != nil {
		return 0, 0, err
	}
	return found.Utime.Sec*1_000_000 + found.Utime.Usec, found.Stime.Sec*1_000_000 + found.Stime.Usec, nil
}

func (w *work[T]) timed(words []string) (map[string]any, error) {
	if len(words) != 3 {
		return nil, errors.New("expected a verb, a count and a share")
	}
	count, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return nil, err
	}
	plant, err := strconv.ParseFloat(words[2], 64)
	if err != nil {
		return nil, err
	}
	user, system, err := usedUs()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := w.run(words[0], count); err != nil {
		return nil, err
	}
	userAfter, systemAfter, err := usedUs()
	// An artificial slowdown, to test the lab: so much more processor time.
	until := userAfter + systemAfter + int64(float64(userAfter+systemAfter-user-system)*plant)
	for plant > 0 && err == nil && userAfter+systemAfter < until {
		userAfter, systemAfter, err = usedUs()
	}
	return map[string]any{
		"wall_ns": time.Since(start).Nanoseconds(), "user_us": userAfter - user, "system_us": systemAfter - system,
	}, err
}

func (w *work[T]) respond(words []string) (any, error) {
	nothing := map[string]any{}
	switch {
	case words[0] == "open":
		return nothing, w.open(words[1:])
	case w.client == nil:
		return nil, errors.New("not open")
	case words[0] == "answer" && len(words) == 2:
		text, err := w.answer(words[1])
		return map[string]any{"answer": json.RawMessage(text)}, err
	case words[0] == "clear" && len(words) == 3:
		count, err := strconv.ParseInt(words[2], 10, 32)
		if err != nil {
			return nil, err
		}
		return nothing, w.clear(words[1], int32(count))
	case words[0] == "file" && len(words) == 2:
		data, err := os.ReadFile(words[1])
		w.data = data
		return nothing, err
	case words[0] == "idle" && len(words) == 2:
		count, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			return nil, err
		}
		return nothing, w.hold(count)
	case words[0] == "run":
		return w.timed(words[1:])
	}
	return nil, errors.New("unknown request")
}

func (w *work[T]) serve() error {
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		told, err := w.respond(strings.Fields(lines.Text()))
		if err != nil {
			told = map[string]any{"error": err.Error()}
		}
		if err := answers.Encode(told); err != nil {
			return err
		}
	}
	if w.client != nil {
		return w.client.Disconnect(background)
	}
	return lines.Err()
}

func once(uri, database, scratch string) error {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	if _, err := client.Database(database).Collection(scratch).InsertOne(background, document(0)); err != nil {
		return err
	}
	return client.Disconnect(background)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, each := range info.Deps {
			if strings.HasPrefix(each.Path, "go.mongodb.org/mongo-driver") {
				return strings.TrimPrefix(each.Version, "v")
			}
		}
	}
	return "unknown"
}

func main() {
	var err error
	switch words := os.Args[1:]; {
	case len(words) == 2 && words[1] == "version":
		fmt.Printf("{\"driver\": \"mongo-go-driver %s\", \"runtime\": \"go %s\"}\n",
			version(), strings.TrimPrefix(runtime.Version(), "go"))
	case len(words) == 5 && words[1] == "page":
		err = page(words[2], words[3], words[4])
	case len(words) == 5:
		err = once(words[2], words[3], words[4])
	case len(words) == 1 && words[0] == "go-typed":
		err = (&work[member]{isTyped: true}).serve()
	default:
		err = (&work[bson.D]{}).serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
