// The Node.js program of the comparison between languages: the official driver, as its users write.
//
// It answers the requests of PROTOCOL.md on its standard input.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { BSON, GridFSBucket, MongoClient } from "mongodb";

const KEYS = 10_000;
const BASE = 20;
const AT_ONCE = 100;
const CITIES = ["Ankara", "Berlin", "Cairo", "Delhi", "Espoo", "Fukuoka", "Genoa", "Hanoi"];
const EPOCH = Date.UTC(2026, 0, 1);
const NOTE = "member of the analytical society since the engine was drawn up";
const FILE_NAME = "languages";
const PIPELINE = [{ $match: { _id: { $lt: 10 } } }, { $project: { name: 1, n: 1 } }];

function member(number) {
  const digits = String(number).padStart(5, "0");
  return {
    name: `Ada Lovelace ${digits}`,
    email: `ada.${digits}@example.org`,
    city: CITIES[number % 8],
    n: number,
    age: 18 + (number % 70),
    score: number + 0.5,
    active: number % 2 === 0,
    created: new Date(EPOCH + number * 60_000),
    note: NOTE,
  };
}

const members = (count) => Array.from({ length: count }, (_, number) => member(number));

function expect(what, found, expected) {
  if (found !== expected) {
    throw new Error(`expected ${what} ${expected}, got ${found}`);
  }
}

const sumOfN = (documents) => documents.reduce((sum, each) => sum + each.n, 0);
const sumBelow = (count) => (count * (count - 1)) / 2;

class Work {
  async open(uri, database, collection, scratch) {
    this.uri = uri;
    this.client = await new MongoClient(uri).connect();
    const db = this.client.db(database);
    this.members = db.collection(collection);
    this.scratch = db.collection(scratch);
    this.files = new GridFSBucket(db, { bucketName: FILE_NAME });
    this.bucket = new GridFSBucket(db, { bucketName: scratch });
  }

  async clear(verb, count) {
    if (verb === "gridfs_upload") {
      if (this.file !== undefined) {
        await this.bucket.delete(this.file);
        this.file = undefined;
      }
      return;
    }
    await this.scratch.drop();
    if (verb === "update_one" || verb === "bulk_write_10") {
      await this.scratch.insertMany(members(BASE).map((each) => ({ _id: each.n, ...each })));
    }
    if (verb === "change_stream") {
      const stream = this.scratch.watch();
      await stream.tryNext();
      this.token = stream.resumeToken;
      await stream.close();
      await this.scratch.insertMany(members(count));
    }
  }

  async answer(verb) {
    let documents = [];
    if (verb === "aggregate") {
      documents = await this.members.aggregate(PIPELINE).toArray();
    } else if (verb.startsWith("find_one")) {
      documents = [await this.members.findOne({ _id: 77 })];
    } else if (verb.startsWith("find_")) {
      documents = await this.members.find({}, { limit: Number(verb.slice("find_".length)) }).toArray();
    } else {
      await this.clear(verb, 1);
      await VERBS[verb](this, 1);
    }
    return documents;
  }
}

async function find(work, count, limit) {
  for (let number = 0; number < count; number++) {
    const documents = await work.members.find({}, { limit }).toArray();
    expect("sum of n", sumOfN(documents), sumBelow(limit));
  }
}

async function insertMany(work, count, size) {
  for (let number = 0; number < count; number++) {
    const told = await work.scratch.insertMany(members(size));
    expect("inserted", told.insertedCount, size);
  }
}

