//! The plan that a seed generates: the deployment, the clients, their work and their faults. A plan is plain data, so
//! that a failing one can be shrunk.

mod setting;

use std::time::Duration;

use mangonel_proto::auth::login::Login;
use mangonel_proto::auth::{Credential, Mechanism, Secret};
use mangonel_proto::compress::Compressor;
use mangonel_proto::options::{ClientOptions, PoolOptions};
use mangonel_proto::topology::{Address, MonitorSettings, ServerMonitoringMode, TopologySettings};

pub use self::setting::Setting;
use crate::chance::Chance;
use crate::damage::Damage;
use crate::queue::ms;
use crate::server::login::{Forgery, PASSWORD, USER};
use crate::server::member::{Duty, Mischief};
use crate::server::stranger::Stranger;
use crate::wire;
use crate::workload::RUNS;

/// A wrong password.
pub(crate) const WRONG_PASSWORD: &str = "guess";

/// The API version that a client with a server API sends in each command.
pub(crate) const API_VERSION: &str = "1";

/// The work that a worker repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Inserts documents, several at once now and then.
    Insert,
    /// Increments counters, and reads them.
    Count,
    /// Moves value between accounts in transactions.
    Transfer,
    /// Writes and reads its own writes in a causal session.
    Causal,
    /// Reads a collection that does not change, through cursors.
    Browse,
    /// Follows the inserts.
    Watch,
    /// Writes that must not be sent twice, and some that are not answered.
    Plain,
    /// Reads a file whose chunks are received directly into memory.
    Fetch,
    /// Writes to several collections with one command.
    Bulk,
}

/// The member that a fault affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The primary at that time.
    Primary,
    /// This one.
    Member(usize),
}

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A member's process is killed, and started again after this many milliseconds.
    Kill(Target, u64),
    /// The primary steps down.
    StepDown,
    /// A member is paused for this many milliseconds.
    Pause(Target, u64),
    /// One connection breaks after this many bytes more in one direction.
    Cut {
        /// Which of the open ones.
        line: u64,
        /// The direction.
        to_server: bool,
        /// The bytes.
        bytes: usize,
    },
    /// One connection goes silent; the client's kernel notices after this many milliseconds.
    HalfOpen(u64, u64),
    /// Bytes between a client and a member are lost, in both directions or in one.
    Part {
        /// The client.
        client: u64,
        /// The member.
        member: Target,
        /// Whether only the way to the client is blocked.
        is_one_way: bool,
        /// For this many milliseconds.
        milliseconds: u64,
    },
    /// A member and the others do not reach each other.
    Isolate(Target, u64),
    /// Bytes between a client and a member take longer.
    Slow {
        /// The client.
        client: u64,
        /// The member.
        member: Target,
        /// By this many milliseconds.
        extra: u64,
        /// For this many milliseconds.
        milliseconds: u64,
    },
    /// This mischief affects the next commands of a member.
    Mischief(Target, Mischief, usize),
    /// A worker gives up its current operation.
    Cancel(u64, u64),
    /// A member's clock jumps by this many seconds.
    Jump(Target, i64),
    /// An impostor answers the next logins at a member.
    Forge(Target, Forgery, u32),
    /// All tokens issued so far expire.
    Expire,
    /// A client's process is suspended for this many milliseconds.
    Suspend(u64, u64),
    /// A client cannot resolve a member's name for this many milliseconds.
    Unname(u64, Target, u64),
    /// A member shows a certificate that is not trusted for this many milliseconds.
    Distrust(Target, u64),
    /// DNS names these routers from now on, a bit for each; 0 for no answer.
    Name(u64),
    /// The collection that streams follow is dropped, and made again.
    Drop,
    /// Members forget the oldest part of their logs.
    Forget,
    /// A member's name leads new connections to another machine for this many milliseconds.
    Mislead(Target, Stranger, u64),
    /// A client's process forks and ends; its child continues.
    Fork(u64),
    /// The set gets another version of its configuration.
    Reconfigure,
    /// The next answer on one connection of a pool is damaged.
    Damage(u64, Damage),
    /// A client is closed with everything running in it.
    Close(u64),
    /// A client's event loop is closed with everything running in it; another loop continues.
    CloseLoop(u64),
}

