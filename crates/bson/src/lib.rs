//! BSON without Python, sockets or MongoDB: elements, a checked reader, a writer, extended JSON.
//! Spec: bsonspec.org, bson-corpus, extended-json.
#![forbid(unsafe_code)]
