//! Structs that read the JSON fields they know and carry the ones they do not.
//!
//! `serde(flatten)` would do the same, but it buffers every value and loses speed on the hottest path there is: loading a log.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

/// JSON fields that this version does not know, in the order in which they were read. They are written back as they came.
#[derive(Clone, Default, PartialEq)]
pub struct Extra(Option<Box<Map<String, Value>>>);

impl Extra {
    /// The value of an unknown field.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.as_ref()?.get(key)
    }

    /// Sets a field, replacing an older value of the same name.
    pub fn insert(&mut self, key: impl Into<String>, value: Value) {
        self.0.get_or_insert_default().insert(key.into(), value);
    }

    /// Whether there is no unknown field.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|map| map.is_empty())
    }

    /// The fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().flat_map(|map| map.iter())
    }

    /// Writes the fields that `known` does not claim for a value of its own.
    pub(crate) fn serialize_into<M: SerializeMap>(
        &self,
        map: &mut M,
        known: impl Fn(&str) -> bool,
    ) -> Result<(), M::Error> {
        for (key, value) in self.iter() {
            if !known(key) {
                map.serialize_entry(key, value)?;
            }
        }
        Ok(())
    }
}

impl From<Map<String, Value>> for Extra {
    fn from(map: Map<String, Value>) -> Self {
        Self((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A map key, borrowed from the input where it holds no escape.
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(v.to_owned())))
            }
            fn visit_string<E>(self, v: String) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(v)))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// Declares a struct with `required`, `nullable` (must be present, may be null) and `optional` fields plus `extra`.
///
/// An `exact` field is a required list without spare room: serde makes room for four blocks where nearly every message has one,
/// and a log holds many messages. A null in an optional field is kept as an unknown null, so that it is written back.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$fmeta:meta])* $mode:ident $field:ident : $ty:ty = $key:literal ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$fmeta])* pub $field: $crate::message::record::record!(@type $mode $ty), )*
            /// Fields that this version does not know; written back as they came.
            pub extra: $crate::message::Extra,
        }

        impl $name {
            /// A known field that stands among the unknown ones, where it would be lost or read as something else. A null of an
            /// optional field is what reading leaves there.
            #[allow(dead_code)]
            pub(crate) fn misplaced_field(&self) -> Option<&'static str> {
                $( if self.extra.get($key).is_some_and(|value| {
                    $crate::message::record::record!(@claims $mode self $field) || !value.is_null()
                }) {
                    return Some($key);
                } )*
                None
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct RecordVisitor;
                impl<'de> serde::de::Visitor<'de> for RecordVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object with the fields of ", stringify!($name)))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        #[allow(unused_mut)]
                        let mut extra = $crate::message::Extra::default();
                        $( let mut $field: Option<$crate::message::record::record!(@slot $mode $ty)> = None; )*
                        while let Some($crate::message::record::Key(key)) = map.next_key()? {
                            match key.as_ref() {
                                $( $key => { $crate::message::record::record!(@read $mode map extra key $field $ty) } )*
                                _ => extra.insert(key, map.next_value()?),
                            }
                        }
                        Ok($name { $( $field: $crate::message::record::record!(@done $mode $field $key), )* extra })
                    }
                }
                deserializer.deserialize_map(RecordVisitor)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $( $crate::message::record::record!(@write $mode map self $field $key); )*
                self.extra.serialize_into(&mut map, |key| match key {
                    $( $key => $crate::message::record::record!(@claims $mode self $field), )*
                    _ => false,
                })?;
                map.end()
            }
        }
    };
    (@type required $ty:ty) => { $ty };
    (@type exact $ty:ty) => { $ty };
    (@type nullable $ty:ty) => { Option<$ty> };
    (@type optional $ty:ty) => { Option<$ty> };
    (@slot required $ty:ty) => { $ty };
    (@slot exact $ty:ty) => { $ty };
    (@slot nullable $ty:ty) => { Option<$ty> };
    (@slot optional $ty:ty) => { $ty };
    (@read required $map:ident $extra:ident $key:ident $field:ident $ty:ty) => { $field = Some($map.next_value()?) };
    (@read exact $map:ident $extra:ident $key:ident $field:ident $ty:ty) => {{
        let mut list = $map.next_value::<$ty>()?;
        list.shrink_to_fit();
        $field = Some(list);
    }};
    (@read nullable $map:ident $extra:ident $key:ident $field:ident $ty:ty) => { $field = Some($map.next_value()?) };
    (@read optional $map:ident $extra:ident $key:ident $field:ident $ty:ty) => {
        match $map.next_value::<Option<$ty>>()? {
            Some(value) => $field = Some(value),
            None => $extra.insert($key, serde_json::Value::Null),
        }
    };
    (@done required $field:ident $key:literal) => {
        $field.ok_or_else(|| serde::de::Error::missing_field($key))?
    };
    (@done exact $field:ident $key:literal) => {
        $field.ok_or_else(|| serde::de::Error::missing_field($key))?
    };
    (@done nullable $field:ident $key:literal) => {
        $field.ok_or_else(|| serde::de::Error::missing_field($key))?
    };
    (@done optional $field:ident $key:literal) => { $field };
    (@write required $map:ident $self:ident $field:ident $key:literal) => { $map.serialize_entry($key, &$self.$field)? };
    (@write exact $map:ident $self:ident $field:ident $key:literal) => { $map.serialize_entry($key, &$self.$field)? };
    (@write nullable $map:ident $self:ident $field:ident $key:literal) => { $map.serialize_entry($key, &$self.$field)? };
    (@write optional $map:ident $self:ident $field:ident $key:literal) => {
        if let Some(value) = &$self.$field { $map.serialize_entry($key, value)?; }
    };
    (@claims required $self:ident $field:ident) => { true };
    (@claims exact $self:ident $field:ident) => { true };
    (@claims nullable $self:ident $field:ident) => { true };
    (@claims optional $self:ident $field:ident) => { $self.$field.is_some() };
}
pub(crate) use record;
