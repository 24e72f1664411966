//! The Rust program of the comparison between languages: the official driver on tokio, as its users write.
//!
//! It answers the requests of PROTOCOL.md on its standard input. Row "rust" has `Document`s, row "rust-typed" structs
//! that serde reads and writes.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};
use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use futures_util::{StreamExt, TryStreamExt};
use mongodb::change_stream::event::{ChangeStreamEvent, ResumeToken};
use mongodb::gridfs::GridFsBucket;
use mongodb::options::{ClientOptions, GridFsBucketOptions, UpdateOneModel, WriteModel};
use mongodb::{Client, Collection, Database};
use serde::{Deserialize, Serialize};

mod page;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const KEYS: i64 = 10_000;
const BASE: i32 = 20;
const TASKS: i64 = 100;
const CITIES: [&str; 8] = ["Ankara", "Berlin", "Cairo", "Delhi", "Espoo", "Fukuoka", "Genoa", "Hanoi"];
const EPOCH_MS: i64 = 1_767_225_600_000; // 2026-01-01
const NOTE: &str = "member of the analytical society since the engine was drawn up";

/// A stored document as a struct.
#[derive(Deserialize, Serialize)]
struct Member {
    #[serde(rename = "_id")]
    id: i32,
    name: String,
    email: String,
    city: String,
    n: i32,
    age: i32,
    score: f64,
    active: bool,
    created: DateTime,
    note: String,
}

/// The same, for the server to give it no number: the driver makes the id.
#[derive(Serialize)]
struct NewMember {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: String,
    email: String,
    city: &'static str,
    n: i32,
    age: i32,
    score: f64,
    active: bool,
    created: DateTime,
    note: &'static str,
}

impl NewMember {
    fn new(number: i32) -> Self {
        Self {
            id: ObjectId::new(),
            name: format!("Ada Lovelace {number:05}"),
            email: format!("ada.{number:05}@example.org"),
            city: CITIES[number as usize % 8],
            n: number,
            age: 18 + number % 70,
            score: f64::from(number) + 0.5,
            active: number % 2 == 0,
            created: DateTime::from_millis(EPOCH_MS + i64::from(number) * 60_000),
            note: NOTE,
        }
    }
}

fn member(number: i32) -> Document {
    doc! {
        "name": format!("Ada Lovelace {number:05}"),
        "email": format!("ada.{number:05}@example.org"),
        "city": CITIES[number as usize % 8],
        "n": number,
        "age": 18 + number % 70,
        "score": f64::from(number) + 0.5,
        "active": number % 2 == 0,
        "created": DateTime::from_millis(EPOCH_MS + i64::from(number) * 60_000),
        "note": NOTE,
    }
}

/// What a program reads of a document to check it.
trait Counted: for<'a> Deserialize<'a> + Serialize + Send + Sync + Unpin + 'static {
    fn n(&self) -> Outcome<i64>;
}

impl Counted for Document {
    fn n(&self) -> Outcome<i64> {
        Ok(i64::from(self.get_i32("n")?))
    }
}

impl Counted for Member {
    fn n(&self) -> Outcome<i64> {
        Ok(i64::from(self.n))
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("expected {what} {expected:?}, got {found:?}").into())
}

struct Work<T: Counted> {
    uri: String,
    client: Client,
    members: Collection<T>,
    scratch: Collection<Document>,
    new_members: Collection<NewMember>,
    files: GridFsBucket,
    bucket: GridFsBucket,
    data: Vec<u8>,
    file: Option<Bson>,
    token: Option<ResumeToken>,
    idle: Option<Client>,
    is_typed: bool,
}

impl<T: Counted> Work<T> {
    async fn open(words: &[&str], is_typed: bool) -> Outcome<Self> {
        let [uri, database, collection, scratch] = words else {
            return Err("expected a URI and three names".into());
        };
        let client = Client::with_uri_str(uri).await?;
        let database = client.database(database);
        database.run_command(doc! {"ping": 1}).await?;
        Ok(Self {
            uri: (*uri).to_string(),
            members: database.collection(collection),
            scratch: database.collection(scratch),
            new_members: database.collection(scratch),
            files: bucket(&database, "languages"),
            bucket: bucket(&database, scratch),
            client,
            data: Vec::new(),
            file: None,
            token: None,
            idle: None,
            is_typed,
        })
    }