// The verbs. Every answer is checked.
const VERBS = {
  async find_one(work, count) {
    for (let number = 0; number < count; number++) {
      const key = number % KEYS;
      expect("n", (await work.members.findOne({ _id: key })).n, key);
    }
  },

  async find_one_100(work, count) {
    await Promise.all(Array.from({ length: AT_ONCE }, () => VERBS.find_one(work, count / AT_ONCE)));
  },

  find_30: (work, count) => find(work, count, 30),
  find_1000: (work, count) => find(work, count, 1000),

  async iterate(work, count) {
    let sum = 0;
    for await (const each of work.members.find({}, { limit: count })) {
      sum += each.n;
    }
    expect("sum of n", sum, sumBelow(count));
  },

  async insert_one(work, count) {
    for (let number = 0; number < count; number++) {
      expect("acknowledged", (await work.scratch.insertOne(member(number))).acknowledged, true);
    }
  },

  insert_many_10: (work, count) => insertMany(work, count, 10),
  insert_many_1000: (work, count) => insertMany(work, count, 1000),

  async update_one(work, count) {
    for (let number = 0; number < count; number++) {
      const told = await work.scratch.updateOne({ _id: number % BASE }, { $set: { age: 100 + number } });
      expect("modified", told.modifiedCount, 1);
    }
  },

  async bulk_write_10(work, count) {
    for (let number = 0; number < count; number++) {
      const models = Array.from({ length: 10 }, (_, key) => ({
        updateOne: { filter: { _id: key }, update: { $set: { age: 100 + number } } },
      }));
      expect("modified", (await work.scratch.bulkWrite(models)).modifiedCount, 10);
    }
  },

  async aggregate(work, count) {
    for (let number = 0; number < count; number++) {
      expect("sum of n", sumOfN(await work.members.aggregate(PIPELINE).toArray()), 45);
    }
  },

  async change_stream(work, count) {
    const stream = work.scratch.watch([], { resumeAfter: work.token });
    let sum = 0;
    for (let number = 0; number < count; number++) {
      sum += (await stream.next()).fullDocument.n;
    }
    expect("sum of n", sum, sumBelow(count));
    await stream.close();
  },

  async gridfs_upload(work, count) {
    for (let number = 0; number < count; number++) {
      const stream = work.bucket.openUploadStream(FILE_NAME);
      await pipeline(Readable.from([work.data]), stream);
      work.file = stream.id;
    }
  },

  async gridfs_download(work, count) {
    for (let number = 0; number < count; number++) {
      const pieces = [];
      for await (const piece of work.files.openDownloadStreamByName(FILE_NAME)) {
        pieces.push(piece);
      }
      expect("same bytes", Buffer.concat(pieces).equals(work.data), true);
    }
  },
};

async function run(work, verb, count, plant) {
  const before = process.resourceUsage();
  const start = process.hrtime.bigint();
  await VERBS[verb](work, count);
  let after = process.resourceUsage();
  const used = (usage) => usage.userCPUTime + usage.systemCPUTime;
  // An artificial slowdown, to test the lab: so much more processor time.
  const until = used(after) + (used(after) - used(before)) * plant;
  while (plant > 0 && used(after) < until) {
    after = process.resourceUsage();
  }
  return {
    wall_ns: Number(process.hrtime.bigint() - start),
    user_us: after.userCPUTime - before.userCPUTime,
    system_us: after.systemCPUTime - before.systemCPUTime,
  };
}

const REQUESTS = {
  open: (work, ...words) => work.open(...words),
  clear: (work, verb, count) => work.clear(verb, Number(count)),
  run: (work, verb, count, plant) => run(work, verb, Number(count), Number(plant)),
  async file(work, path) {
    work.data = await readFile(path);
  },
  async idle(work, count) {
    work.idle = await new MongoClient(work.uri, { minPoolSize: Number(count) }).connect();
  },
};

async function respond(work, verb, words) {
  try {
    if (verb === "answer") {
      const documents = await work.answer(...words);
      return `{"answer": ${BSON.EJSON.stringify(documents, { relaxed: false })}}`;
    }
    return JSON.stringify((await REQUESTS[verb](work, ...words)) ?? {});
  } catch (error) {
    return JSON.stringify({ error: String(error) });
  }
}

const [, , , kind, ...rest] = process.argv;
if (kind === "version") {
  const { version } = createRequire(import.meta.url)("mongodb/package.json");
  console.log(JSON.stringify({ driver: `node-mongodb ${version}`, runtime: `Node.js ${process.versions.node}` }));
} else if (kind === "once") {
  const [uri, database, scratch] = rest;
  const client = new MongoClient(uri);
  await client.db(database).collection(scratch).insertOne(member(0));
  await client.close();
} else if (kind === "page") {
  const { serve } = await import("./page.js");
  serve(...rest);
} else {
  const work = new Work();
  for await (const line of createInterface({ input: process.stdin })) {
    const [verb, ...words] = line.split(" ");
    process.stdout.write(`${await respond(work, verb, words)}\n`);
  }
  await work.client?.close();
  await work.idle?.close();
}
