//! The cases of server-discovery-and-monitoring that need no server: descriptions, errors and events.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use mangonel_bson::RawDocument;
use mangonel_proto::time::Instant;
use mangonel_proto::topology::{
    Address, ApplicationError, Cause, Effect, Event, Failure, Phase, ServerDescription, ServerType, Step,
    Topology, TopologyDescription, TopologySettings, TopologyVersion,
};
use serde_json::{Value, json};

use common::{address, at, document, expect, long, object_id};

#[test]
fn sdam_spec() {
    for folder in ["rs", "sharded", "single", "load-balanced", "errors", "monitoring"] {
        let path = format!("server-discovery-and-monitoring/tests/{folder}");
        let Some(cases) = common::load(&path) else { return };
        common::run(&path, &cases, |case| Driver::new(case.json["uri"].as_str().unwrap()).run(&case.json));
    }
}

/// Plays the face, the pools and the listeners of one topology.
struct Driver {
    topology: Topology,
    generations: BTreeMap<Address, u64>,
    events: Vec<Value>,
    now: Instant,
}

impl Driver {
    fn new(uri: &str) -> Driver {
        let rest = uri.strip_prefix("mongodb://").unwrap();
        let (hosts, options) = rest.split_once("/?").unwrap_or((rest.trim_end_matches('/'), ""));
        let mut settings = TopologySettings {
            seeds: hosts.split(',').map(address).collect(),
            has_listeners: true,
            ..TopologySettings::default()
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=').unwrap() {
                ("replicaSet", name) => settings.set_name = Some(name.into()),
                ("directConnection", value) => settings.is_direct = value == "true",
                ("loadBalanced", value) => settings.is_load_balanced = value == "true",
                ("heartbeatFrequencyMS", _) => {}
                other => panic!("unknown option {other:?}"),
            }
        }
        let now = at(0);
        let mut driver = Driver {
            topology: Topology::new(settings, now),
            generations: BTreeMap::new(),
            events: Vec::new(),
            now,
        };
        driver.drain();
        driver
    }

    fn run(mut self, case: &Value) -> Result<(), String> {
        for (number, phase) in case["phases"].as_array().unwrap().iter().enumerate() {
            for response in phase["responses"].as_array().into_iter().flatten() {
                self.respond(&address(response[0].as_str().unwrap()), &response[1]);
            }
            for error in phase["applicationErrors"].as_array().into_iter().flatten() {
                self.fail(error);
            }
            self.check(&phase["outcome"]).map_err(|error| format!("phase {number}: {error}"))?;
        }
        Ok(())
    }

    /// Runs the server's monitor until it reads a reply, and gives it this one.
    fn respond(&mut self, server: &Address, reply: &Value) {
        loop {
            match self.topology.poll_monitor(server, self.now) {
                Step::Connect { .. } => self.topology.handle_monitor_connected(server, self.now),
                Step::Wait { until } => self.now = until,
                Step::Write { .. } | Step::Read { .. } => break,
                // The server was removed; its reply is ignored.
                Step::Stop => break,
            }
        }
        if reply.as_object().unwrap().is_empty() {
            self.topology.handle_monitor_error(server, "connection refused", Failure::Network, self.now);
        } else {
            let bytes = document(reply);
            let reply = RawDocument::from_bytes(&bytes).unwrap();
            self.topology.handle_monitor_reply(server, reply, false, self.now);
        }
        self.drain();
    }

    fn fail(&mut self, error: &Value) {
        let server = address(error["address"].as_str().unwrap());
        let pool_generation = self.generations.get(&server).copied().unwrap_or(0);
        let reply = error.get("response").map(document);
        let cause = match error["type"].as_str().unwrap() {
            "command" => Cause::Reply(RawDocument::from_bytes(reply.as_deref().unwrap()).unwrap()),
            "network" => Cause::Network,
            "timeout" => Cause::Timeout,
            other => panic!("unknown type {other}"),
        };
        let phase = match error["when"].as_str().unwrap() {
            "beforeHandshakeCompletes" => Phase::BeforeHandshake,
            "afterHandshakeCompletes" => Phase::AfterHandshake,
            other => panic!("unknown phase {other}"),
        };
        // The pool labels errors during the opening of a connection (connection-monitoring-and-pooling).
        let is_overload = phase == Phase::BeforeHandshake && !matches!(cause, Cause::Reply(_));
        let error = ApplicationError {
            address: &server,
            cause,
            phase,
            is_overload,
            generation: error["generation"].as_u64().unwrap_or(pool_generation),
            pool_generation,
            service_id: None,
            message: "an operation failed",
        };
        self.topology.handle_application_error(&error, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(effect) = self.topology.poll_effect() {
            if let Effect::ClearPool { address, .. } = effect {
                *self.generations.entry(address).or_default() += 1;
            }
        }
        while let Some(event) = self.topology.poll_event() {
            self.events.extend(event_json(event));
        }
    }

    fn check(&mut self, outcome: &Value) -> Result<(), String> {
        let events = std::mem::take(&mut self.events);
        if let Some(expected) = outcome.get("events") {
            expect("events", &Value::Array(events), &without_possible_primary(expected))?;
        }
        let Some(servers) = outcome.get("servers") else { return Ok(()) };
        let known = self.topology.description();
        expect("topologyType", known.topology_type.name(), outcome["topologyType"].as_str().unwrap())?;
        expect("setName", known.set_name.as_deref(), outcome["setName"].as_str())?;
        let timeout = outcome["logicalSessionTimeoutMinutes"].as_i64();
        expect("logicalSessionTimeoutMinutes", known.logical_session_timeout_minutes, timeout)?;
        let is_compatible = outcome["compatible"].as_bool().unwrap_or(true);
        if outcome.get("compatible").is_some() {
            expect("compatible", known.compatibility_error.is_none(), is_compatible)?;
        }
        if let Some(expected) = outcome.get("maxSetVersion") {
            expect("maxSetVersion", known.max_set_version, expected.as_i64())?;
        }
        if let Some(expected) = outcome.get("maxElectionId") {
            expect("maxElectionId", known.max_election_id, oid(expected))?;
        }
        let expected: BTreeSet<Address> = servers.as_object().unwrap().keys().map(|s| address(s)).collect();
        expect("servers", known.servers.keys().cloned().collect(), expected)?;
        for (server, expected) in servers.as_object().unwrap() {
            let found = &known.servers[&address(server)];
            self.check_server(found, expected).map_err(|error| format!("{server}: {error}"))?;
        }
        Ok(())
    }

    fn check_server(&self, found: &ServerDescription, expected: &Value) -> Result<(), String> {
        for (field, expected) in expected.as_object().unwrap() {
            match field.as_str() {
                "type" => {
                    let wanted = without_possible_primary(expected);
                    expect("type", found.server_type.name(), wanted.as_str().unwrap())?;
                }
                "setName" => expect("setName", found.set_name.as_deref(), expected.as_str())?,
                "setVersion" => expect("setVersion", found.set_version, expected.as_i64())?,
                "electionId" => expect("electionId", found.election_id, oid(expected))?,
                "topologyVersion" => {
                    let version = expected.get("processId").map(|process| TopologyVersion {
                        process_id: oid(process).unwrap(),
                        counter: long(&expected["counter"]).unwrap(),
                    });
                    expect("topologyVersion", found.topology_version, version)?;
                }
                "logicalSessionTimeoutMinutes" => {
                    expect(field, found.logical_session_timeout_minutes, expected.as_i64())?;
                }
                // A load balancer's wire versions are never requested.
                "minWireVersion" | "maxWireVersion" if found.server_type == ServerType::LoadBalancer => {
                    expect(field, (found.min_wire_version, found.max_wire_version), (0, 0))?;
                    expect(field, expected, &Value::Null)?;
                }
                "minWireVersion" => expect(field, Some(found.min_wire_version.into()), expected.as_i64())?,
                "maxWireVersion" => expect(field, Some(found.max_wire_version.into()), expected.as_i64())?,
                "error" => {
                    let wanted = expected.as_str().unwrap();
                    let error = found.error.as_deref().unwrap_or_default();
                    if !error.contains(wanted) {
                        return Err(format!("error: expected {wanted:?} in {error:?}"));
                    }
                }
                "pool" => {
                    let generation = self.generations.get(&found.address).copied().unwrap_or(0);
                    expect("generation", Some(generation), expected["generation"].as_u64())?;
                }
                other => return Err(format!("unknown field {other}")),
            }
        }
        Ok(())
    }
}