    async fn clear(&mut self, verb: &str, count: i32) -> Outcome<()> {
        if verb == "gridfs_upload" {
            if let Some(id) = self.file.take() {
                self.bucket.delete(id).await?;
            }
            return Ok(());
        }
        self.scratch.drop().await?;
        if verb == "update_one" || verb == "bulk_write_10" {
            let documents = (0..BASE).map(|number| {
                let mut document = doc! {"_id": number};
                document.extend(member(number));
                document
            });
            self.scratch.insert_many(documents).await?;
        }
        if verb == "change_stream" {
            let mut stream = self.scratch.watch().await?;
            stream.next_if_any().await?;
            self.token = stream.resume_token();
            self.scratch.insert_many((0..count).map(member)).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, verb: &str) -> Outcome<String> {
        let documents: Vec<Document> = if verb == "aggregate" {
            let found: Vec<Document> = self.aggregated().await?.try_collect().await?;
            found
        } else if let Some(limit) = verb.strip_prefix("find_") {
            let found: Vec<T> = if limit.starts_with("one") {
                self.members.find_one(doc! {"_id": 77}).await?.into_iter().collect()
            } else {
                self.members.find(doc! {}).limit(limit.parse()?).await?.try_collect().await?
            };
            let mut documents = Vec::new();
            for each in &found {
                documents.push(bson::serialize_to_document(each)?);
            }
            documents
        } else {
            self.clear(verb, 1).await?;
            self.run(verb, 1).await?;
            Vec::new()
        };
        let texts: Vec<String> = documents.into_iter().map(canonical).collect();
        Ok(format!("[{}]", texts.join(", ")))
    }

    async fn run(&mut self, verb: &str, count: i64) -> Outcome<()> {
        match verb {
            "find_one" => find_ones(&self.members, count).await,
            "find_one_100" => self.find_one_100(count).await,
            "find_30" => self.find(count, 30).await,
            "find_1000" => self.find(count, 1000).await,
            "iterate" => self.iterate(count).await,
            "insert_one" => self.insert_one(count).await,
            "insert_many_10" => self.insert_many(count, 10).await,
            "insert_many_1000" => self.insert_many(count, 1000).await,
            "update_one" => self.update_one(count).await,
            "bulk_write_10" => self.bulk_write(count).await,
            "aggregate" => self.aggregate(count).await,
            "change_stream" => self.change_stream(count).await,
            "gridfs_upload" => self.upload(count).await,
            "gridfs_download" => self.download(count).await,
            _ => Err(format!("unknown verb {verb}").into()),
        }
    }

    async fn find_one_100(&self, count: i64) -> Outcome<()> {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let members = self.members.clone();
                tokio::spawn(async move { find_ones(&members, count / TASKS).await })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    }

    async fn find(&self, count: i64, limit: i64) -> Outcome<()> {
        for _ in 0..count {
            let found: Vec<T> = self.members.find(doc! {}).limit(limit).await?.try_collect().await?;
            let mut sum = 0;
            for each in &found {
                sum += each.n()?;
            }
            expect("sum of n", sum, limit * (limit - 1) / 2)?;
        }
        Ok(())
    }

    async fn iterate(&self, count: i64) -> Outcome<()> {
        let mut cursor = self.members.find(doc! {}).limit(count).await?;
        let mut sum = 0;
        while let Some(each) = cursor.try_next().await? {
            sum += each.n()?;
        }
        expect("sum of n", sum, count * (count - 1) / 2)
    }

    async fn insert_one(&self, count: i64) -> Outcome<()> {
        for number in 0..count as i32 {
            let id = if self.is_typed {
                self.new_members.insert_one(NewMember::new(number)).await?.inserted_id
            } else {
                self.scratch.insert_one(member(number)).await?.inserted_id
            };
            expect("an id", id.as_object_id().is_some(), true)?;
        }
        Ok(())
    }

    async fn insert_many(&self, count: i64, size: i32) -> Outcome<()> {
        for _ in 0..count {
            let ids = if self.is_typed {
                self.new_members.insert_many((0..size).map(NewMember::new)).await?.inserted_ids
            } else {
                self.scratch.insert_many((0..size).map(member)).await?.inserted_ids
            };
            expect("ids", ids.len(), size as usize)?;
        }
        Ok(())
    }

    async fn update_one(&self, count: i64) -> Outcome<()> {
        for number in 0..count as i32 {
            let change = doc! {"$set": {"age": 100 + number}};
            let told = self.scratch.update_one(doc! {"_id": number % BASE}, change).await?;
            expect("modified", told.modified_count, 1)?;
        }
        Ok(())
    }

    async fn bulk_write(&self, count: i64) -> Outcome<()> {
        // A collection has no bulk write in this driver; the client's wants MongoDB 8.0. Its users run the updates one by
        // one or the command, which is what drivers with a bulk write send.
        let version = self.client.database("admin").run_command(doc! {"buildInfo": 1}).await?;
        let is_new = version.get_array("versionArray")?[0].as_i32() >= Some(8);
        for number in 0..count as i32 {
            let changed = if is_new {
                let models = (0..10).map(|key| {
                    let model = UpdateOneModel::builder()
                        .namespace(self.scratch.namespace())
                        .filter(doc! {"_id": key})
                        .update(doc! {"$set": {"age": 100 + number}})
                        .build();
                    WriteModel::UpdateOne(model)
                });
                self.client.bulk_write(models).await?.modified_count
            } else {
                let updates: Vec<Document> = (0..10)
                    .map(|key| doc! {"q": {"_id": key}, "u": {"$set": {"age": 100 + number}}})
                    .collect();
                let command =
                    doc! {"update": self.scratch.name(), "updates": updates, "writeConcern": {"w": 1}};
                let told = self.client.database(&self.scratch.namespace().db).run_command(command).await?;
                i64::from(told.get_i32("nModified")?)
            };
            expect("modified", changed, 10)?;
        }
        Ok(())
    }

    async fn aggregated(&self) -> Outcome<mongodb::Cursor<Document>> {
        let pipeline = [doc! {"$match": {"_id": {"$lt": 10}}}, doc! {"$project": {"name": 1, "n": 1}}];
        Ok(self.members.aggregate(pipeline).await?)
    }

    async fn aggregate(&self, count: i64) -> Outcome<()> {
        for _ in 0..count {
            let found: Vec<Document> = self.aggregated().await?.try_collect().await?;
            let mut sum = 0;
            for each in &found {
                sum += each.n()?;
            }
            expect("sum of n", sum, 45)?;
        }
        Ok(())
    }

    async fn change_stream(&self, count: i64) -> Outcome<()> {
        let token = self.token.clone().ok_or("no resume token")?;
        let mut stream = self.scratch.watch().resume_after(token).await?;
        let mut sum = 0;
        for _ in 0..count {
            let event: ChangeStreamEvent<Document> = stream.next().await.ok_or("the stream ended")??;
            sum += event.full_document.ok_or("no document")?.n()?;
        }
        expect("sum of n", sum, count * (count - 1) / 2)
    }

    async fn upload(&mut self, count: i64) -> Outcome<()> {
        for _ in 0..count {
            let mut stream = self.bucket.open_upload_stream("languages").await?;
            stream.write_all(&self.data).await?;
            stream.close().await?;
            self.file = Some(stream.id().clone());
        }
        Ok(())
    }

    async fn download(&self, count: i64) -> Outcome<()> {
        for _ in 0..count {
            let mut stream = self.files.open_download_stream_by_name("languages").await?;
            let mut found = Vec::with_capacity(self.data.len());
            stream.read_to_end(&mut found).await?;
            expect("same bytes", found == self.data, true)?;
        }
        Ok(())
    }

    async fn idle(&mut self, connections: u32) -> Outcome<()> {
        let mut options = ClientOptions::parse(&self.uri).await?;
        options.min_pool_size = Some(connections);
        options.max_pool_size = Some(connections);
        let client = Client::with_options(options)?;
        client.database("admin").run_command(doc! {"ping": 1}).await?;
        self.idle = Some(client);
        Ok(())
    }
}

async fn find_ones<T: Counted>(members: &Collection<T>, count: i64) -> Outcome<()> {
    for number in 0..count {
        let key = number % KEYS;
        let found = members.find_one(doc! {"_id": key as i32}).await?.ok_or("no document")?;
        expect("n", found.n()?, key)?;
    }
    Ok(())
}

/// Returns a document's canonical extended JSON with its fields in their order, which serde_json's maps do not keep.
fn canonical(document: Document) -> String {
    let fields: Vec<String> = document
        .into_iter()
        .map(|(key, value)| format!("{key:?}: {}", value.into_canonical_extjson()))
        .collect();
    format!("{{{}}}", fields.join(", "))
}

fn bucket(database: &Database, name: &str) -> GridFsBucket {
    let options = GridFsBucketOptions::builder().bucket_name(name.to_string()).build();
    database.gridfs_bucket(options)
}

/// Returns the user and the system time of this process in µs.
fn used_us() -> (i64, i64) {
    let mut found = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the struct, which lives until it is read below; all its fields are integers.
    let found = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, found.as_mut_ptr());
        found.assume_init()
    };
    let us = |at: libc::timeval| at.tv_sec * 1_000_000 + at.tv_usec;
    (us(found.ru_utime), us(found.ru_stime))
}

