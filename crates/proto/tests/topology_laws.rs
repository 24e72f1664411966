//! The laws of `topology::update`, for any deployment that any sequence of hello replies describes.

use std::sync::Arc;

use mangonel_bson::ObjectId;
use mangonel_proto::time::Instant;
use mangonel_proto::topology::{
    Address, ServerDescription, ServerType, TopologyDescription, TopologyType, update,
};
use proptest::prelude::*;

const NOW: Instant = Instant(std::time::Duration::ZERO);
const NAMES: [&str; 5] = ["a", "b", "c", "d", "stranger"];

fn address(index: usize) -> Address {
    Address::new(NAMES[index], 1)
}

fn server() -> impl Strategy<Value = ServerDescription> {
    let server_type = prop::sample::select(vec![
        ServerType::Unknown,
        ServerType::Standalone,
        ServerType::Mongos,
        ServerType::RSPrimary,
        ServerType::RSPrimary,
        ServerType::RSSecondary,
        ServerType::RSArbiter,
        ServerType::RSOther,
        ServerType::RSGhost,
    ]);
    let hosts = prop::collection::vec(0..NAMES.len(), 0..5);
    let election = prop::option::of(0u8..3);
    let sets = prop::sample::select(vec!["rs", "rs", "rs", "other"]);
    let me = prop::option::of(0..NAMES.len());
    let versions = prop::sample::select(vec![9, 16, 17, 25]);
    (0..NAMES.len(), server_type, hosts, election, prop::option::of(0i64..3), sets, me, versions).prop_map(
        |(at, server_type, hosts, election, set_version, set_name, me, max_wire_version)| {
            let is_member = matches!(
                server_type,
                ServerType::RSPrimary | ServerType::RSSecondary | ServerType::RSArbiter | ServerType::RSOther
            );
            ServerDescription {
                server_type,
                hosts: if is_member { hosts.into_iter().map(address).collect() } else { Vec::new() },
                election_id: election.map(|byte| ObjectId::from_bytes([byte; 12])),
                set_version,
                set_name: is_member.then(|| Arc::from(set_name)),
                me: me.filter(|_| is_member).map(address),
                max_wire_version,
                ..ServerDescription::unknown(address(at), NOW)
            }
        },
    )
}

fn topology() -> impl Strategy<Value = (TopologyDescription, usize)> {
    let topology_type = prop::sample::select(vec![
        TopologyType::Unknown,
        TopologyType::Single,
        TopologyType::ReplicaSetNoPrimary,
        TopologyType::LoadBalanced,
    ]);
    (topology_type, 1usize..4, any::<bool>()).prop_map(|(topology_type, count, is_named)| {
        let count = match topology_type {
            TopologyType::Single | TopologyType::LoadBalanced => 1,
            _ => count,
        };
        let is_named = is_named || topology_type == TopologyType::ReplicaSetNoPrimary;
        let set_name = is_named.then(|| Arc::from("rs"));
        (TopologyDescription::new(topology_type, set_name, (0..count).map(address), NOW), count)
    })
}

fn primaries(topology: &TopologyDescription) -> usize {
    topology.servers.values().filter(|server| server.server_type == ServerType::RSPrimary).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_update_keeps_the_laws(
        (first, seeds) in topology(),
        servers in prop::collection::vec(server(), 1..12),
    ) {
        let mut before = first;
        for server in servers {
            let after = update::apply(&before, server.clone(), seeds);
            let is_known = before.servers.contains_key(&server.address);

            // 1. A server that is not in the topology changes nothing.
            prop_assert!(is_known || after == before);

            // 2. Single and LoadBalanced stay, with their one server.
            if matches!(before.topology_type, TopologyType::Single | TopologyType::LoadBalanced) {
                prop_assert_eq!(after.topology_type, before.topology_type);
                prop_assert!(after.servers.keys().eq(before.servers.keys()));
            }

            // 3. ReplicaSetWithPrimary means exactly one primary; other types but Single mean none.
            match after.topology_type {
                TopologyType::ReplicaSetWithPrimary => prop_assert_eq!(primaries(&after), 1),
                TopologyType::Single => {}
                _ => prop_assert_eq!(primaries(&after), 0),
            }

            // 4. A known name stays, and members of another set are not kept.
            prop_assert!(before.set_name.is_none() || after.set_name == before.set_name);
            for kept in after.servers.values() {
                prop_assert!(kept.set_name.is_none() || kept.set_name == after.set_name
                    || after.topology_type == TopologyType::Single && after.set_name.is_none());
            }

            // 5. In Sharded, a server found to be anything but Mongos or Unknown is removed.
            if after.topology_type == TopologyType::Sharded {
                let kept = after.servers.get(&server.address).map(|kept| kept.server_type);
                prop_assert!(matches!(kept, None | Some(ServerType::Mongos | ServerType::Unknown)));
            }

            // 6. Only a primary removes others; only members of the set add any.
            let removes_others = before
                .servers
                .keys()
                .any(|address| *address != server.address && !after.servers.contains_key(address));
            prop_assert!(!removes_others || server.server_type == ServerType::RSPrimary);
            let added = after.servers.keys().filter(|address| !before.servers.contains_key(*address));
            for address in added {
                prop_assert!(server.hosts.contains(address) && server.set_name == after.set_name);
            }
            before = after;
        }
    }

    #[test]
    fn any_bytes_become_a_description(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut document = (bytes.len() as i32 + 5).to_le_bytes().to_vec();
        document.extend_from_slice(&bytes);
        document.push(0);
        let reply = mangonel_bson::RawDocument::from_bytes(&document).unwrap();
        let described = ServerDescription::from_hello(address(0), reply, NOW);
        prop_assert_eq!(described.address, address(0));
    }

    #[test]
    fn any_text_is_an_address_or_refused(text in "[a-zA-Z0-9:\\[\\]./_-]{0,30}") {
        if let Ok(parsed) = Address::parse(&text) {
            prop_assert_eq!(Address::parse(parsed.as_str()).unwrap(), parsed);
        }
    }
}