/// A fault and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Milliseconds from the start.
    pub at: u64,
    /// What.
    pub kind: Kind,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// What its workers do.
    pub workers: Vec<Work>,
    /// Its options, except for seeds and metadata.
    pub options: ClientOptions,
    /// Whether it notices at once that an idle connection was closed, as asyncio does, or only when it uses the
    /// connection.
    pub is_watchful: bool,
    /// Which events it listens to.
    pub interests: u8,
    /// Whether it counts its operations.
    pub is_counting: bool,
    /// Whether it makes spans of its commands.
    pub is_traced: bool,
    /// Whether it is made with other options, and gets these before its first operation.
    pub is_reconfigured: bool,
    /// How many of 100 operations step aside before they begin.
    pub asides: u64,
    /// How many of 100 questions get no answer.
    pub unanswered: u64,
    /// Whether its listeners are added after it was made.
    pub hears_late: bool,
    /// Whether woken operations continue a little later, as threads do.
    pub wakes_late: bool,
    /// Whether all its logins fail: it does not know the password, or may not send it.
    pub is_outsider: bool,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The members and their priorities.
    pub members: Vec<(Duty, u64)>,
    /// Microseconds between each client and each member.
    pub latency: Vec<Vec<u64>>,
    /// How many of 100 chunks are split.
    pub split: u64,
    /// How many routers are in front of the set; with 0, clients connect to its members.
    pub routers: usize,
    /// Whether clients know the routers by their own names; else they are behind a load balancer.
    pub is_cluster: bool,
    /// Whether clients get the routers' names from DNS, and the most routers they use; 0 for all.
    pub srv: Option<usize>,
    /// How many unread bytes a connection holds for its member.
    pub buffer: usize,
    /// Whether there is a user, as whom all clients log in.
    pub has_user: bool,
    /// Whether hello may carry the first step of a login.
    pub is_speculative: bool,
    /// The compressors that the members have.
    pub compressors: Vec<&'static str>,
    /// Further properties of servers.
    pub setting: Setting,
    /// After how many milliseconds members close unused cursors.
    pub cursor_timeout: u64,
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// When workers stop beginning new operations, in milliseconds.
    pub end: u64,
}

