//! The cases of server-selection and max-staleness that need no server.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mangonel_proto::read_preference::{Mode, ReadPreference, TagSet};
use mangonel_proto::time::Instant;
use mangonel_proto::topology::rtt::{RttTracker, average_with};
use mangonel_proto::topology::select::{self, Criteria, DEFAULT_LOCAL_THRESHOLD};
use mangonel_proto::topology::{Address, ServerDescription, ServerType, TopologyDescription, TopologyType};
use serde_json::Value;

use common::{address, at, expect, long};

#[test]
fn server_selection_spec() {
    let path = "server-selection/tests/server_selection";
    let Some(cases) = common::load(path) else { return };
    common::run(path, &cases, |case| check_selection(&case.json));
}

#[test]
fn max_staleness_spec() {
    let path = "max-staleness/tests";
    let Some(cases) = common::load(path) else { return };
    common::run(path, &cases, |case| check_selection(&case.json));
}

#[test]
fn server_selection_rtt_spec() {
    let path = "server-selection/tests/rtt";
    let Some(cases) = common::load(path) else { return };
    common::run(path, &cases, |case| {
        let milliseconds = |field: &str| case.json[field].as_f64().map(|ms| ms / 1000.0);
        let sample = Duration::from_secs_f64(milliseconds("new_rtt_ms").unwrap());
        let average = match milliseconds("avg_rtt_ms") {
            Some(average) => average_with(Duration::from_secs_f64(average), sample),
            None => {
                let mut rtt = RttTracker::default();
                rtt.add_sample(sample);
                rtt.average().unwrap()
            }
        };
        let expected = milliseconds("new_avg_rtt").unwrap();
        let is_near = (average.as_secs_f64() - expected).abs() < 1e-8;
        if is_near { Ok(()) } else { Err(format!("expected {expected}, got {average:?}")) }
    });
}

#[test]
fn server_selection_in_window_spec() {
    let path = "server-selection/tests/in_window";
    let Some(cases) = common::load(path) else { return };
    common::run(path, &cases, |case| {
        let topology = topology(&case.json["topology_description"]);
        let counts: BTreeMap<Address, u64> = case.json["mocked_topology_state"]
            .as_array()
            .unwrap()
            .iter()
            .map(|state| (server_address(state), state["operation_count"].as_u64().unwrap()))
            .collect();
        let iterations = case.json["iterations"].as_u64().unwrap();
        let nearest = ReadPreference::from_mode(Mode::Nearest);
        let mut random = SplitMix(1);
        let mut chosen: BTreeMap<Address, u64> = BTreeMap::new();
        for _ in 0..iterations {
            let server = select::select(
                &topology,
                Criteria::Readable(&nearest),
                &[],
                Duration::from_secs(10),
                DEFAULT_LOCAL_THRESHOLD,
                |address| counts[address],
                random.next(),
            );
            *chosen.entry(server.unwrap().unwrap().address.clone()).or_default() += 1;
        }
        let tolerance = case.json["outcome"]["tolerance"].as_f64().unwrap();
        for (server, expected) in case.json["outcome"]["expected_frequencies"].as_object().unwrap() {
            let expected = expected.as_f64().unwrap();
            let count = chosen.get(&address(server)).copied().unwrap_or(0);
            let found = count as f64 / iterations as f64;
            let is_fixed = expected == 0.0 || expected == 1.0;
            if (found - expected).abs() > if is_fixed { 0.0 } else { tolerance } {
                return Err(format!("{server}: expected {expected} of the selections, got {found}"));
            }
        }
        Ok(())
    });
}

