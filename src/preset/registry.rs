//! The presets that a host offers.

use serde_json::Value;

use super::{Preset, PresetError, is_preset_id};
use crate::session::SessionHeader;

/// What a registry refuses.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// An id that is none.
    #[error("id is {id:?}; it must be [a-z0-9][a-z0-9-]*")]
    BadId {
        /// The id.
        id: String,
    },
    /// Another preset has the id.
    #[error("a preset {id:?} is registered already; replace it, or choose another id")]
    Duplicate {
        /// The id.
        id: String,
    },
    /// A text that does not even say which preset it is.
    #[error("this is no preset: {why}")]
    NoId {
        /// What is wrong with it.
        why: String,
    },
    /// No preset has this id.
    #[error("no preset is called {id:?}; there are {known}")]
    Unknown {
        /// The id.
        id: String,
        /// The known ids.
        known: String,
    },
    /// The preset is switched off.
    #[error("preset {id:?} is switched off")]
    Off {
        /// The id.
        id: String,
    },
    /// The preset is broken.
    #[error("preset {id:?} cannot be used: {why}")]
    Broken {
        /// The id.
        id: String,
        /// Why.
        why: PresetError,
    },
    /// The default cannot be switched off, removed or broken.
    #[error("preset {id:?} is the default, which must be on and whole; choose another default first")]
    IsDefault {
        /// The id.
        id: String,
    },
    /// A conversation names no preset, and there is no default.
    #[error("the conversation names no preset, and there is no default; set_default chooses one")]
    NoDefault,
}

impl RegistryError {
    /// A stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadId { .. } => "bad-id",
            Self::Duplicate { .. } => "duplicate",
            Self::NoId { .. } => "no-id",
            Self::Unknown { .. } => "unknown",
            Self::Off { .. } => "off",
            Self::Broken { .. } => "broken",
            Self::IsDefault { .. } => "is-default",
            Self::NoDefault => "no-default",
        }
    }
}

/// A preset as a registry lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryEntry {
    id: String,
    name: String,
    order: u32,
    on: bool,
    preset: Result<Box<Preset>, PresetError>,
}

impl RegistryEntry {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its name, or its id where it is too broken to have one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its place in a picker.
    pub fn order(&self) -> u32 {
        self.order
    }

    /// Whether it is switched on.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The preset, or what is wrong with it.
    pub fn preset(&self) -> Result<&Preset, &PresetError> {
        self.preset.as_deref()
    }
}

/// The presets that a host offers: the built-ins and its own, with a default and switches.
///
/// ```
/// use arya_presets::Registry;
///
/// let mut registry = Registry::builtin();
/// assert_eq!(registry.default_preset().map(|preset| preset.id.as_str()), Some("arya-standard"));
/// registry.set_on("arya-qwen", false)?;
/// assert!(registry.get("arya-qwen").is_err());
/// # Ok::<(), arya_presets::RegistryError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Registry {
    entries: Vec<RegistryEntry>,
    default: Option<String>,
}

impl Registry {
    /// A registry without presets and without a default.
    pub fn empty() -> Self {
        Self { entries: Vec::new(), default: None }
    }

    /// The five presets of this crate, `arya-standard` being the default.
    pub fn builtin() -> Self {
        let mut registry = Self::empty();
        for preset in Preset::builtins() {
            let entry = RegistryEntry::of(preset);
            registry.entries.push(entry);
        }
        registry.default = Some("arya-standard".into());
        registry
    }

    /// Adds a preset. One that is broken is listed with its reason; a malformed id or one that is taken is refused.
    pub fn add(&mut self, preset: Preset) -> Result<&RegistryEntry, RegistryError> {
        self.insert(RegistryEntry::of(preset))
    }

    /// Adds a preset from JSON. One that is broken, or of another shape, is listed with its reason as long as it has an id.
    pub fn add_json(&mut self, text: &str) -> Result<&RegistryEntry, RegistryError> {
        self.insert(RegistryEntry::read(text)?)
    }

    /// Puts a preset in the place of the one with its id, a broken one for instance; the switch stays as it was. Refused where none
    /// has the id, and where the default would be broken.
    pub fn replace(&mut self, preset: Preset) -> Result<&RegistryEntry, RegistryError> {
        let mut entry = RegistryEntry::of(preset);
        entry.on = self.entry(&entry.id)?.on;
        if self.default.as_ref() == Some(&entry.id) && entry.preset.is_err() {
            return Err(RegistryError::IsDefault { id: entry.id });
        }
        self.entries.retain(|known| known.id != entry.id);
        self.insert(entry)
    }

