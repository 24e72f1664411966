//! The type of a column, read from its format string and its extension type.

use crate::MAX_DEPTH;

/// How the positions of texts, bytes and list items are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// By offsets of 32 bits.
    Small,
    /// By offsets of 64 bits.
    Large,
    /// By views of 16 bytes, which hold short values and point to long ones.
    View,
}

/// The unit of moments, counted since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the units")]
pub enum Moment {
    /// In 32 bits; the others in 64.
    Days,
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing but nulls.
    Null,
    /// True and false, as bits.
    Bool,
    /// Integers of a size in bytes.
    Int {
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// Whether they may be below zero.
        is_signed: bool,
    },
    /// Floating point numbers of this many bytes: 2, 4 or 8.
    Float(u8),
    /// Moments; fractions of a millisecond are dropped, since BSON cannot hold them.
    Moment(Moment),
    /// Twelve bytes whose extension type is ObjectId.
    ObjectId,
    /// Sixteen bytes whose extension type is UUID.
    Uuid,
    /// Sixteen bytes whose extension type is BSON's decimal.
    BsonDecimal,
    /// Byte strings of one length.
    Fixed(usize),
    /// Decimal numbers: integers of 4, 8 or 16 bytes, and how many of their digits are after the point.
    Decimal {
        /// 4, 8 or 16.
        bytes: u8,
        /// May be below zero.
        scale: i32,
    },
    /// UTF-8.
    Text(Width),
    /// UTF-8 whose extension type is JavaScript.
    Code(Width),
    /// Bytes, with BSON's subtype.
    Bytes(Width, u8),
    /// Lists.
    List {
        /// Whether offsets have 64 bits.
        is_large: bool,
        /// The type of the items.
        item: Box<Form>,
    },
    /// Lists of one length.
    FixedList {
        /// That length.
        size: usize,
        /// The type of the items.
        item: Box<Form>,
    },
    /// Documents.
    Struct(Vec<FormField>),
    /// Indexes into distinct values.
    Dictionary {
        /// Bytes of an index: 1, 2, 4 or 8.
        bytes: u8,
        /// Whether indexes are signed numbers.
        is_signed: bool,
        /// The type of the values.
        values: Box<Form>,
    },
}

/// A named column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormField {
    /// The key.
    pub name: String,
    /// The form of its values.
    pub form: Form,
}

impl Form {
    /// Reads a format string with its children and extension type.
    ///
    /// `extension` is the name of an extension type and its metadata; `children` and `dictionary` were read before.
    ///
    /// # Errors
    /// BSON has no such type, or its parts are wrong; the error names them.
    pub fn parse(
        format: &str,
        extension: Option<(&str, &str)>,
        children: Vec<FormField>,
        dictionary: Option<Form>,
    ) -> Result<Self, String> {
        if let Some(values) = dictionary {
            return match Self::plain(format) {
                Some(Self::Int { bytes, is_signed }) if children.is_empty() => {
                    Ok(Self::Dictionary { bytes, is_signed, values: Box::new(values) })
                }
                _ => Err(format!("expected integers as indexes of a dictionary, got format {format:?}")),
            };
        }
        if let Some(kind) = format.strip_prefix('+') {
            return Self::nested(kind, children).ok_or_else(|| unknown(format));
        }
        if !children.is_empty() {
            return Err(format!("expected no columns inside of format {format:?}, got {}", children.len()));
        }
        let form = Self::plain(format).ok_or_else(|| unknown(format))?;
        Ok(match (extension, form) {
            (Some(("pymongoarrow.objectid", _)), Self::Fixed(12)) => Self::ObjectId,
            (Some(("pymongoarrow.decimal128", _)), Self::Fixed(16)) => Self::BsonDecimal,
            (Some(("arrow.uuid", _)), Self::Fixed(16)) => Self::Uuid,
            (Some(("pymongoarrow.code", _)), Self::Text(width)) => Self::Code(width),
            (Some(("pymongoarrow.binary", told)), Self::Bytes(width, _)) => {
                let subtype = told.strip_prefix("subtype=").and_then(|number| number.parse().ok());
                Self::Bytes(
                    width,
                    subtype.ok_or_else(|| format!("expected the subtype of a binary type, got {told:?}"))?,
                )
            }
            (_, form) => form,
        })
    }

    fn plain(format: &str) -> Option<Self> {
        let int = |bytes, is_signed| Self::Int { bytes, is_signed };
        Some(match format {
            "n" => Self::Null,
            "b" => Self::Bool,
            "c" => int(1, true),
            "C" => int(1, false),
            "s" => int(2, true),
            "S" => int(2, false),
            "i" => int(4, true),
            "I" => int(4, false),
            // Durations become numbers, as in PyMongoArrow.
            "l" | "tDs" | "tDm" | "tDu" | "tDn" => int(8, true),
            "L" => int(8, false),
            "e" => Self::Float(2),
            "f" => Self::Float(4),
            "g" => Self::Float(8),
            "u" => Self::Text(Width::Small),
            "U" => Self::Text(Width::Large),
            "vu" => Self::Text(Width::View),
            "z" => Self::Bytes(Width::Small, 0),
            "Z" => Self::Bytes(Width::Large, 0),
            "vz" => Self::Bytes(Width::View, 0),
            "tdD" => Self::Moment(Moment::Days),
            "tdm" => Self::Moment(Moment::Milliseconds),
            _ => return Self::with_parameters(format),
        })
    }