fn check_selection(case: &Value) -> Result<(), String> {
    let topology = topology(&case["topology_description"]);
    let heartbeat = Duration::from_millis(case["heartbeatFrequencyMS"].as_u64().unwrap_or(10_000));
    let deprioritized: Vec<Address> =
        case["deprioritized_servers"].as_array().into_iter().flatten().map(server_address).collect();
    let is_error_expected = case["error"].as_bool().unwrap_or(false);
    let preference = match read_preference(&case["read_preference"]) {
        Ok(preference) => preference,
        Err(_) if is_error_expected => return Ok(()),
        Err(error) => return Err(error),
    };
    let criteria = match case["operation"].as_str() {
        Some("write") => Criteria::Writable,
        _ => Criteria::Readable(&preference),
    };
    let suitable = select::suitable(&topology, criteria, &deprioritized, heartbeat);
    let mut servers = match suitable {
        Err(_) if is_error_expected => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(_) if is_error_expected => return Err("expected an error".to_owned()),
        Ok(servers) => servers,
    };
    let of = |servers: &[_]| -> BTreeSet<Address> {
        servers.iter().map(|s: &std::sync::Arc<ServerDescription>| s.address.clone()).collect()
    };
    let expected = |field: &str| -> BTreeSet<Address> {
        case[field].as_array().unwrap().iter().map(server_address).collect()
    };
    expect("suitable servers", of(&servers), expected("suitable_servers"))?;
    select::keep_near(&mut servers, DEFAULT_LOCAL_THRESHOLD);
    expect("in latency window", of(&servers), expected("in_latency_window"))
}

fn read_preference(json: &Value) -> Result<ReadPreference, String> {
    let name = json["mode"].as_str().unwrap_or("Primary");
    let name = name[..1].to_lowercase() + &name[1..];
    let mode = Mode::from_name(&name).ok_or_else(|| format!("unknown mode {name}"))?;
    let tag_sets = json["tag_sets"].as_array().into_iter().flatten().map(|set| TagSet(tags(set))).collect();
    let max_staleness = json["maxStalenessSeconds"].as_i64().unwrap_or(-1);
    ReadPreference::new(mode, tag_sets, max_staleness, None).map_err(|error| error.to_string())
}

fn topology(json: &Value) -> TopologyDescription {
    let topology_type = [
        TopologyType::Unknown,
        TopologyType::Single,
        TopologyType::ReplicaSetNoPrimary,
        TopologyType::ReplicaSetWithPrimary,
        TopologyType::Sharded,
        TopologyType::LoadBalanced,
    ]
    .into_iter()
    .find(|known| known.name() == json["type"])
    .unwrap();
    let mut topology = TopologyDescription::new(topology_type, None, [], at(0));
    for server in json["servers"].as_array().unwrap() {
        let described = server_description(server);
        topology.servers.insert(described.address.clone(), described.into());
    }
    topology
}

fn server_description(json: &Value) -> ServerDescription {
    let server_type = [
        ServerType::Unknown,
        ServerType::Standalone,
        ServerType::Mongos,
        ServerType::RSPrimary,
        ServerType::RSSecondary,
        ServerType::RSArbiter,
        ServerType::RSOther,
        ServerType::RSGhost,
        ServerType::LoadBalancer,
    ]
    .into_iter()
    // A driver that checks all servers at once has no use for PossiblePrimary.
    .find(|known| known.name() == json["type"].as_str().unwrap().replace("PossiblePrimary", "Unknown"))
    .unwrap();
    let updated = json["lastUpdateTime"].as_u64().unwrap_or(0);
    ServerDescription {
        server_type,
        round_trip_time: json["avg_rtt_ms"].as_f64().map(|ms| Duration::from_secs_f64(ms / 1000.0)),
        last_update_time: Instant(Duration::from_millis(updated)),
        last_write_date: json["lastWrite"].get("lastWriteDate").and_then(long),
        max_wire_version: 21,
        tags: tags(&json["tags"]),
        ..ServerDescription::unknown(server_address(json), at(0))
    }
}

fn tags(json: &Value) -> Vec<(String, String)> {
    let pairs = json.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn server_address(json: &Value) -> Address {
    address(json["address"].as_str().unwrap())
}

/// A small generator, so that the test needs no randomness of its own.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