    /// Takes a preset out. The default cannot be taken out.
    pub fn remove(&mut self, id: &str) -> Result<RegistryEntry, RegistryError> {
        if self.default.as_deref() == Some(id) {
            return Err(RegistryError::IsDefault { id: id.into() });
        }
        let at = self.entries.iter().position(|entry| entry.id == id).ok_or_else(|| self.unknown(id))?;
        Ok(self.entries.remove(at))
    }

    fn insert(&mut self, entry: RegistryEntry) -> Result<&RegistryEntry, RegistryError> {
        if !is_preset_id(&entry.id) {
            return Err(RegistryError::BadId { id: entry.id });
        }
        if self.entries.iter().any(|known| known.id == entry.id) {
            return Err(RegistryError::Duplicate { id: entry.id });
        }
        let at = self.entries.partition_point(|known| (known.order, &known.id) < (entry.order, &entry.id));
        let id = entry.id.clone();
        self.entries.insert(at, entry);
        self.entry(&id)
    }

    /// Every preset in the order of a picker, those that are off or broken included.
    pub fn entries(&self) -> &[RegistryEntry] {
        &self.entries
    }

    /// The entry of an id.
    pub fn entry(&self, id: &str) -> Result<&RegistryEntry, RegistryError> {
        let entry = self.entries.iter().find(|entry| entry.id == id);
        entry.ok_or_else(|| self.unknown(id))
    }

    fn unknown(&self, id: &str) -> RegistryError {
        let known: Vec<&str> = self.entries.iter().map(|entry| entry.id.as_str()).collect();
        RegistryError::Unknown { id: id.into(), known: known.join(", ") }
    }

    /// The preset for a new conversation: it must be on and whole.
    pub fn get(&self, id: &str) -> Result<&Preset, RegistryError> {
        let entry = self.entry(id)?;
        if !entry.on {
            return Err(RegistryError::Off { id: id.into() });
        }
        entry.preset().map_err(|why| RegistryError::Broken { id: id.into(), why: why.clone() })
    }

    /// The preset of an existing conversation, which keeps it for its life: one that is off serves it all the same. A conversation
    /// that names none has the default.
    pub fn of_session(&self, header: &SessionHeader) -> Result<&Preset, RegistryError> {
        let id = header.agent_preset.as_deref().or(self.default.as_deref()).ok_or(RegistryError::NoDefault)?;
        let entry = self.entry(id)?;
        entry.preset().map_err(|why| RegistryError::Broken { id: id.into(), why: why.clone() })
    }

    /// Switches a preset on or off for new conversations. The default cannot be switched off.
    pub fn set_on(&mut self, id: &str, on: bool) -> Result<(), RegistryError> {
        if !on && self.default.as_deref() == Some(id) {
            return Err(RegistryError::IsDefault { id: id.into() });
        }
        let unknown = self.unknown(id);
        let entry = self.entries.iter_mut().find(|entry| entry.id == id).ok_or(unknown)?;
        entry.on = on;
        Ok(())
    }

    /// Chooses the default: a preset that is on and whole.
    pub fn set_default(&mut self, id: &str) -> Result<(), RegistryError> {
        self.get(id)?;
        self.default = Some(id.into());
        Ok(())
    }

    /// The preset of a conversation for which nobody chose one.
    pub fn default_preset(&self) -> Option<&Preset> {
        self.get(self.default.as_deref()?).ok()
    }
}

impl RegistryEntry {
    fn of(preset: Preset) -> Self {
        let checked = preset.validate();
        let name = if preset.name.trim().is_empty() { &preset.id } else { &preset.name };
        Self {
            id: preset.id.clone(),
            name: name.clone(),
            order: preset.order,
            on: true,
            preset: checked.map(|()| Box::new(preset)),
        }
    }

    /// The entry of a preset's JSON: where it is of another shape, as much of it as can be told.
    fn read(text: &str) -> Result<Self, RegistryError> {
        let why = match Preset::from_json(text) {
            Ok(preset) => return Ok(Self::of(preset)),
            Err(why) => why,
        };
        let value: Value =
            serde_json::from_str(text).map_err(|error| RegistryError::NoId { why: error.to_string() })?;
        let id = value.get("id").and_then(Value::as_str).map(str::to_owned);
        let id = id.ok_or_else(|| RegistryError::NoId { why: "it must be an object with an id".into() })?;
        let name = value.get("name").and_then(Value::as_str).filter(|name| !name.trim().is_empty());
        let name = name.unwrap_or(&id).to_owned();
        let order = value.get("order").and_then(Value::as_u64).and_then(|order| u32::try_from(order).ok());
        Ok(Self { id, name, order: order.unwrap_or(u32::MAX), on: true, preset: Err(why) })
    }
}