async fn timed<T: Counted>(work: &mut Work<T>, words: &[&str]) -> Outcome<String> {
    let [verb, count, plant] = words else {
        return Err("expected a verb, a count and a share".into());
    };
    let (count, plant): (i64, f64) = (count.parse()?, plant.parse()?);
    let (before, start) = (used_us(), Instant::now());
    work.run(verb, count).await?;
    let mut after = used_us();
    let taken = after.0 + after.1 - before.0 - before.1;
    // An artificial slowdown, to test the lab: so much more processor time.
    let until = after.0 + after.1 + (taken as f64 * plant) as i64;
    while plant > 0.0 && after.0 + after.1 < until {
        after = used_us();
    }
    Ok(format!(
        "{{\"wall_ns\": {}, \"user_us\": {}, \"system_us\": {}}}",
        start.elapsed().as_nanos(),
        after.0 - before.0,
        after.1 - before.1
    ))
}

async fn serve<T: Counted>(is_typed: bool) -> Outcome<()> {
    let mut work: Option<Work<T>> = None;
    while let Some(line) = tokio::task::spawn_blocking(|| std::io::stdin().lines().next()).await? {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let told = match respond(&mut work, &words, is_typed).await {
            Ok(text) => text,
            Err(error) => serde_json::json!({"error": error.to_string()}).to_string(),
        };
        println!("{told}");
        std::io::stdout().flush()?;
    }
    if let Some(work) = work {
        work.client.shutdown().await;
    }
    Ok(())
}

