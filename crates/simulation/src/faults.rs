//! Carries out the plan's faults.

use crate::network::{Chunk, Owner};
use crate::plan::{Kind, Target};
use crate::queue::ms;
use crate::server::member::{Mischief, State};
use crate::server::stranger::Stranger;
use crate::trace::Who;
use crate::world::{Event, Undo, World};

impl World {
    pub(crate) fn cause(&mut self, number: usize) {
        let kind = self.plan.faults[number].kind;
        let now = self.queue.now();
        self.trace.note(now, Who::World, Who::World, || format!("{kind:?}"));
        match kind {
            Kind::Kill(target, down) => {
                if let Some(member) = self.member(target) {
                    self.set.kill(member);
                    self.undo_after(down, Undo::Restart(member));
                }
            }
            Kind::StepDown => {
                if let Some(member) = self.set.primary() {
                    self.set.step_down(member);
                }
            }
            Kind::Pause(target, still) => {
                if let Some(member) = self.member(target).filter(|&member| self.set.members[member].is_up()) {
                    self.set.members[member].state = State::Paused;
                    self.undo_after(still, Undo::Resume(member));
                }
            }
            Kind::Cut { line, to_server, bytes } => {
                if let Some(line) = self.open_line_of(line) {
                    self.network.cut_after(line, to_server, bytes);
                }
            }
            Kind::HalfOpen(line, noticed) => {
                if let Some(line) = self.open_line_of(line) {
                    self.network.lines[line].is_dead = true;
                    self.healed = self.healed.max(now + ms(noticed));
                    self.queue.after(ms(noticed), Event::KeepAlive(line));
                }
            }
            Kind::Part { client, member, is_one_way, milliseconds } => {
                let client = client as usize % self.drivers.len();
                if let Some(member) = self.member(member) {
                    for to_server in [false, true] {
                        if !(to_server && is_one_way) {
                            self.network.blocked.insert((client, member, to_server));
                            self.undo_after(milliseconds, Undo::Unblock(client, member, to_server));
                        }
                    }
                }
            }
            Kind::Isolate(target, milliseconds) => {
                if let Some(member) = self.member(target) {
                    let others = (0..self.set.members.len()).filter(|&other| other != member);
                    let cuts: Vec<(usize, usize)> = others.map(|other| (member, other)).collect();
                    self.set.cuts.extend(cuts);
                    self.undo_after(milliseconds, Undo::Rejoin(member));
                }
            }
            Kind::Slow { client, member, extra, milliseconds } => {
                let client = client as usize % self.drivers.len();
                if let Some(member) = self.member(member) {
                    self.network.slow.push((client, member, extra));
                    self.undo_after(milliseconds, Undo::Hasten(client, member, extra));
                }
            }
            Kind::Mischief(target, mischief, times) => {
                if let Some(member) = self.member(target) {
                    let met = std::iter::repeat_n(mischief, times);
                    self.set.members[member].mischief.extend(met);
                    if mischief == Mischief::CloseAfter {
                        // The server refuses the retry without doing anything; the first attempt was applied.
                        self.set.members[member].mischief.push_back(Mischief::Refuse(10107));
                    }
                }
            }
            Kind::Cancel(client, worker) => {
                let client = client as usize % self.drivers.len();
                let worker = worker as usize % self.plan.clients[client].workers.len();
                if self.drivers[client].asleep_until(now).is_some() {
                    return;
                }
                self.cancel(client, worker);
                self.follow_up(client);
            }
            Kind::Forge(target, how, times) => {
                if let Some(member) = self.member(target) {
                    let met = std::iter::repeat_n(how, times as usize);
                    self.set.members[member].forgeries.extend(met);
                }
            }
            Kind::Expire => self.set.logins.valid_from += 1,
            Kind::Suspend(client, milliseconds) => {
                let client = client as usize % self.drivers.len();
                self.drivers[client].suspend(now, now + ms(milliseconds));
                self.healed = self.healed.max(now + ms(milliseconds));
            }
            Kind::Unname(client, target, milliseconds) => {
                let client = client as usize % self.drivers.len();
                if let Some(member) = self.member(target)
                    && self.unnamed.insert((client, member))
                {
                    self.undo_after(milliseconds, Undo::Name(client, member));
                }
            }
            Kind::Distrust(target, milliseconds) => {
                if let Some(member) = self.member(target)
                    && self.distrusted.insert(member)
                {
                    self.undo_after(milliseconds, Undo::Trust(member));
                }
            }
            // The client takes a router that answers under another router's name for that router.
            Kind::Mislead(_, Stranger::Router, _) if self.plan.is_cluster => {}
            Kind::Mislead(target, stranger, milliseconds) => {
                if let Some(member) = self.member(target)
                    && self.strangers.insert(member, stranger).is_none()
                {
                    self.undo_after(milliseconds, Undo::Lead(member));
                }
            }
            Kind::Name(routers) => self.named = routers,
            Kind::Reconfigure => self.set.reconfigure(),
            Kind::Damage(line, how) => {
                let line = self.open_line_of(line).map(|line| &mut self.network.lines[line]);
                if let Some(line) = line.filter(|line| matches!(line.owner, Owner::Link(_))) {
                    line.damage = Some(how);
                    self.drivers[line.client].is_damaged = true;
                    self.set.logins.refusals += 1;
                }
            }
            Kind::Fork(client) | Kind::CloseLoop(client) | Kind::Close(client) => {
                let client = client as usize % self.drivers.len();
                if self.drivers[client].asleep_until(now).is_some() {
                    return;
                }
                match kind {
                    Kind::Fork(_) => self.fork(client),
                    Kind::Close(_) => self.drivers[client].client.close(now),
                    _ => self.close_loop(client),
                }
                self.follow_up(client);
            }
            Kind::Drop => self.set.drop_orders(),
            Kind::Forget => self.set.forget_log(),
            Kind::Jump(target, seconds) => {
                if let Some(member) = self.member(target) {
                    self.set.members[member].skew = seconds;
                }
            }
        }
    }

    fn undo_after(&mut self, milliseconds: u64, undo: Undo) {
        let when = self.queue.now() + ms(milliseconds);
        self.healed = self.healed.max(when);
        self.queue.at(when, Event::Undo(undo));
    }

    fn member(&self, target: Target) -> Option<usize> {
        match target {
            Target::Primary => self.set.primary(),
            Target::Member(member) => Some(member),
        }
    }

    /// Picks one of the connections that both sides have open.
    fn open_line_of(&self, pick: u64) -> Option<usize> {
        let open: Vec<usize> = self
            .network
            .open
            .iter()
            .copied()
            .filter(|&line| {
                self.network.lines[line].is_client_open && self.network.lines[line].is_server_open
            })
            .collect();
        // Connections of pools rather than those of monitors.
        let pooled: Vec<usize> = open
            .iter()
            .copied()
            .filter(|&line| matches!(self.network.lines[line].owner, Owner::Link(_)))
            .collect();
        let among = if pooled.is_empty() || pick.is_multiple_of(4) { open } else { pooled };
        (!among.is_empty()).then(|| among[(pick / 4) as usize % among.len()])
    }

    /// The client closes a connection.
    pub(crate) fn close_client(&mut self, line: usize) {
        if self.network.lines[line].is_client_open {
            self.network.lines[line].is_client_open = false;
            self.send(line, true, Chunk::End);
            self.network.settle(line);
        }
    }
}
