//! JSON of others, read into what is wanted of it: a value of another kind is not known, and spoils nothing
//! around it.
//!
//! What is not wanted is passed over, and never kept. Leans on the crate `serde`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value that may be missing, or of another kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Maybe<T>(pub(super) Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// What a value is wanted to be; each kind takes what is one.
pub(super) trait Kind: Sized {
    fn of_number(_: u64) -> Option<Self> {
        None
    }

    fn of_decimal(_: f64) -> Option<Self> {
        None
    }

    fn of_text(_: &str) -> Option<Self> {
        None
    }

    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl Kind for u64 {
    fn of_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Kind for f64 {
    fn of_number(number: u64) -> Option<Self> {
        Some(number as Self)
    }

    fn of_decimal(number: f64) -> Option<Self> {
        Some(number)
    }
}

impl Kind for String {
    fn of_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

/// Those of its items that are of the kind.
impl<T: Kind> Kind for Vec<T> {
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(Maybe(item)) = list.next_element()? {
            items.extend(item);
        }
        Ok(Some(items))
    }
}

/// Makes structs that are deserialized from objects kinds.
macro_rules! objects {
    ($($name:ident),* $(,)?) => {
        $(impl Kind for $name {
            fn of_object<'de, A: serde::de::MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
                let object = serde::de::value::MapAccessDeserializer::new(object);
                Self::deserialize(object).map(Some)
            }
        })*
    };
}
pub(super) use objects;

impl<'de, T: Kind> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData)).map(Self)
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Kind> Visitor<'de> for Reader<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<T>, E> {
        Ok(u64::try_from(number).ok().and_then(T::of_number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<T>, E> {
        Ok(T::of_number(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<T>, E> {
        Ok(T::of_decimal(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<T>, E> {
        Ok(T::of_text(text))
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Option<T>, A::Error> {
        T::of_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Option<T>, A::Error> {
        T::of_object(object)
    }
}