impl Plan {
    /// Makes the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 1);
        let members = members(&mut chance);
        let mut clients: Vec<ClientPlan> =
            (0..chance.pick(&[1, 1, 2, 3])).map(|_| client(&mut chance, members.len())).collect();
        let latency = (0..clients.len())
            .map(|_| (0..members.len()).map(|_| chance.pick(&[150, 300, 700, 2_000, 12_000])).collect())
            .collect();
        let end = chance.between(5_000, 9_000);
        let mut faults: Vec<Fault> = (0..chance.below(9))
            .map(|_| Fault { at: chance.between(200, end), kind: kind(&mut chance, members.len()) })
            .collect();
        faults.sort_by_key(|fault| fault.at);
        let split = chance.pick(&[0, 0, 3, 20]);
        let mut chance = Chance::new(seed, 4);
        let has_user = chance.percent(35);
        for client in &mut clients {
            client.options.login = has_user.then(|| login(&mut chance));
            client.options.compressors = compressors(&mut chance);
        }
        if has_user && chance.percent(30) {
            let at = chance.between(200, end);
            let forgery = chance.pick(Forgery::ALL);
            let kind = Kind::Forge(target(&mut chance, members.len()), forgery, chance.pick(&[1, 1, 5]));
            faults.push(Fault { at, kind });
        }
        let has_many = chance.percent(60);
        let routers = if Chance::new(seed, 5).percent(15) { chance.pick(&[1, 2, 3]) } else { 0 };
        for client in clients.iter_mut().filter(|_| routers > 0) {
            let topology = &mut client.options.topology;
            (topology.seeds, topology.set_name, topology.is_load_balanced) = (vec![address(0)], None, true);
        }
        let mut plan = Plan {
            seed,
            members,
            latency,
            split,
            routers,
            is_cluster: false,
            srv: None,
            buffer: usize::MAX,
            has_user,
            is_speculative: chance.percent(70),
            compressors: if has_many { vec!["snappy", "zstd", "zlib"] } else { vec!["zlib"] },
            setting: Setting::default(),
            cursor_timeout: chance.pick(&[600_000, 600_000, 400]),
            clients,
            faults,
            end,
        };
        plan.widen(&mut Chance::new(seed, 6));
        plan.vary(&mut Chance::new(seed, 8));
        plan.set(&mut Chance::new(seed, 9));
        plan.faults.sort_by_key(|fault| fault.at);
        plan
    }

    /// Whether clients reach the routers through a load balancer.
    pub fn is_balanced(&self) -> bool {
        self.routers > 0 && !self.is_cluster
    }

    /// Draws the rarer properties.
    fn widen(&mut self, chance: &mut Chance) {
        let count = self.members.len();
        self.buffer = chance.pick(&[usize::MAX, usize::MAX, 4_000, 300]);
        if count > 2 && self.members[count - 1].0 == Duty::Bearing && chance.percent(15) {
            self.members[count - 1] = (Duty::Delayed, 0);
        }
        if self.routers == 0 && chance.percent(14) {
            self.put_routers_before(chance);
        }
        for _ in 0..chance.pick(&[0, 0, 0, 1, 1, 2]) {
            let at = chance.between(200, self.end);
            let kind = rare_kind(chance, count);
            self.faults.push(Fault { at, kind });
        }
        if self.has_user {
            for client in &mut self.clients {
                client.options.login = Some(other_login(chance, client.options.login.take()));
            }
            for _ in 0..chance.pick(&[0, 1, 3]) {
                self.faults.push(Fault { at: chance.between(200, self.end), kind: Kind::Expire });
            }
        }
    }

    /// Draws further properties of clients.
    fn vary(&mut self, chance: &mut Chance) {
        for client in &mut self.clients {
            if chance.percent(12) {
                client.options.server_api =
                    wire::document(|out| mangonel_bson::append_str(out, "apiVersion", API_VERSION));
            }
            if chance.percent(15) {
                client.options.timeout = Some(ms(chance.pick(&[5, 15, 40, 150])));
            }
            (client.is_traced, client.is_reconfigured) = (chance.percent(20), chance.percent(15));
        }
        let has_own_names = self.routers == 0;
        for client in self.clients.iter_mut().filter(|_| has_own_names) {
            if chance.percent(6) {
                let topology = &mut client.options.topology;
                (topology.is_direct, topology.seeds) = (true, vec![topology.seeds[0].clone()]);
            }
        }
        for client in self.clients.iter_mut().filter(|client| client.options.login.is_some()) {
            client.is_outsider = chance.percent(6);
            if let Some(login) = &mut client.options.login {
                if client.is_outsider {
                    *login = outsider(chance, login.credential());
                } else if chance.percent(20) {
                    login.allow_hosts(vec!["*.example".into()]);
                }
            }
        }
        if chance.percent(15) {
            let target = target(chance, self.members.len());
            let kind = Kind::Mislead(target, chance.pick(Stranger::ALL), chance.between(100, 4_000));
            self.faults.push(Fault { at: chance.between(200, self.end), kind });
        }
        for kind in [Kind::Fork as fn(u64) -> Kind, Kind::CloseLoop] {
            if chance.percent(8) {
                let at = chance.between(200, self.end);
                self.faults.push(Fault { at, kind: kind(chance.number()) });
            }
        }
    }

    fn put_routers_before(&mut self, chance: &mut Chance) {
        let routers = chance.pick(&[1, 2, 3]).min(self.members.len());
        (self.routers, self.is_cluster) = (routers, true);
        for client in &mut self.clients {
            let topology = &mut client.options.topology;
            (topology.seeds, topology.set_name) = ((0..routers).map(address).collect(), None);
        }
        if routers > 1 && chance.percent(50) {
            self.srv = Some(chance.pick(&[0, 0, 1, 2]));
            // DNS is queried at most once a minute.
            self.end = chance.between(70_000, 140_000);
            for _ in 0..chance.between(1, 3) {
                let kind = Kind::Name(chance.below(1 << routers));
                self.faults.push(Fault { at: chance.between(200, self.end), kind });
            }
        }
    }
}

/// Returns a mechanism that the first draw does not include, or the drawn one.
fn other_login(chance: &mut Chance, drawn: Option<Login>) -> Login {
    let mechanism = chance.pick(&[
        None,
        None,
        Some(Mechanism::X509),
        Some(Mechanism::Plain),
        Some(Mechanism::Oidc),
        Some(Mechanism::Aws),
        Some(Mechanism::Gssapi),
    ]);
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(&chance.bytes());
    let Some(mechanism) = mechanism else { return drawn.unwrap_or_else(|| login(chance)) };
    let has_name = matches!(mechanism, Mechanism::Plain | Mechanism::Aws | Mechanism::Gssapi);
    let has_password = matches!(mechanism, Mechanism::Plain | Mechanism::Aws);
    let credential = Credential {
        username: has_name.then(|| USER.into()),
        password: has_password.then(|| Secret::new(PASSWORD)),
        source: "$external".into(),
        mechanism: Some(mechanism),
    };
    Login::new(credential, seed)
}

