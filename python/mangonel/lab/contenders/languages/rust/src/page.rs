//! A page of thirty documents as JSON on axum, as its users write it; it ends with its input.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use bson::{DateTime, doc};
use futures_util::TryStreamExt;
use mongodb::{Client, Collection};
use serde::ser::Error;
use serde::{Deserialize, Serialize, Serializer};

use crate::Outcome;

const SHOWN: i64 = 30;

/// A stored document, and an object of the page.
#[derive(Deserialize, Serialize)]
struct Shown {
    #[serde(rename = "_id")]
    id: i32,
    name: String,
    email: String,
    city: String,
    n: i32,
    age: i32,
    score: f64,
    active: bool,
    #[serde(serialize_with = "as_text")]
    created: DateTime,
    note: String,
}

fn as_text<S: Serializer>(date: &DateTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&date.try_to_rfc3339_string().map_err(S::Error::custom)?)
}

async fn page(State(members): State<Collection<Shown>>) -> Result<Json<Vec<Shown>>, StatusCode> {
    let found = async { members.find(doc! {}).limit(SHOWN).await?.try_collect().await };
    found.await.map(Json).map_err(|_: mongodb::error::Error| StatusCode::INTERNAL_SERVER_ERROR)
}

/// Serves until the standard input ends.
pub async fn serve(uri: &str, database: &str, collection: &str) -> Outcome<()> {
    let client = Client::with_uri_str(uri).await?;
    let members = client.database(database).collection(collection);
    let site = Router::new().route("/", get(page)).with_state(members);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{{\"port\": {}}}", listener.local_addr()?.port());
    let ended = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    tokio::select! {
        served = axum::serve(listener, site) => served?,
        ended = ended => { ended??; }
    }
    client.shutdown().await;
    Ok(())
}