async fn respond<T: Counted>(work: &mut Option<Work<T>>, words: &[&str], is_typed: bool) -> Outcome<String> {
    let nothing = Ok("{}".to_string());
    if let ["open", rest @ ..] = words {
        *work = Some(Work::open(rest, is_typed).await?);
        return nothing;
    }
    let work = work.as_mut().ok_or("not open")?;
    match words {
        ["answer", verb] => Ok(format!("{{\"answer\": {}}}", work.answer(verb).await?)),
        ["clear", verb, count] => work.clear(verb, count.parse()?).await.and(nothing),
        ["file", path] => {
            work.data = std::fs::read(path)?;
            nothing
        }
        ["idle", count] => work.idle(count.parse()?).await.and(nothing),
        ["run", rest @ ..] => timed(work, rest).await,
        _ => Err("unknown request".into()),
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [_, "version"] => {
            let (driver, runtime) = (env!("DRIVER"), env!("RUSTC"));
            println!("{{\"driver\": \"mongodb-crate {driver}\", \"runtime\": \"rustc {runtime}\"}}");
            Ok(())
        }
        [_, "once", uri, database, scratch] => {
            let client = Client::with_uri_str(uri).await?;
            client.database(database).collection(scratch).insert_one(member(0)).await?;
            client.shutdown().await;
            Ok(())
        }
        [_, "page", uri, database, collection] => page::serve(uri, database, collection).await,
        // A task of the runtime's: what `main` itself awaits is polled by a thread of its own, which each answer has to wake.
        ["rust-typed"] => tokio::spawn(serve::<Member>(true)).await?,
        _ => tokio::spawn(serve::<Document>(false)).await?,
    }
}