/// Returns a login that fails everywhere.
fn outsider(chance: &mut Chance, known: &Credential) -> Login {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(&chance.bytes());
    // The second one holds a character that no password may have.
    let password = chance.pick(&[WRONG_PASSWORD, "guess\u{7}", PASSWORD]);
    let credential = Credential {
        username: Some(USER.into()),
        password: Some(Secret::new(password)),
        source: known.source.clone(),
        mechanism: known.mechanism.filter(|known| {
            matches!(known, Mechanism::ScramSha1 | Mechanism::ScramSha256 | Mechanism::Plain)
        }),
    };
    let mut login = Login::new(credential, seed);
    if password == PASSWORD {
        login.allow_hosts(vec!["elsewhere.example".into(), "*.org".into()]);
    }
    login
}

/// Returns one of the rarer faults.
fn rare_kind(chance: &mut Chance, members: usize) -> Kind {
    let target = target(chance, members);
    match chance.below(6) {
        0 | 1 => Kind::Suspend(chance.number(), chance.pick(&[20, 400, 3_000, 12_000])),
        2 => Kind::Unname(chance.number(), target, chance.between(100, 4_000)),
        3 => Kind::Distrust(target, chance.between(100, 4_000)),
        4 => Kind::Drop,
        _ => Kind::Forget,
    }
}

fn login(chance: &mut Chance) -> Login {
    let mechanism = chance.pick(&[None, None, Some(Mechanism::ScramSha256), Some(Mechanism::ScramSha1)]);
    login_by(chance, mechanism)
}

/// Returns a login of the user with a password.
fn login_by(chance: &mut Chance, mechanism: Option<Mechanism>) -> Login {
    let credential = Credential {
        username: Some(USER.into()),
        password: Some(Secret::new(PASSWORD)),
        source: "admin".into(),
        mechanism,
    };
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(&chance.bytes());
    Login::new(credential, seed)
}

fn compressors(chance: &mut Chance) -> Vec<Compressor> {
    let zlib = Compressor::Zlib { level: chance.pick(&[-1, 0, 9]) };
    // Compressing takes longer than all the rest of a command.
    match chance.below(16) {
        0 => vec![Compressor::Snappy],
        1 => vec![Compressor::Zstd, zlib],
        2 => vec![zlib],
        _ => Vec::new(),
    }
}

fn members(chance: &mut Chance) -> Vec<(Duty, u64)> {
    let count = chance.pick(&[1, 3, 3, 3, 3, 5, 7]);
    let mut members: Vec<(Duty, u64)> = (0..count).map(|_| (Duty::Bearing, chance.between(1, 3))).collect();
    if count > 1 && chance.percent(15) {
        members[count - 1] = (Duty::Arbiter, 0);
    } else if count > 3 && chance.percent(30) {
        members[count - 1] = (Duty::Hidden, 0);
    }
    members
}

fn client(chance: &mut Chance, members: usize) -> ClientPlan {
    const WORKS: &[Work] = &[
        Work::Insert,
        Work::Insert,
        Work::Count,
        Work::Count,
        Work::Transfer,
        Work::Transfer,
        Work::Causal,
        Work::Browse,
        Work::Watch,
        Work::Plain,
        Work::Fetch,
        Work::Bulk,
    ];
    let workers = (0..chance.between(1, 5)).map(|_| chance.pick(WORKS)).collect();
    ClientPlan {
        workers,
        options: options(chance, members),
        is_watchful: chance.percent(50),
        interests: chance.pick(&[0, 0, 0, 0xFF, 0xFF, 1, 2, 4, 8, 16]),
        is_counting: chance.percent(30),
        is_traced: false,
        is_reconfigured: false,
        asides: 0,
        unanswered: 0,
        hears_late: false,
        wakes_late: false,
        is_outsider: false,
    }
}

/// The number of a host that does not exist.
pub(crate) const NOWHERE: usize = 15;

/// Returns a member's address.
pub fn address(member: usize) -> Address {
    /// More than there are members.
    const MOST: usize = NOWHERE + 1;
    thread_local! {
        /// Made once for each thread: some are looked up with every event.
        static KNOWN: Vec<Address> =
            (0..MOST).map(|member| Address::new(&format!("m{member}.example"), 27017)).collect();
    }
    KNOWN.with(|known| known[member].clone())
}