fn oid(json: &Value) -> Option<mangonel_bson::ObjectId> {
    json.get("$oid").map(|hex| object_id(hex.as_str().unwrap()))
}

/// A driver that checks all servers at once has no use for PossiblePrimary; it treats these servers as Unknown.
fn without_possible_primary(json: &Value) -> Value {
    match json {
        Value::String(text) if text == "PossiblePrimary" => Value::from("Unknown"),
        Value::Array(items) => items.iter().map(without_possible_primary).collect(),
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(name, value)| (name.clone(), without_possible_primary(value))).collect(),
        ),
        other => other.clone(),
    }
}

fn event_json(event: Event) -> Option<Value> {
    Some(match event {
        Event::TopologyOpening => json!({"topology_opening_event": {"topologyId": "42"}}),
        Event::TopologyClosed => json!({"topology_closed_event": {"topologyId": "42"}}),
        Event::TopologyDescriptionChanged { previous, new } => json!({"topology_description_changed_event": {
            "topologyId": "42",
            "previousDescription": topology_json(&previous),
            "newDescription": topology_json(&new),
        }}),
        Event::ServerOpening { address } => {
            json!({"server_opening_event": {"topologyId": "42", "address": address.as_str()}})
        }
        Event::ServerClosed { address } => {
            json!({"server_closed_event": {"topologyId": "42", "address": address.as_str()}})
        }
        Event::ServerDescriptionChanged { previous, new } => json!({"server_description_changed_event": {
            "topologyId": "42",
            "address": new.address.as_str(),
            "previousDescription": server_json(&previous),
            "newDescription": server_json(&new),
        }}),
        Event::HeartbeatStarted { .. } | Event::HeartbeatSucceeded { .. } | Event::HeartbeatFailed { .. } => {
            return None;
        }
    })
}

fn topology_json(topology: &TopologyDescription) -> Value {
    let mut json = json!({
        "topologyType": topology.topology_type.name(),
        "servers": topology.servers.values().map(|server| server_json(server)).collect::<Vec<_>>(),
    });
    if let Some(name) = &topology.set_name {
        json["setName"] = Value::from(&**name);
    }
    json
}

fn server_json(server: &ServerDescription) -> Value {
    let list = |addresses: &[Address]| -> Value { addresses.iter().map(Address::as_str).collect() };
    let mut json = json!({
        "address": server.address.as_str(),
        "arbiters": list(&server.arbiters),
        "hosts": list(&server.hosts),
        "passives": list(&server.passives),
        "type": server.server_type.name(),
    });
    if let Some(primary) = &server.primary {
        json["primary"] = Value::from(primary.as_str());
    }
    if let Some(name) = &server.set_name {
        json["setName"] = Value::from(&**name);
    }
    json
}
