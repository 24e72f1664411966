// A page of thirty documents as JSON on Express, as its users write it; it ends with its input.
import express from "express";

import { MongoClient } from "mongodb";

const SHOWN = 30;

export function serve(uri, database, collection) {
  const client = new MongoClient(uri);
  const members = client.db(database).collection(collection);
  const app = express();
  app.get("/", async (request, response) => {
    response.json(await members.find({}).limit(SHOWN).toArray());
  });
  const server = app.listen(0, "127.0.0.1", () => {
    console.log(JSON.stringify({ port: server.address().port }));
  });
  process.stdin.resume();
  process.stdin.on("end", async () => {
    server.closeAllConnections();
    server.close();
    await client.close();
  });
}
