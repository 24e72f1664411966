//! Read preferences: which members of a replica set may answer a read. Selects no server; see
//! [`crate::topology::select`]. Spec: server-selection, "Read preference"; max-staleness.

use std::fmt;

use mangonel_bson as bson;

/// The kinds of members that may answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The primary only.
    #[default]
    Primary,
    /// The primary, or a secondary if there is none.
    PrimaryPreferred,
    /// A secondary only.
    Secondary,
    /// A secondary, or the primary if no secondary is suitable.
    SecondaryPreferred,
    /// Any member within the latency window.
    Nearest,
}

const MODES: &[(&str, Mode)] = &[
    ("primary", Mode::Primary),
    ("primaryPreferred", Mode::PrimaryPreferred),
    ("secondary", Mode::Secondary),
    ("secondaryPreferred", Mode::SecondaryPreferred),
    ("nearest", Mode::Nearest),
];

impl Mode {
    /// Returns the mode that URIs and commands call `name`.
    pub fn from_name(name: &str) -> Option<Mode> {
        MODES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// Returns the name used in URIs and commands.
    pub fn name(self) -> &'static str {
        MODES[self as usize].0
    }
}

/// Tags, all of which a server must have. The empty set matches every server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TagSet(pub Vec<(String, String)>);

impl TagSet {
    /// Returns whether a server with these tags has all tags of this set.
    pub fn is_matched_by(&self, tags: &[(String, String)]) -> bool {
        self.0.iter().all(|tag| tags.contains(tag))
    }
}

/// A read preference without contradictions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadPreference {
    mode: Mode,
    tag_sets: Vec<TagSet>,
    max_staleness_seconds: Option<u64>,
    hedge: Option<Vec<u8>>,
}

/// The reason why a read preference is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPreferenceError {
    /// Mode primary allows no tags: there is only one primary.
    TagsWithPrimary,
    /// Mode primary allows no limit on staleness.
    MaxStalenessWithPrimary,
    /// Mode primary allows no hedged reads.
    HedgeWithPrimary,
    /// A limit on staleness is a positive number of seconds.
    MaxStaleness {
        /// The number found.
        found: i64,
    },
}

impl fmt::Display for ReadPreferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::TagsWithPrimary => "tag sets",
            Self::MaxStalenessWithPrimary => "maxStalenessSeconds",
            Self::HedgeWithPrimary => "hedge",
            Self::MaxStaleness { found } => {
                return write!(f, "expected maxStalenessSeconds to be positive or -1 for none, got {found}");
            }
        };
        write!(f, "expected no {what} with read preference \"primary\"; use another mode")
    }
}

impl std::error::Error for ReadPreferenceError {}

impl ReadPreference {
    /// Reads from the primary, the default.
    pub const PRIMARY: ReadPreference = ReadPreference {
        mode: Mode::Primary,
        tag_sets: Vec::new(),
        max_staleness_seconds: None,
        hedge: None,
    };

    /// Makes a read preference.
    ///
    /// Tag sets are tried in order, and the first that any server matches decides; without tag sets, all servers match.
    /// A `max_staleness_seconds` of -1 sets no limit. `hedge` is a whole BSON document.
    ///
    /// # Errors
    /// With mode primary nothing else may be set; a limit on staleness must be positive.
    pub fn new(
        mode: Mode,
        tag_sets: Vec<TagSet>,
        max_staleness_seconds: i64,
        hedge: Option<Vec<u8>>,
    ) -> Result<ReadPreference, ReadPreferenceError> {
        let max_staleness_seconds = match max_staleness_seconds {
            -1 => None,
            found if found <= 0 => return Err(ReadPreferenceError::MaxStaleness { found }),
            seconds => Some(seconds.unsigned_abs()),
        };
        // A single empty tag set means the same as none.
        let tag_sets = if tag_sets.iter().all(|set| set.0.is_empty()) { Vec::new() } else { tag_sets };
        if mode == Mode::Primary {
            if !tag_sets.is_empty() {
                return Err(ReadPreferenceError::TagsWithPrimary);
            }
            if max_staleness_seconds.is_some() {
                return Err(ReadPreferenceError::MaxStalenessWithPrimary);
            }
            if hedge.is_some() {
                return Err(ReadPreferenceError::HedgeWithPrimary);
            }
        }
        Ok(ReadPreference { mode, tag_sets, max_staleness_seconds, hedge })
    }

    /// Returns the preference of this mode with nothing else set.
    pub const fn from_mode(mode: Mode) -> ReadPreference {
        ReadPreference { mode, tag_sets: Vec::new(), max_staleness_seconds: None, hedge: None }
    }

