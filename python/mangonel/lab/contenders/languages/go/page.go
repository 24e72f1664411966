package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const shown = 30

// page serves the first documents as JSON on net/http until the standard input ends.
func page(uri, database, collection string) error {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	members := client.Database(database).Collection(collection)
	http.HandleFunc("GET /{$}", func(answer http.ResponseWriter, request *http.Request) {
		body, err := firstMembers(request, members)
		if err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		answer.Header().Set("Content-Type", "application/json")
		// net/http sends longer bodies in chunks otherwise.
		answer.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = answer.Write(body)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("{\"port\": %d}\n", listener.Addr().(*net.TCPAddr).Port)
	failed := make(chan error, 2)
	go func() { failed <- http.Serve(listener, nil) }()
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	if err := <-failed; err != nil {
		return err
	}
	return client.Disconnect(background)
}

func firstMembers(request *http.Request, members *mongo.Collection) ([]byte, error) {
	cursor, err := members.Find(request.Context(), bson.D{}, options.Find().SetLimit(shown))
	if err != nil {
		return nil, err
	}
	var found []member
	if err := cursor.All(request.Context(), &found); err != nil {
		return nil, err
	}
	return json.Marshal(found)
}
