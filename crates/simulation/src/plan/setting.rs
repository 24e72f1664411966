//! Traits that few worlds have: old servers and users, short messages, slow and failing answers, operations that step
//! aside.

use mangonel_proto::auth::Mechanism;

use super::{Fault, Kind, Plan, Target, target};
use crate::chance::Chance;
use crate::damage::Damage;
use crate::server::login::REAUTHENTICATION_REQUIRED;
use crate::server::member::Mischief;
use crate::server::set::{LARGEST, NEWEST_WIRE};

/// Traits of the servers that only a few worlds change.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The newest wire version that members speak.
    pub wire: i32,
    /// The most bytes of a message that members take.
    pub largest: i32,
    /// Whether the user was created before servers had SCRAM-SHA-256.
    pub is_old_user: bool,
    /// Whether an empty message ends a login by SCRAM.
    pub has_empty_exchange: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Setting { wire: NEWEST_WIRE, largest: LARGEST, is_old_user: false, has_empty_exchange: false }
    }
}

impl Plan {
    /// Draws the setting, and the options that come with it.
    pub(super) fn set(&mut self, chance: &mut Chance) {
        self.setting = Setting {
            wire: chance.pick(&[NEWEST_WIRE, NEWEST_WIRE, NEWEST_WIRE, 17, 13, 9]),
            largest: if chance.percent(6) { 600 } else { LARGEST },
            is_old_user: chance.percent(30),
            has_empty_exchange: chance.percent(30),
        };
        for client in &mut self.clients {
            client.asides = chance.pick(&[0, 0, 0, 10]);
            client.unanswered = chance.pick(&[0, 0, 0, 5]);
            client.hears_late = chance.percent(40);
            if self.setting.is_old_user
                && !client.is_outsider
                && let Some(login) = &mut client.options.login
                && login.credential().mechanism == Some(Mechanism::ScramSha256)
            {
                *login = super::login_by(chance, None);
            }
        }
        for _ in 0..chance.pick(&[0, 0, 1, 3]) {
            self.faults.push(Fault { at: chance.between(200, self.end), kind: Kind::Reconfigure });
        }
        if chance.percent(25) {
            for _ in 0..chance.pick(&[1, 2, 6]) {
                let kind = Kind::Damage(chance.number(), chance.pick(Damage::ALL));
                self.faults.push(Fault { at: chance.between(200, self.end), kind });
            }
        }
        if chance.percent(8) {
            let at = chance.between(200, self.end);
            self.faults.push(Fault { at, kind: Kind::Close(chance.number()) });
        }
        if self.has_user && chance.percent(40) {
            let mischief = Mischief::Refuse(REAUTHENTICATION_REQUIRED);
            let kind =
                Kind::Mischief(target(chance, self.members.len()), mischief, chance.pick(&[1, 1, 2, 9]));
            self.faults.push(Fault { at: chance.between(200, self.end), kind });
        }
        self.forget_names(chance);
        // A transaction behind a load balancer keeps its connection.
        if self.is_balanced() && chance.percent(60) {
            let kind = Kind::Mischief(Target::Primary, Mischief::HangUp, chance.pick(&[1, 4, 12]));
            self.faults.push(Fault { at: chance.between(200, self.end / 2), kind });
        }
        // The connection is lost during reauthentication.
        let (refusal, end) = (Mischief::Refuse(REAUTHENTICATION_REQUIRED), Mischief::CloseBefore);
        let losses: &[Mischief] = if self.is_balanced() { &[Mischief::LoseLogin] } else { &[refusal, end] };
        if self.has_user && chance.percent(if self.is_balanced() { 90 } else { 40 }) {
            for _ in 0..chance.pick(&[1, 3, 9]) {
                let (at, whom) = (chance.between(200, self.end), target(chance, self.members.len()));
                for &mischief in losses {
                    self.faults.push(Fault { at, kind: Kind::Mischief(whom, mischief, 1) });
                }
            }
        }
        for client in &mut self.clients {
            client.wakes_late = chance.percent(30);
        }
    }

    /// Lets few clients learn the set's name from its members. Such a client would take another set for its own if it
    /// met that first; with a single seed, it would take a standalone for the whole deployment.
    fn forget_names(&mut self, chance: &mut Chance) {
        let is_misled = self.faults.iter().any(|fault| matches!(fault.kind, Kind::Mislead(..)));
        for client in self.clients.iter_mut().filter(|_| !is_misled) {
            let topology = &mut client.options.topology;
            if chance.percent(15) && (topology.seeds.len() > 1 || topology.is_direct) {
                topology.set_name = None;
            }
        }
    }
}