    /// Reads the `$readPreference` document of a command.
    ///
    /// # Errors
    /// When it is invalid; the text names what was expected and what was found.
    pub fn from_document(document: bson::RawDocument<'_>) -> Result<ReadPreference, String> {
        let wrong = |error: bson::Error| error.to_string();
        let name = document.get_str("mode").map_err(wrong)?.unwrap_or("primary");
        let mode =
            Mode::from_name(name).ok_or_else(|| format!("expected a read preference mode, got {name:?}"))?;
        let mut tag_sets = Vec::new();
        if let Some(sets) = document.get_array("tags").map_err(wrong)? {
            for set in sets.iter() {
                let bson::RawValue::Document(set) = set.map_err(wrong)? else { continue };
                let mut tags = Vec::new();
                for tag in set.iter() {
                    let tag = tag.map_err(wrong)?;
                    if let bson::RawValue::String(value) = tag.value {
                        tags.push((tag.key.to_owned(), value.to_owned()));
                    }
                }
                tag_sets.push(TagSet(tags));
            }
        }
        let staleness = document.get_i64_lenient("maxStalenessSeconds").map_err(wrong)?.unwrap_or(-1);
        let hedge = document.get_document("hedge").map_err(wrong)?.map(|hedge| hedge.as_bytes().to_vec());
        ReadPreference::new(mode, tag_sets, staleness, hedge).map_err(|error| error.to_string())
    }

    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the tag sets, in the order in which they are tried; empty if every server matches.
    pub fn tag_sets(&self) -> &[TagSet] {
        &self.tag_sets
    }

    /// Returns how far behind the primary a secondary may be, in seconds.
    pub fn max_staleness_seconds(&self) -> Option<u64> {
        self.max_staleness_seconds
    }

    /// Appends the preference to a command, under `key` (`$readPreference`).
    pub fn append_to(&self, out: &mut Vec<u8>, key: &str) {
        let start = bson::begin_subdocument(out, key);
        bson::append_str(out, "mode", self.mode.name());
        if !self.tag_sets.is_empty() {
            let array = bson::begin_array(out, "tags");
            for (index, set) in self.tag_sets.iter().enumerate() {
                let document = bson::begin_subdocument(out, &index.to_string());
                for (name, value) in &set.0 {
                    bson::append_str(out, name, value);
                }
                bson::end_document(out, document);
            }
            bson::end_document(out, array);
        }
        if let Some(seconds) = self.max_staleness_seconds {
            // The type that a number in the user's own document would have.
            match i32::try_from(seconds) {
                Ok(seconds) => bson::append_i32(out, "maxStalenessSeconds", seconds),
                Err(_) => {
                    bson::append_i64(out, "maxStalenessSeconds", i64::try_from(seconds).unwrap_or(i64::MAX));
                }
            }
        }
        if let Some(Ok(hedge)) = self.hedge.as_deref().map(bson::RawDocument::from_bytes) {
            bson::append_raw_document(out, "hedge", hedge);
        }
        bson::end_document(out, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(name: &str, value: &str) -> TagSet {
        TagSet(vec![(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn mode_primary_takes_nothing_else() {
        let of = |tags, staleness| ReadPreference::new(Mode::Primary, tags, staleness, None);
        assert_eq!(of(vec![tag("dc", "ny")], -1), Err(ReadPreferenceError::TagsWithPrimary));
        assert_eq!(of(vec![], 90), Err(ReadPreferenceError::MaxStalenessWithPrimary));
        assert_eq!(of(vec![TagSet::default()], -1), Ok(ReadPreference::PRIMARY));
    }

    #[test]
    fn a_limit_on_staleness_is_positive() {
        for found in [0, -2, i64::MIN] {
            let made = ReadPreference::new(Mode::Nearest, vec![], found, None);
            assert_eq!(made, Err(ReadPreferenceError::MaxStaleness { found }));
        }
    }

    #[test]
    fn a_command_carries_mode_tags_and_staleness() {
        let tags = vec![tag("dc", "ny"), TagSet::default()];
        let preference = ReadPreference::new(Mode::SecondaryPreferred, tags, 120, None).unwrap();
        let mut out = Vec::new();
        let start = bson::begin_document(&mut out);
        preference.append_to(&mut out, "$readPreference");
        bson::end_document(&mut out, start);
        let document = bson::RawDocument::from_bytes(&out).unwrap();
        let inner = document.get_document("$readPreference").unwrap().unwrap();
        assert_eq!(inner.get_str("mode").unwrap(), Some("secondaryPreferred"));
        assert_eq!(inner.get_i64_lenient("maxStalenessSeconds").unwrap(), Some(120));
        assert_eq!(inner.get_array("tags").unwrap().unwrap().iter().count(), 2);
    }

    #[test]
    fn a_command_carries_staleness_in_as_few_bytes_as_it_needs() {
        for (seconds, code) in [(90, 0x10), (i64::from(i32::MAX), 0x10), (i64::from(i32::MAX) + 1, 0x12)] {
            let preference = ReadPreference::new(Mode::Nearest, vec![], seconds, None).unwrap();
            let mut out = Vec::new();
            preference.append_to(&mut out, "$readPreference");
            let name = b"maxStalenessSeconds\0";
            let at = out.windows(name.len()).position(|window| window == name).unwrap();
            assert_eq!(out[at - 1], code, "{seconds}");
        }
    }

    #[test]
    fn every_mode_has_its_own_name() {
        for (name, mode) in MODES {
            assert_eq!((Mode::from_name(name), mode.name()), (Some(*mode), *name));
        }
        assert_eq!(Mode::from_name("Primary"), None);
    }
}
