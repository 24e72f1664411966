//! Clients that start over: in a forked child, and on another event loop.

use super::{Worker, flow_of};
use crate::chance::Chance;
use crate::desk::{Desk, Ending};
use crate::judge::Heard;
use crate::queue::ms;
use crate::world::{Event, World};

/// How far a child's turns are ahead of its parent's, so that no two writes share a name.
const TURNS: i64 = 20_000;

impl World {
    /// A client's process forks, and the parent ends: its connections close, and its operations never end. The child has
    /// the parent's knowledge, and begins its work again.
    pub(crate) fn fork(&mut self, client: usize) {
        let now = self.queue.now();
        for line in self.network.open.clone() {
            if self.network.lines[line].client == client {
                self.close_client(line);
            }
        }
        let driver = &mut self.drivers[client];
        let seed = driver.chance.bytes();
        driver.client.restart_in_child(seed, now);
        driver.links.clear();
        driver.observers.clear();
        driver.strangers.clear();
        driver.lost.clear();
        driver.inherited.append(&mut driver.sessions);
        (driver.told, driver.counted, driver.primary, driver.named) = (0, 0, None, None);
        driver.heard = Heard::default();
        driver.forks += 1;
        let turn = driver.forks * TURNS;
        for worker in 0..driver.workers.len() {
            let was_working = driver.workers[worker].flow.is_some();
            let desk = Desk::new();
            let chance = Chance::new(driver.chance.number(), 7);
            let flow =
                was_working.then(|| flow_of(&self.plan, (client, worker), &desk, &self.ledger, chance, turn));
            driver.workers[worker] = Worker { ticket: self.queue.ticket(), ..Worker::new(desk, flow) };
            if was_working {
                self.queue.after(ms(1), Event::Begin(client, worker));
            }
        }
        self.follow_up(client);
    }

    /// Closes a client's event loop with everything running in it, and uses the client on another loop.
    pub(crate) fn close_loop(&mut self, client: usize) {
        let workers = 0..self.drivers[client].workers.len();
        let endings: Vec<Option<Box<Ending>>> =
            workers.map(|worker| self.give_up(client, worker).map(Box::new)).collect();
        let driver = &mut self.drivers[client];
        let links = driver.client.close_shard(driver.shard);
        driver.shard = driver.client.open_shard();
        self.close_links(client, &links);
        self.follow_up(client);
        let left = self.drivers[client].links.len();
        if left > 0 {
            self.blame(format!("client {client}: {left} connections outlived their event loop"));
        }
        for (worker, ending) in endings.into_iter().enumerate().filter(|(_, ending)| ending.is_some()) {
            self.go_on_with(client, worker, ending);
        }
    }
}