    fn with_parameters(format: &str) -> Option<Self> {
        let (kind, told) = format.split_once(':')?;
        Some(match kind {
            "w" => Self::Fixed(told.parse().ok().filter(|size| *size <= i32::MAX as usize)?),
            "d" => {
                let mut parts = told.split(',');
                let (_precision, scale) = (parts.next()?, parts.next()?.parse().ok()?);
                let bits: u32 = parts.next().map_or(Some(128), |bits| bits.parse().ok())?;
                let is_known = matches!(bits, 32 | 64 | 128) && parts.next().is_none();
                is_known.then_some(Self::Decimal { bytes: (bits / 8) as u8, scale })?
            }
            "tss" => Self::Moment(Moment::Seconds),
            "tsm" => Self::Moment(Moment::Milliseconds),
            "tsu" => Self::Moment(Moment::Microseconds),
            "tsn" => Self::Moment(Moment::Nanoseconds),
            _ => return None,
        })
    }

    fn nested(kind: &str, mut children: Vec<FormField>) -> Option<Self> {
        let item = |children: &mut Vec<FormField>| {
            (children.len() == 1).then(|| children.pop().map(|field| Box::new(field.form))).flatten()
        };
        Some(match kind {
            "s" => Self::Struct(children),
            "l" => Self::List { is_large: false, item: item(&mut children)? },
            "L" => Self::List { is_large: true, item: item(&mut children)? },
            // Pairs of a key and a value.
            "m" => Self::List { is_large: false, item: item(&mut children)? },
            _ => {
                let size = kind.strip_prefix("w:")?.parse().ok().filter(|size| *size <= i32::MAX as usize)?;
                Self::FixedList { size, item: item(&mut children)? }
            }
        })
    }

    /// Refuses types nested too deeply, and documents with a repeated name.
    ///
    /// # Errors
    /// The error names the type or the field.
    pub fn check(&self) -> Result<(), String> {
        self.check_at(0)
    }

    fn check_at(&self, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("expected at most {MAX_DEPTH} levels of nesting, got more"));
        }
        match self {
            Self::Struct(fields) => {
                let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                names.sort_unstable();
                if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(format!("expected each name once, got {:?} twice", pair[0]));
                }
                fields.iter().try_for_each(|field| field.form.check_at(depth + 1))
            }
            Self::List { item, .. } | Self::FixedList { item, .. } => item.check_at(depth + 1),
            Self::Dictionary { values, .. } => values.check_at(depth + 1),
            _ => Ok(()),
        }
    }
}

fn unknown(format: &str) -> String {
    format!("expected a type that BSON has, got Arrow's {format:?}; cast the column")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(format: &str) -> Result<Form, String> {
        Form::parse(format, None, Vec::new(), None)
    }

    #[test]
    fn format_strings_are_read_whole_or_not_at_all() {
        assert_eq!(parsed("d:38,-3"), Ok(Form::Decimal { bytes: 16, scale: -3 }));
        assert_eq!(parsed("d:9,2,32"), Ok(Form::Decimal { bytes: 4, scale: 2 }));
        assert_eq!(parsed("tsn:Europe/Paris"), Ok(Form::Moment(Moment::Nanoseconds)));
        assert_eq!(parsed("w:0"), Ok(Form::Fixed(0)));
        for wrong in [
            "",
            "x",
            "d:",
            "d:9",
            "d:9,x",
            "d:9,2,256",
            "w:",
            "w:-1",
            "w:99999999999",
            "ttm",
            "+l",
            "+r",
            "ts",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn extension_types_need_their_storage() {
        let id = Some(("pymongoarrow.objectid", ""));
        assert_eq!(Form::parse("w:12", id, Vec::new(), None), Ok(Form::ObjectId));
        assert_eq!(Form::parse("w:11", id, Vec::new(), None), Ok(Form::Fixed(11)));
        let subtype = |told| Form::parse("z", Some(("pymongoarrow.binary", told)), Vec::new(), None);
        assert_eq!(subtype("subtype=128"), Ok(Form::Bytes(Width::Small, 128)));
        assert!(subtype("subtype=256").is_err());
    }

    #[test]
    fn names_that_repeat_and_deep_nesting_are_refused() {
        let field = || FormField { name: "a".into(), form: Form::Null };
        assert!(Form::Struct(vec![field(), field()]).check().is_err());
        let mut deep = Form::Null;
        for _ in 0..=MAX_DEPTH {
            deep = Form::List { is_large: false, item: Box::new(deep) };
        }
        assert!(deep.check().is_err());
    }
}