fn options(chance: &mut Chance, members: usize) -> ClientOptions {
    let limit = |chance: &mut Chance, percent, choices: &[u64]| {
        let milliseconds = chance.pick(choices);
        chance.percent(percent).then(|| ms(milliseconds))
    };
    let max_pool_size = chance.pick(&[1, 2, 3, 10, 100]);
    let seeds = if chance.percent(70) { members } else { 1 };
    ClientOptions {
        topology: TopologySettings {
            seeds: (0..seeds).map(address).collect(),
            set_name: Some("rs0".into()),
            monitor: MonitorSettings {
                heartbeat_frequency: ms(chance.pick(&[500, 2_000, 10_000])),
                connect_timeout: Some(ms(chance.pick(&[1_000, 5_000, 20_000]))),
                mode: chance.pick(&[
                    ServerMonitoringMode::Auto,
                    ServerMonitoringMode::Auto,
                    ServerMonitoringMode::Poll,
                ]),
                ..MonitorSettings::default()
            },
            ..TopologySettings::default()
        },
        local_threshold: ms(chance.pick(&[0, 15, 15, 100])),
        has_selector: chance.percent(10),
        pool: PoolOptions {
            max_pool_size,
            min_pool_size: chance.pick(&[0, 0, 0, 1, 2]).min(max_pool_size),
            max_connecting: chance.pick(&[1, 2, 2]),
            max_idle_time: limit(chance, 20, &[300, 2_000]),
        },
        wait_queue_timeout: limit(chance, 30, &[5, 50, 1_000]),
        connect_timeout: limit(chance, 90, &[500, 5_000, 20_000]),
        socket_timeout: limit(chance, 25, &[50, 400, 3_000]),
        server_selection_timeout: ms(chance.pick(&[400, 3_000, 30_000])),
        retry_reads: chance.percent(85),
        retry_writes: chance.percent(85),
        max_adaptive_retries: chance.pick(&[0, 1, 2, 2, 5]),
        enable_overload_retargeting: chance.percent(30),
        timeout: limit(chance, 25, &[30, 300, 2_000, 20_000]),
        metadata: wire::document(|out| {
            wire::append_document(out, "driver", |out| mangonel_bson::append_str(out, "name", "simulation"));
        }),
        server_api: Vec::new(),
        login: None,
        compressors: Vec::new(),
    }
}

fn target(chance: &mut Chance, members: usize) -> Target {
    if chance.percent(60) { Target::Primary } else { Target::Member(chance.below(members as u64) as usize) }
}

fn kind(chance: &mut Chance, members: usize) -> Kind {
    let target = target(chance, members);
    match chance.below(20) {
        0 | 1 => Kind::Kill(target, chance.between(100, 4_000)),
        2 | 3 => Kind::StepDown,
        4 => Kind::Pause(target, chance.between(100, 5_000)),
        5..=8 => Kind::Cut {
            line: chance.number(),
            to_server: chance.percent(40),
            bytes: chance.pick(&[0, 1, 15, 16, 20, 60, 200, 500, 2_000]),
        },
        9 => Kind::HalfOpen(chance.number(), chance.between(500, 15_000)),
        10 | 11 => Kind::Part {
            client: chance.number(),
            member: target,
            is_one_way: chance.percent(40),
            milliseconds: chance.between(50, 6_000),
        },
        12 | 13 => Kind::Isolate(target, chance.between(500, 6_000)),
        14 => Kind::Slow {
            client: chance.number(),
            member: target,
            extra: chance.pick(&[5, 50, 500]),
            milliseconds: chance.between(100, 4_000),
        },
        15 | 16 => Kind::Mischief(target, mischief(chance), chance.pick(&[1, 1, 2, 4, 12])),
        17 | 18 => Kind::Cancel(chance.number(), chance.number()),
        _ => Kind::Jump(target, chance.between(0, 200) as i64 - 100),
    }
}

fn mischief(chance: &mut Chance) -> Mischief {
    match chance.below(7) {
        0 => Mischief::Refuse(chance.pick(&[10107, 13436, 91, 11602, 189, 11600, 50, 6])),
        1 => Mischief::CloseBefore,
        2 => Mischief::CloseAfter,
        3 => Mischief::WriteConcern(chance.pick(&[91, 189, 64, 100])),
        4 => Mischief::Block(chance.pick(&[5, 100, 1_000])),
        _ => Mischief::Overload,
    }
}

/// Returns how long it may take until everything has ended after the last fault.
pub fn heal_timeout(options: &ClientOptions) -> Duration {
    // A wait for a server, for each attempt; and for a connection that carries nothing, a heartbeat.
    let attempts = 2 + options.max_adaptive_retries;
    // Commits and aborts that are refused are repeated as long as their time lasts, one after the other.
    options.server_selection_timeout * attempts
        + options.timeout.unwrap_or_default() * RUNS
        + options.topology.monitor.heartbeat_frequency * 2
        + options.topology.monitor.connect_timeout.unwrap_or_default()
        + Duration::from_secs(60)
}
